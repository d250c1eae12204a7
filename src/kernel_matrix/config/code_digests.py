"""The hash of a Python file's code. Those of the harness itself are kept next to its bytecode: parsing takes long.

Whoever can write there can change the bytecode of the harness, too, so this is no new way to deceive it.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path

from kernel_matrix.base import syntax
from kernel_matrix.base.files import write_atomically

_MOST = 4000  # hashes that are kept
_new: dict[str, str] = {}  # those that are not kept yet


@cache
def digest_of_code(content: bytes, *, of_harness: bool = False) -> str:
    """Return the hash of a Python file's code; of all its bytes where they are no UTF-8, or no Python."""
    of_bytes = sha256(content).hexdigest()
    if of_harness and of_bytes in _kept():
        return _kept()[of_bytes]
    digest = of_bytes[:16]
    with suppress(SyntaxError, ValueError, RecursionError):
        digest = sha256(syntax.code_of(content.decode()).encode()).hexdigest()[:16]
    if of_harness:
        _new[of_bytes] = digest
    return digest


def keep() -> None:
    """Keep the hashes of the harness, where its bytecode is kept."""
    if _new and not sys.dont_write_bytecode:
        newest = [*{**_kept(), **_new}.items()][-_MOST:]
        _new.clear()
        with suppress(OSError, NotImplementedError):
            write_atomically(_file(), json.dumps({"made_by": _maker(), "digests": dict(newest)}))


@cache
def _kept() -> dict[str, str]:
    """Return the hash of the code by the hash of the bytes, if code was told from comments as it is now."""
    with suppress(OSError, ValueError, KeyError, TypeError, NotImplementedError):
        content = json.loads(_file().read_bytes())
        if content["made_by"] == _maker():
            return {str(of_bytes): str(digest) for of_bytes, digest in content["digests"].items()}
    return {}


def _file() -> Path:
    return Path(cache_from_source(syntax.__file__)).with_suffix(".digests")


def _maker() -> str:
    return sha256(Path(syntax.__file__).read_bytes()).hexdigest()
