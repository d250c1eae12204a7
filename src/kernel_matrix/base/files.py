"""Write files so that no reader ever sees half of one."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernel_matrix.base.errors import UserError

XZ = ".xz"  # ends the name of a file that is kept compressed


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a new file to write into; it becomes ``path`` unless the block fails. Its folder is made where it lacks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, text: str | bytes) -> None:
    """Write ``text`` (UTF-8) to ``path``: a reader sees the former content or all of the new one.

    A folder that is not there is made. A file that has this content stays as it is: a system takes ten times as long to
    replace a file as to read it.
    """
    content = text.encode() if isinstance(text, str) else text
    with suppress(OSError):
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return
    with written_whole(path) as part:
        part.write_bytes(content)


def content_of(path: Path) -> bytes:
    """Return the content of a file, which may be compressed.

    Raises:
        UserError: it is compressed and not whole.
    """
    content = path.read_bytes()
    try:
        return lzma.decompress(content) if path.suffix == XZ else content
    except lzma.LZMAError as error:
        raise UserError(f"{path}: it is no whole xz file ({error}).") from None


def compressed_for(path: Path, text: str) -> bytes:
    """Return the bytes that a text has in a file of this name."""
    content = text.encode()
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME) if path.suffix == XZ else content


def own_output() -> dict[str, Path]:
    """Return the files that the standard output and the standard error of this process go into, by their names."""
    streams = {"output": Path("/proc/self/fd/1"), "error": Path("/proc/self/fd/2")}
    return {name: path.resolve() for name, path in streams.items() if path.is_file()}
