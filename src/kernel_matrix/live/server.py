"""A server of the page for this machine alone, which asks where the newest page is for every file."""

from __future__ import annotations

import errno
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")


class PageServer(ThreadingHTTPServer):
    """Serve the files of the first of some folders that has them."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, folders: Callable[[], tuple[Path, ...]]) -> None:
        """Take the port; 0 is any free one. ``folders`` is called for each request.

        Raises:
            UserError: the port is in use, or may not be taken.
        """
        self.folders = folders
        try:
            super().__init__((HOST, port), _Handler)
        except OverflowError:
            raise UserError(f"--port {port}: a port is a number from 0 to 65535.") from None
        except OSError as error:
            reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise UserError(f"--port {port}: {reason}. Give another one, such as --port {port % 65535 + 1}.") from None

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"


class _Handler(SimpleHTTPRequestHandler):
    """Answer with a file that no browser keeps, because the next one may be another."""

    server: PageServer

    def translate_path(self, path: str) -> str:
        """Return the file in the first folder that has it. The parent refuses what is outside of a folder."""
        for folder in self.server.folders():
            self.directory = str(folder)
            file = super().translate_path(path)
            if Path(file).exists():
                return file
        return super().translate_path(path)

    def send_head(self) -> Any:
        """Refuse a request that names another host: a page of that host would read what stands here."""
        if self.headers.get("Host", HOST).rpartition(":")[0] not in _NAMES:
            self.send_error(403, "this page is for this machine alone")
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - as the parent has it
        """Show no folder that has no page."""
        self.send_error(404, "no page is here")

    def end_headers(self) -> None:
        """Say that the file may change at any time."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Print nothing: a page that is open asks every few seconds."""
