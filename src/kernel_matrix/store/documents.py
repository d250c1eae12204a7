"""JSON documents of checks and calibrations: each in a file of its own, or many in one file with a line each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import XZ, compressed_for, content_of, write_atomically

PACKED = "documents.jsonl.xz"
_MANY, _ONE = (".jsonl", f".jsonl{XZ}"), ".json"


def documents(*folders: Path, name: str = "*") -> Iterator[tuple[Path, bytes]]:
    """Yield the documents below folders, each with its file: files ``NAME.json``, and the lines of packed files.

    With a ``name``, only files that have it count, and none is packed.
    """
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.suffix == _ONE and fnmatchcase(path.stem, name):
            yield path, path.read_bytes()
        elif path.name.endswith(_MANY) and name == "*":
            yield from ((path, line) for line in content_of(path).splitlines())


def pack(folders: Sequence[Path], into: Path) -> int:
    """Put the documents below some folders, and those that lie in ``into``, into one file there; return their number.

    Of ``into`` no other document is left. A document takes the place of an earlier one of the same cells or command.

    Raises:
        UserError: a folder does not exist or has no document, or a file has none.
    """
    kept: dict[str, tuple[str, str]] = {}
    own = [path for path in into.iterdir() if path.name.endswith((_ONE, *_MANY))] if into.is_dir() else []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: there is no such folder.")
    for path, text in (*documents(into), *documents(*folders)):
        try:
            content = json.loads(text)
            cells = sorted(cell["cell"] for cell in content.get("cells", ()))
            key = json.dumps([content.get("name"), content.get("command"), cells])
            line = json.dumps(content, separators=(",", ":"))
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            raise UserError(f"{path}: nothing was packed: it is no document of a check ({error}).") from None
        when = str(content.get("when", ""))
        if key not in kept or when >= kept[key][0]:
            kept[key] = when, line
    if not kept:
        raise UserError(f"{', '.join(map(str, folders))}: there is no document to pack.")
    into.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{line}\n" for _, line in (kept[key] for key in sorted(kept)))
    write_atomically(into / PACKED, compressed_for(into / PACKED, lines))
    for path in own:
        if path.name != PACKED:
            path.unlink()
    return len(kept)
