#!/usr/bin/env python3
"""Upload the pages to the registry; with --check ask whether they are there."""

import http.client
import sys
from pathlib import Path

PLACE = "/releases/pages"


class RegistryError(Exception):
    """The registry did not do what was asked."""


def ask(method: str, body: bytes | None = None) -> None:
    port = int(Path("ports/registry").read_text())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, PLACE, body)
    answer = connection.getresponse()
    text = answer.read().decode()
    print(f"{method} http://127.0.0.1:{port}{PLACE}\nHTTP/1.1 {answer.status} {answer.reason}")
    print("".join(f"{name}: {value}\n" for name, value in answer.getheaders()), text, sep="\n", flush=True)
    if answer.status >= http.client.BAD_REQUEST:
        raise RegistryError(f"HTTP {answer.status} {answer.reason}")


if __name__ == "__main__":
    if "--check" in sys.argv:
        ask("GET")
    else:
        ask("PUT", Path("build/pages.tar").read_bytes())
