#!/usr/bin/env python3
"""A busy registry: it takes an upload from 6 seconds after it was first asked, and until then says how long to wait."""

import json
import math
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer

BUSY_SECONDS = 6.0
PORT_FILE = Path("ports/registry")


class Registry(ThreadingTCPServer):
    daemon_threads = True
    takes_at: float | None = None
    files: dict[str, bytes]


class Requests(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        there = self.path in self.server.files
        self._answer(200 if there else 404, {"path": self.path, "there": there})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        now = time.monotonic()
        self.server.takes_at = self.server.takes_at or now + BUSY_SECONDS
        left = math.ceil(round(self.server.takes_at - now, 3))  # not 7 for 6.0000000001
        if left > 0:
            self._answer(429, {"error": "busy", "retry_after": left}, {"Retry-After": str(left)})
            return
        self.server.files[self.path] = body
        self._answer(201, {"path": self.path, "bytes": len(body)})

    def _answer(self, status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    with Registry(("127.0.0.1", 0), Requests) as server:
        server.files = {}
        PORT_FILE.parent.mkdir(exist_ok=True)
        fresh = PORT_FILE.with_suffix(".new")
        fresh.write_text(str(server.server_address[1]))
        fresh.replace(PORT_FILE)
        server.serve_forever()
