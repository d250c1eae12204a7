"""Stand-ins for object stores on this machine, each in a process of its own: ``object_stores.py s3|gs FOLDER``.

Arrow holds the lock of Python's interpreter while it asks Google Cloud Storage whether a file is open, so no thread of
the same process can answer it.
"""

from __future__ import annotations

import http.server
import json
import re
import sys
from pathlib import Path
from urllib.parse import ParseResult, parse_qs, unquote, urlparse


class _Store(http.server.BaseHTTPRequestHandler):
    """Answer as an object store does that has the files of a folder in its bucket."""

    folder: Path

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, *, body: bool = True) -> None:
        self.answer(urlparse(self.path), body=body)

    def answer(self, url: ParseResult, *, body: bool) -> None:
        raise NotImplementedError

    def files(self, prefix: str) -> list[tuple[str, int]]:
        """Return the names and sizes of the files whose names begin with a prefix."""
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        listed = [(path.relative_to(self.folder).as_posix(), path.stat().st_size) for path in files]
        return [(name, size) for name, size in listed if name.startswith(prefix)]

    def send(self, status: int, content: bytes, headers: dict[str, str] | None = None, *, body: bool = True) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def send_file(self, name: str, *, body: bool) -> None:
        """Send a file, or the part that the request asks for."""
        content = (self.folder / name).read_bytes()
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(match[1]), min(int(match[2] or len(content)), len(content) - 1)
            whole = f"bytes {first}-{last}/{len(content)}"
            self.send(206, content[first : last + 1], {"Content-Range": whole}, body=body)
        else:
            self.send(200, content, body=body)

    def log_message(self, *_: object) -> None: ...


class _S3(_Store):
    """Answer as S3 does: list, head and get."""

    def answer(self, url: ParseResult, *, body: bool) -> None:
        key = unquote(url.path).removeprefix("/bucket").strip("/")
        if "list-type" in parse_qs(url.query):
            entries = "".join(
                f"<Contents><Key>{name}</Key><Size>{size}</Size>"
                f"<LastModified>2026-11-22T00:00:00.000Z</LastModified></Contents>"
                for name, size in self.files(parse_qs(url.query).get("prefix", [""])[0])
            )
            self.send(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode())
        elif not key or not (self.folder / key).is_file():
            self.send(200 if not key else 404, b"", body=body)
        else:
            self.send_file(key, body=body)


class _Gcs(_Store):
    """Answer as Google Cloud Storage does: the JSON API for lists and metadata, and either API for content."""

    def answer(self, url: ParseResult, *, body: bool) -> None:
        path, of_api = unquote(url.path), "/storage/v1/b/bucket/o"
        key = path.removeprefix(of_api).removeprefix("/bucket").strip("/")
        if path == of_api:
            items = [self.entry(name, size) for name, size in self.files(parse_qs(url.query).get("prefix", [""])[0])]
            self.send(200, json.dumps({"kind": "storage#objects", "items": items}).encode())
        elif not (self.folder / key).is_file():
            self.send(404, b'{"error": {"code": 404, "message": "No such object"}}')
        elif path.startswith(of_api) and "alt" not in parse_qs(url.query):
            self.send(200, json.dumps(self.entry(key, (self.folder / key).stat().st_size)).encode())
        else:
            self.send_file(key, body=body)

    def entry(self, name: str, size: int) -> dict[str, str]:
        time = "2026-11-22T00:00:00.000Z"
        known = {"kind": "storage#object", "bucket": "bucket", "name": name, "size": str(size), "generation": "1"}
        return {**known, "metageneration": "1", "timeCreated": time, "updated": time}


STORES = {"s3": _S3, "gs": _Gcs}


def main(kind: str, folder: Path) -> None:
    """Serve the files of a folder, and print the port first."""
    handler = type("Store", (STORES[kind],), {"folder": folder})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
