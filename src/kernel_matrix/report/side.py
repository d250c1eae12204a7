"""A site, a folder with one, or the address of a compat.json -> Side: one of the two runs that diff compares."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

from pydantic import ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.document import FILE, Outline
from kernel_matrix.results import history
from kernel_matrix.results.history import Measurements
from kernel_matrix.store.record import Record

_MOST_BYTES = 64 * 2**20
_SECONDS = 30


@dataclass(frozen=True)
class Side:
    """One run: the part of its report that is compared, its history with itself, and its records where they are here.

    A published report has no records, so that its outputs cannot be compared element by element.
    """

    name: str
    outline: Outline
    measurements: Measurements = field(default_factory=dict)
    records: tuple[Record, ...] = ()


def is_address(name: str) -> bool:
    """Return whether a run is named by the address of its compat.json."""
    return name.startswith(("https://", "http://"))


def is_site(path: Path) -> bool:
    """Return whether a path is a site or its compat.json, and not a folder of results."""
    return path.name == FILE or (path / FILE).is_file()


def read_site(path: Path) -> Side:
    """Read a site, or its compat.json, and the history beside it.

    Raises:
        UserError: a file cannot be read, or is of another form.
    """
    file = path if path.name == FILE else path / FILE
    past = file.with_name(history.FILE)
    try:
        text = file.read_bytes()
        former = past.read_bytes() if past.is_file() else b""
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}. Name a site, or a folder of results.") from None
    return _side(str(path), text, former)


def read_address(address: str) -> Side:
    """Fetch a published compat.json, and the history beside it where there is one.

    Raises:
        UserError: it cannot be fetched, is too large, or is of another form.
    """
    if not address.rpartition("/")[2].partition("?")[0]:
        address = urljoin(address, FILE)
    text = _fetch(address)
    try:
        former = _fetch(urljoin(address, history.FILE))
    except UserError:
        former = b""
    return _side(address, text, former)


def _side(name: str, text: bytes, former: bytes) -> Side:
    try:
        outline = Outline.model_validate_json(text)
        past = history.from_json(former).measurements if former else {}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{name}: {place}: {first['msg']}. It is no report that can be compared.") from None
    return Side(name, outline, past)


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as response:  # noqa: S310 - is_address has checked it
            text: bytes = response.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{address}: {reason}. Name the address of a published {FILE}.") from None
    if len(text) > _MOST_BYTES:
        raise UserError(f"{address}: it is larger than {_MOST_BYTES >> 20} MiB. Name the address of a {FILE}.")
    return text
