"""Run web servers during a test."""

from __future__ import annotations

import contextlib
import functools
import http.server
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

# Seconds between two looks for the end of a server. By default they are half a second, for each test.
_POLL = 0.05


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Answer requests in a thread, and end it and close the server afterwards."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder as a plain web server does, and give the address, which ends with a slash."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None: ...
