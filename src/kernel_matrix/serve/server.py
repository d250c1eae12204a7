"""A server of the page for this machine alone, which asks where the newest page is for every file."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kernel_matrix.base.errors import UserError

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_OWN = ("same-origin", "none")  # what a browser says of a request of the page, or of an address that a person typed


class PageServer(ThreadingHTTPServer):
    """Serve the files of the first of some folders that has them, to whoever knows the address with its token.

    Every user of this machine can reach the port. A browser that opens the address gets the token as a cookie.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, folders: Callable[[], tuple[Path, ...]]) -> None:
        """Take the port; 0 is any free one. ``folders`` is called for each request.

        Raises:
            UserError: the port is in use, or may not be taken.
        """
        self.folders, self.token = folders, secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OverflowError:
            raise UserError(f"--port {port}: a port is a number from 0 to 65535.") from None
        except OSError as error:
            reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise UserError(f"--port {port}: {reason}. Give another one, such as --port {port % 65535 + 1}.") from None

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.server_address[1]}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: a browser has the same cookies for all ports of a machine."""
        return f"kernel-matrix-{self.server_address[1]}"


class _Handler(SimpleHTTPRequestHandler):
    """Answer with a file that no browser keeps, because the next one may be another."""

    server: PageServer

    def translate_path(self, path: str) -> str:
        """Return the file in the first folder that has it, and an empty path if none has it or a link leads there."""
        for folder in self.server.folders():
            self.directory = str(folder)
            file = Path(super().translate_path(path))  # the parent refuses what is outside of the folder
            try:
                file = file / "index.html" if file.is_dir() else file
                if file.is_file() and not folder.is_symlink():
                    return str(file) if file.resolve().is_relative_to(folder.resolve()) else ""
            except (OSError, ValueError):  # no file can have this name
                return ""
        return ""

    def send_head(self) -> Any:
        """Answer whoever knows the token, and no page of another host."""
        if self.headers.get("Host", HOST).rpartition(":")[0] not in _NAMES:
            self.send_error(403, "this page is for this machine alone")
        elif self.headers.get("Sec-Fetch-Site", "none") not in _OWN:
            self.send_error(403, "this page is for no other page")
        elif self._is_token(parse_qs(urlsplit(self.path).query).get("token", [""])[0]):
            self.send_response(303)
            self.send_header("Location", "/")
            self.send_header(
                "Set-Cookie", f"{self.server.cookie}={self.server.token}; Path=/; HttpOnly; SameSite=Strict"
            )
            self.end_headers()
        elif not self._is_token(self._cookie()):
            self.send_error(403, "open the whole address that serve has printed")
        else:
            return super().send_head()
        return None

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.server.token.encode())

    def end_headers(self) -> None:
        """Say that the file may change at any time, and that no other page may include it."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Print nothing: a page that is open asks every few seconds."""
