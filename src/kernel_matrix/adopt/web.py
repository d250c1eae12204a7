"""Requests to a web service: JSON in and out, within a time, and to no other address than the one that is named."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.runs import is_address

_SECONDS = 30
_WAITS = (2, 5, 15)  # seconds between requests that fail for a reason of the moment
_MOST_BYTES = 64 * 2**20
_MOST_OF_A_REASON = 300  # characters

Answer = TypeVar("Answer")


class RefusedError(UserError):
    """The service does not do what it was asked for. The status is 0 where it was not asked."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}" if status else reason)
        self.status, self.reason = status, reason


class UnreachableError(UserError):
    """The service did not answer, or is out of order for a moment."""


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follow no redirection: the token and the text are for the address that was named."""

    def redirect_request(self, *_: object) -> None:
        """Return no other request."""


def ask(method: str, address: str, data: object = None, headers: Mapping[str, str] | None = None) -> Any:
    """Return the JSON that the service answers; what is no JSON counts as no answer, and is None.

    Raises:
        RefusedError: asking again does not help.
        UnreachableError: asking again may help.
    """
    if not is_address(address):
        raise RefusedError(0, "the address does not begin with https://")
    body = None if data is None else json.dumps(data).encode()
    kind = {"Content-Type": "application/json", "User-Agent": "kernel-matrix"}
    try:
        request = urllib.request.Request(address, body, {**kind, **(headers or {})}, method=method)  # noqa: S310
        with urllib.request.build_opener(_Stays).open(request, timeout=_SECONDS) as response:
            text = response.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            _refuse(error)
    except (http.client.InvalidURL, ValueError):
        raise RefusedError(0, "the address is of no use") from None  # it may be a secret, and stands in no message
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"no answer: {getattr(error, 'reason', error)}") from None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _refuse(error: urllib.error.HTTPError) -> NoReturn:
    """Raise the error that a status stands for. The reason is the service's own where it gives one."""
    text = error.read(_MOST_BYTES)
    try:
        reason = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        reason = error.reason or "it gives no reason"
    reason = " ".join(reason.split())[:_MOST_OF_A_REASON]
    if error.code >= 500 or error.code in (408, 429) or (error.code == 403 and "rate limit" in reason.lower()):
        raise UnreachableError(f"HTTP {error.code}: {reason}") from None
    raise RefusedError(error.code, reason) from None


def again(attempt: Callable[[], Answer], *, sleep: Callable[[float], None] = time.sleep) -> Answer:
    """Return the answer of ``attempt``, which is tried again, after waits, while the service is out of order.

    Raises:
        UnreachableError: it was out of order each time.
    """
    for wait in _WAITS:
        try:
            return attempt()
        except UnreachableError:
            sleep(wait)
    return attempt()
