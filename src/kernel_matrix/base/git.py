"""The commit of the source and its changed files, as git knows them."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

from packaging.version import InvalidVersion, Version

from kernel_matrix.base.errors import UserError


def commit(root: Path) -> str:
    """Return the commit that was tested, with ``+changes`` when the tree differs from it.

    Outside a git checkout it is the value of KERNEL_MATRIX_COMMIT, for a copy of the tree without its history.
    """
    name = revision(root)
    if not name:
        return os.environ.get("KERNEL_MATRIX_COMMIT", "")
    return f"{name}+changes" if _output(root, "status", "--porcelain", "--untracked-files=normal") else name


def revision(root: Path) -> str:
    """Return the name of the commit of the checkout; empty outside a checkout that has one."""
    return _output(root, "rev-parse", "--short=12", "HEAD")


def release(root: Path) -> str:
    """Return the version by the nearest tag before the commit, ``+later`` behind it where commits follow; else empty.

    So it changes with a release and not with each commit.
    """
    described = _output(root, "describe", "--tags", "--long", "--match=*[0-9].[0-9]*")
    tag, commits, _ = described.rsplit("-", 2) if described else ("", "", "")
    try:
        version = Version(re.sub(r"^.*?(?=v?\d+\.\d)", "", tag)).public
    except InvalidVersion:
        return ""
    return version if commits == "0" else f"{version}+later"


def main_branch(root: Path) -> str:
    """Return the branch that changes are merged into: the remote's own, else a usual name that is here, else main."""
    if named := _output(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD"):
        return named.partition("/")[2]
    here = _output(root, "for-each-ref", "--format=%(refname:lstrip=-1)", "refs/heads", "refs/remotes/origin").split()
    return next((name for name in ("main", "master", "trunk", "develop") if name in here), "main")


@lru_cache(maxsize=1024)
def made(root: Path, commit: str) -> datetime | None:
    """Return when a commit was made, in UTC; None if the checkout does not have it."""
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        return None
    text = _output(root, "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}")
    return datetime.fromtimestamp(int(text), UTC) if text.isdecimal() else None


def between(root: Path, before: str, after: str) -> str:
    """Return the commits after one commit up to another in words: the first of them, or how many there are.

    It is empty where the checkout does not have both, or the later one does not follow from the earlier one.
    """
    ends = [name.partition("+")[0] for name in (before, after)]
    if not all(made(root, name) for name in ends) or not _output(root, "merge-base", *ends).startswith(ends[0]):
        return ""
    lines = _output(root, "log", "--format=%h %s", f"{ends[0]}..{ends[1]}").splitlines()
    if len(lines) < 2:
        return lines[0] if lines else "the same commit"
    return f"{len(lines)} commits: from {lines[-1]} to {lines[0]}"


def web_address(root: Path) -> str:
    """Return the address of the remote's web page, without names and secrets; empty if it has none."""
    remote = _output(root, "remote", "get-url", "origin")
    match = re.fullmatch(r"(?:https?://|ssh://|git@)(?:[^@/]*@)?([\w.-]+)(?::\d+)?[:/]([\w./~-]+?)(?:\.git)?/?", remote)
    return f"https://{match[1]}/{match[2]}" if match else ""


def blobs(root: Path, commit: str) -> dict[str, str]:
    """Return the id of the content of each file below ``root`` in a commit that the checkout has."""
    listed = _output(root, "ls-tree", "-r", "-z", commit)
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {name: about.split()[2] for about, _, name in entries if about.split()[1] == "blob"}


def are_in(root: Path, files: Mapping[str, str | None]) -> bool:
    """Return whether each of these files below ``root`` has the content of that id.

    The index is not asked. Files that git stores otherwise than they lie in the tree (line ends, large files) are
    compared as git would store them.
    """
    if not all(files.values()):
        return False
    others = [name for name, blob in files.items() if blob and not _is_stored_as(root / name, blob)]
    if any("\n" in name or not (root / name).is_file() or (root / name).is_symlink() for name in others):
        return False
    made = (
        _git(root, "hash-object", "--stdin-paths", text="".join(f"./{name}\n" for name in others)) if others else None
    )
    return made is None or made.stdout.split() == [files[name] for name in others]


def _is_stored_as(path: Path, blob: str) -> bool:
    try:
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError:
        return False
    kind = hashlib.sha256 if len(blob) == 64 else partial(hashlib.sha1, usedforsecurity=False)
    return kind(b"blob %d\0%s" % (len(content), content)).hexdigest() == blob


def changed_files(root: Path, reference: str) -> list[str]:
    """Return the files that differ from where this branch left ``reference``.

    These are the files of commits and of the working tree, and new files that git does not ignore.

    Raises:
        UserError: git does not know the reference, or ``root`` is no checkout.
    """
    git = partial(_asked, root, reference)
    return _differing(git, _base(git, reference))


def former_text(root: Path, reference: str, name: str) -> str | None:
    """Return the text of a file of the folder ``root`` where this branch left ``reference``; None if there was none.

    Raises:
        UserError: git does not know the reference, or ``root`` is no checkout.
    """
    base = _base(partial(_asked, root, reference), reference)
    shown = _git(root, "show", f"{base}:./{name}")
    return None if shown.returncode else shown.stdout


def _base(git: Callable[..., str], reference: str) -> str:
    """Return the commit where this branch left ``reference``."""
    return git("merge-base", "--end-of-options", reference, "HEAD").strip()


def _asked(root: Path, reference: str, *arguments: str) -> str:
    """Return what git prints of something that has to do with a reference that a person named.

    Raises:
        UserError: git fails.
    """
    process = _git(root, *arguments)
    if process.returncode:
        reason = (process.stderr.strip() or "no common ancestor").splitlines()[0]
        raise UserError(
            f"--changed-since {reference}: git {arguments[0]}: {reason}. Fetch it first: git fetch origin {reference}"
        )
    return process.stdout


def is_checkout(root: Path) -> bool:
    """Return whether ``root`` lies in a git checkout that has a commit."""
    return bool(_output(root, "rev-parse", "--verify", "--quiet", "HEAD"))


def why_no_checkout(root: Path) -> str:
    """Return why there is no commit to name, and what to do; empty in a checkout that has one."""
    if is_checkout(root):
        return ""
    try:
        said = _git(root, "rev-parse", "--git-dir")
    except FileNotFoundError:
        return "git is not installed here"
    if "dubious ownership" in said.stderr:
        return (
            "git does not read this checkout, because another user owns it: `git config --global --add safe.directory "
            f"{shlex.quote(str(root.resolve()))}`"
        )
    return "this git checkout has no commit yet" if not said.returncode else "this is no git checkout with a commit"


def tracked_files(root: Path) -> frozenset[str] | None:
    """Return the files below ``root`` that git has, also in submodules; None outside a checkout."""
    if not _output(root, "rev-parse", "--git-dir"):
        return None
    names = _listed(root, "--cached")
    return frozenset(names).union(*(_below(root, module, tracked_files) for module in _modules(root, names)))


def other_files(root: Path) -> set[str]:
    """Return the files below ``root`` that git has not, and that no .gitignore there names; of submodules too.

    What this user or this checkout alone ignores is no matter.
    """
    names = _listed(root, "--others", "--exclude-per-directory=.gitignore")
    return names.union(*(_below(root, module, other_files) for module in _modules(root, _listed(root, "--cached"))))


def ignored(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return which of some files below ``root`` git ignores, each with the place of the rule and the rule.

    A file that git has is not ignored. Nothing is, outside a checkout.
    """
    try:
        said = _git(root, "check-ignore", "--verbose", "-z", "--stdin", text="\0".join(names)).stdout.split("\0")
    except FileNotFoundError:  # no git on this machine
        return {}
    fields = zip(*[iter(said)] * 4, strict=False)
    return {
        name: f"{Path(source).name}:{line}: {rule}" for source, line, rule, name in fields if not rule.startswith("!")
    }


def ignored_files(root: Path) -> list[str]:
    """Return the files below ``root`` that git ignores, without those of folders that it ignores whole."""
    names = _listed(root, "--others", "--ignored", "--exclude-standard", "--directory")
    return sorted(name for name in names if not name.endswith("/"))


def _listed(root: Path, *options: str) -> set[str]:
    return {name for name in _output(root, "ls-files", "-z", *options).split("\0") if name}


def _modules(root: Path, names: Iterable[str]) -> list[str]:
    """Return the submodules among the files that git has."""
    return [name for name in names if (root / name / ".git").exists()]


def _below(root: Path, module: str, files: Callable[[Path], Collection[str] | None]) -> set[str]:
    return {f"{module}/{name}" for name in files(root / module) or ()}


def _differing(git: Callable[..., str], *commit: str) -> list[str]:
    """Return the files that differ from a commit, new ones too; ``commit`` are the arguments for ``git diff``."""
    # Without renames a file that moved is two paths, and both may concern something.
    changed = git("diff", "--name-only", "--no-renames", "-z", *commit, "--")
    new = git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in (changed + new).split("\0") if path})


def _output(root: Path, *arguments: str) -> str:
    """Return what git prints; an empty text if it fails or is not installed."""
    try:
        return _git(root, *arguments).stdout.strip()
    except FileNotFoundError:  # no git on this machine
        return ""


def _git(root: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    # The name of a file is any bytes, and not always UTF-8: as Python itself has it, it still names the file.
    return subprocess.run(
        ["git", "-C", str(root), *arguments],
        input=text, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False,
    )  # fmt: skip
