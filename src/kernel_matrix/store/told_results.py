"""Results that were taken from a person: their folder, and the check that nobody has changed them since.

A folder holds the inventory, its signature, and the journals. Whoever reads the journals asks here first.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import journal, names
from kernel_matrix.store.record import TOLD_AT, TOLD_BY, TOLD_INVENTORY, TOLD_KEY
from kernel_matrix.store.signed_file import Inventory, Signed, parsed
from kernel_matrix.store.signing import signed_by
from kernel_matrix.store.validation import Bounds, RefusedError

SIGNATURE = f"{TOLD_INVENTORY}.sig"
FOLDER = "told"  # in a folder of results


def write(signed: Signed, results: Path) -> Path:
    """Keep what a person has sent below a folder of results, and return its folder, which appears whole.

    Raises:
        UserError: it is there already, or a journal cannot be used.
    """
    folder = results / FOLDER / signed.name
    if folder.exists():
        raise UserError(f"{folder}: this file was taken already.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as name:
        part = Path(name) / folder.name
        (part / names.JOURNALS).mkdir(parents=True)
        (part / TOLD_INVENTORY).write_bytes(signed.content)
        (part / SIGNATURE).write_text(signed.signature, encoding="ascii")
        for journal_name, content in signed.journals.items():
            (part / names.JOURNALS / journal_name).write_bytes(content)
        for journal_name in signed.journals:
            _check_journal(part / names.JOURNALS / journal_name, signed.inventory)
        shutil.move(part, folder)
    return folder


def _check_journal(path: Path, inventory: Inventory) -> None:
    try:
        records = journal.read(path, Bounds())
    except RefusedError as error:
        raise UserError(f"{path.name}: {error}.") from None
    facts = records[0].job if records else {}
    if text := _differs(facts, inventory):
        raise UserError(f"{path.name}: {text}.")


def _differs(facts: Mapping[str, str], inventory: Inventory) -> str:
    said = {TOLD_BY: inventory.by, TOLD_KEY: inventory.key, TOLD_AT: inventory.at}
    wrong = [name for name, value in said.items() if facts.get(name) != value]
    return f"it does not say {wrong[0]} as the inventory does that is signed" if wrong else ""


def fault(path: Path, facts: Mapping[str, str]) -> str:
    """Return why a journal is not, or no longer, what the person has signed whom its facts name; empty if it is.

    It is asked of each result that names a person, and of each that lies next to an inventory.
    """
    folder = path.parent.parent
    files = [folder / TOLD_INVENTORY, folder / SIGNATURE, *sorted((folder / names.JOURNALS).glob("*"))]
    try:
        states = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        inventory = _unchanged(folder, states)
        if path.parent.name != names.JOURNALS or path.name not in inventory.files:
            return "nobody has signed it: the inventory in its folder does not list it"
        return _differs(facts, inventory)
    except OSError as error:
        return f"nobody has signed it: {Path(error.filename).name} in its folder cannot be read"
    except UserError as error:
        return str(error).removesuffix(".")


@lru_cache(maxsize=256)
def _unchanged(folder: Path, states: tuple[tuple[Path, int, int], ...]) -> Inventory:  # noqa: ARG001  a part of the key
    """Return the inventory of a folder in which everything is as it was signed.

    Raises:
        UserError: something is not.
        OSError: a file cannot be read.
    """
    content, signature = (folder / TOLD_INVENTORY).read_bytes(), (folder / SIGNATURE).read_text("ascii", "replace")
    inventory = parsed(content, folder.name)
    if signed_by(content, signature) != inventory.key:
        raise UserError(f"the signature of {folder.name} does not hold: the inventory was changed since")
    for name, listed in inventory.files.items():
        file = folder / names.JOURNALS / name
        if not file.is_file() or sha256(file.read_bytes()).hexdigest() != listed.sha256:
            raise UserError(f"{name} is not as {inventory.by} signed it: it was changed or deleted since")
    return inventory
