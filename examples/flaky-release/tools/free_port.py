#!/usr/bin/env python3
"""Ask an earlier preview that holds the port to quit, and wait until it has."""

import contextlib
import http.client
import socket
import time
from pathlib import Path

ADDRESS = ("127.0.0.1", int(Path("ports/preview").read_text()))


def answers() -> bool:
    with contextlib.suppress(OSError), socket.create_connection(ADDRESS, timeout=1):
        return True
    return False


if __name__ == "__main__":
    if not answers():
        raise SystemExit(0)
    connection = http.client.HTTPConnection(*ADDRESS, timeout=5)
    connection.request("POST", "/-/quit")
    connection.getresponse().read()
    connection.close()
    give_up_at = time.monotonic() + 5
    while answers():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"error: port {ADDRESS[1]} is still taken")
        time.sleep(0.02)
    print(f"port {ADDRESS[1]} is free")
