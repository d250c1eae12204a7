"""The one file that a person sends: a line that says what it is, a signature, the inventory, and the journals.

The signature is of the inventory, and the inventory has the size and the sha256 of each journal. So no byte of the
file can be another one. It is plain text, so that people can read what they send.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.base.printing import CONTROL
from kernel_matrix.store import names
from kernel_matrix.store.validation import Bounds

FIRST_LINE = "kernel-matrix signed results, version 1"
ACCOUNT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|-(?=[A-Za-z0-9])){0,38}")  # the names that GitHub gives
_END = "-----END SSH SIGNATURE-----\n"
_LONGEST = 2**20  # bytes of a signature or an inventory


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class File(_Model):
    """One journal: how long it is, and its digest."""

    bytes: int
    sha256: str


class Inventory(_Model):
    """Say what was run, where, and by whom; the facts of each job name the versions and hashes of its files."""

    version: Literal[1]
    by: str
    key: str
    at: str
    package: str
    commit: str
    machine: dict[str, str]
    outcomes: dict[str, int]
    jobs: list[dict[str, str]]
    files: dict[str, File]


@dataclass(frozen=True)
class Signed:
    """The parts of such a file: the signature, the bytes of the inventory, what they say, and the journals by name."""

    signature: str
    content: bytes
    inventory: Inventory
    journals: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The name that the file and its folder have: whose they are, and what of."""
        return f"{self.inventory.by}-{sha256(self.content).hexdigest()[:12]}"

    @property
    def bytes(self) -> bytes:
        """The whole file."""
        head = f"{FIRST_LINE}\n{self.signature}".encode()
        return b"".join([head, self.content, *(self.journals[name] for name in sorted(self.journals))])


def inventory_bytes(inventory: Inventory) -> bytes:
    """Return an inventory as it is signed: one line."""
    return json.dumps(inventory.model_dump(), sort_keys=True).encode() + b"\n"


def listed(journals: Mapping[str, bytes]) -> dict[str, File]:
    """Return the list of journals for an inventory."""
    return {name: File(bytes=len(text), sha256=sha256(text).hexdigest()) for name, text in journals.items()}


def read(path: Path, bounds: Bounds | None = None) -> Signed:
    """Return the parts of a file that somebody sent. Nothing is said of who signed it.

    Raises:
        UserError: it is no such file, larger than honest ones are, or its journals are not the inventory's.
    """
    bounds = bounds or Bounds()
    try:
        if path.stat().st_size > bounds.file_bytes:
            raise UserError(f"{path}: it has more than {bounds.file_bytes} bytes, and no honest file has.")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: it cannot be read ({error.strerror}).") from None
    head, end, rest = content.partition(_END.encode())
    start = f"{FIRST_LINE}\n".encode()
    if not head.startswith(start) or not end or len(head) > _LONGEST or not head.isascii():
        raise UserError(f"{path}: this is no file that `kernel-matrix send --as ACCOUNT` has written.")
    line, newline, rest = rest.partition(b"\n")
    inventory = parsed(line + newline, str(path))
    if len(inventory.files) > bounds.files:
        raise UserError(f"{path}: it has more than {bounds.files} journals.")
    return Signed((head[len(start) :] + end).decode(), line + newline, inventory, _parts(path, inventory, rest))


def parsed(content: bytes, where: str) -> Inventory:
    """Return what an inventory says.

    Raises:
        UserError: it is none.
    """
    try:
        if len(content) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} bytes")
        inventory = Inventory.model_validate(json.loads(content))
    except ValidationError as error:
        raise UserError(f"{where}: its inventory cannot be used ({first_fault(error)}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: its inventory cannot be read ({' '.join(str(error).split())[:150]}).") from None
    if any(re.search(CONTROL, text) for text in _texts(inventory.model_dump())):
        raise UserError(f"{where}: its inventory has a control character, which no signed file has.")
    if not ACCOUNT.fullmatch(inventory.by) or not all(map(_is_name, inventory.files)):
        raise UserError(f"{where}: its inventory has a name that no account or no journal can have.")
    return inventory


def _texts(value: object) -> Iterator[str]:
    """Yield each text of a value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _is_name(name: str) -> bool:
    """Return whether a name can be a journal's: it has no folder, and no character that leads out of one."""
    return name.endswith(names.JOURNAL) and bool(names.parts_of(name.removesuffix(names.JOURNAL))[1])


def _parts(path: Path, inventory: Inventory, rest: bytes) -> dict[str, bytes]:
    journals: dict[str, bytes] = {}
    for name, file in sorted(inventory.files.items()):
        journals[name], rest = rest[: max(0, file.bytes)], rest[max(0, file.bytes) :]
    if rest or listed(journals) != inventory.files:
        raise UserError(f"{path}: what it holds is not what its inventory lists: it was changed, or is not whole.")
    return journals
