"""One comment on a pull request, which a later run finds by its marker and writes anew, through GitHub's REST API."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from kernel_matrix.adopt import web
from kernel_matrix.base.errors import UserError

Answer = TypeVar("Answer")
_A_PAGE = 100  # comments
_MOST_PAGES = 100
# Whose comments may be the one of an earlier run. Anybody can write the marker into a comment, and none but these is
# changed.
_TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")


@dataclass(frozen=True)
class GitHub:
    """A repository at GitHub, with a token."""

    repository: str
    token: str
    api: str

    def ask(self, method: str, path: str, data: object = None) -> Any:
        """Return the answer to a request that is about the repository.

        Raises:
            RefusedError: the token may not do that, or there is no such thing.
            UnreachableError: GitHub is out of order for a moment.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json"}
        return web.ask(method, f"{self.api}/repos/{self.repository}/{path}", data, headers)


def github() -> GitHub:
    """Return the repository of this workflow run.

    Raises:
        UserError: the environment does not name it, or has no token.
    """
    repository, token = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_TOKEN", "")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise UserError("GITHUB_REPOSITORY is not set: owner/name of the repository.")
    if not token:
        raise UserError("GITHUB_TOKEN is not set: a token that may write comments. In a workflow: ${{ github.token }}.")
    return GitHub(repository, token, os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/"))


def pull_requests(github: GitHub, head: str, commit: str, *, sleep: Callable[[float], None] = time.sleep) -> list[int]:
    """Return the open pull requests from a branch (``OWNER:BRANCH``) whose newest commit this is.

    Raises:
        UserError: GitHub refuses the request, or does not answer.
    """
    query = urlencode({"state": "open", "head": head, "per_page": _A_PAGE})
    answer = _said(lambda: web.again(lambda: github.ask("GET", f"pulls?{query}"), sleep=sleep), "the pull requests")
    return [int(one["number"]) for one in answer or () if one["head"]["sha"] == commit]


def put(github: GitHub, number: int, body: str, marker: str, *, sleep: Callable[[float], None] = time.sleep) -> str:
    """Write the comment with this marker anew, or make it; return its address.

    What fails for a moment begins again with the search: the comment may have been made although no answer came.

    Raises:
        UserError: GitHub refuses a request, or does not answer.
    """
    return _said(lambda: web.again(lambda: _put(github, number, body, marker), sleep=sleep), f"pull request {number}")


def _put(github: GitHub, number: int, body: str, marker: str) -> str:
    for one in _comments(github, number):
        if str(one.get("body") or "").rstrip().endswith(marker) and _is_trusted(one):
            if str(one["body"]).split() == body.split():
                return f"{one['html_url']} is as it was"
            answer = github.ask("PATCH", f"issues/comments/{int(one['id'])}", {"body": body})
            return f"{answer['html_url']} was written anew"
    answer = github.ask("POST", f"issues/{number}/comments", {"body": body})
    return f"{answer['html_url']} was made"


def _comments(github: GitHub, number: int) -> Iterator[Mapping[str, Any]]:
    for page in range(1, _MOST_PAGES + 1):
        found = github.ask("GET", f"issues/{number}/comments?per_page={_A_PAGE}&page={page}") or ()
        yield from found
        if len(found) < _A_PAGE:
            return


def _is_trusted(comment: Mapping[str, Any]) -> bool:
    """Return whether a workflow, or somebody of the project, wrote a comment."""
    user = comment.get("user") or {}
    return user.get("type") == "Bot" or comment.get("author_association") in _TRUSTED


_REFUSALS = {
    401: "GITHUB_TOKEN has ended, or is of another server",
    403: "the token may not do this: give the job 'pull-requests: write'. The run of a fork's pull request never gets "
    "that; another workflow comments after it",
    404: "there is no such pull request in this repository, or the token may not read it",
}


def _said(attempt: Callable[[], Answer], what: str) -> Answer:
    """Return the answer of an attempt, or raise the sentence that says what is wrong with it."""
    try:
        return attempt()
    except web.RefusedError as error:
        raise UserError(f"{what}: {_REFUSALS.get(error.status, 'GitHub refuses this')} ({error}).") from None
    except web.UnreachableError as error:
        raise UserError(f"{what}: {error}. GitHub was asked several times.") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{what}: GitHub's answer is of another form. Is GITHUB_API_URL right?") from None
