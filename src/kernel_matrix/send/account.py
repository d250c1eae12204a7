"""The public keys of a person's account: the keys that GitHub gives, or the keys of a file."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.store.signed_file import ACCOUNT
from kernel_matrix.store.signing import signers_in

_SECONDS = 30
_MOST_BYTES = 2**20


def signers_of(account: str, file: Path | None = None) -> list[str]:
    """Return the lines of an allowed_signers file that may have a key of an account.

    Raises:
        UserError: they cannot be had, or there is none.
    """
    where = str(file or f"https://github.com/{account}.keys")
    try:
        text = file.read_text(encoding="utf-8") if file else _fetched(account)
    except (OSError, HTTPException, UnicodeDecodeError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UserError(
            f"{where}: the keys cannot be read ({reason}). --keys FILE names a file that has them."
        ) from None
    signers = list(dict.fromkeys(signers_in(text, account)))
    if not signers:
        raise UserError(f"{where}: {account} has no SSH key there.")
    return signers


def _fetched(account: str) -> str:
    assert ACCOUNT.fullmatch(account)  # it becomes a part of the address
    with urllib.request.urlopen(f"https://github.com/{account}.keys", timeout=_SECONDS) as response:
        return str(response.read(_MOST_BYTES).decode("utf-8"))
