#!/usr/bin/env python3
"""Serve the pages on the preview's port: fetch one and stop, or with --keep go on until POST /-/quit."""

import http.client
import sys
import threading
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer

PORT_FILE = Path("ports/preview")


class Preview(ThreadingTCPServer):
    allow_reuse_address = True  # a port in TIME_WAIT may be taken again; one that somebody listens on may not
    daemon_threads = True


class Pages(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        found = self.path == "/-/quit"
        self.send_response(202 if found else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if found:
            threading.Thread(target=self.server.shutdown).start()


def keep() -> None:
    with Preview(("127.0.0.1", 0), Pages) as server:
        PORT_FILE.parent.mkdir(exist_ok=True)
        fresh = PORT_FILE.with_suffix(".new")
        fresh.write_text(str(server.server_address[1]))
        fresh.replace(PORT_FILE)
        server.serve_forever(poll_interval=0.05)


def fetch_once() -> None:
    with Preview(("127.0.0.1", int(PORT_FILE.read_text())), Pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
        connection.request("GET", "/docs/commands.md")
        answer = connection.getresponse()
        print(f"GET /docs/commands.md: {answer.status}, {len(answer.read())} bytes")
        connection.close()
        server.shutdown()
    if answer.status != http.client.OK:
        raise SystemExit(f"error: the preview answered {answer.status}")


if __name__ == "__main__":
    keep() if "--keep" in sys.argv else fetch_once()
