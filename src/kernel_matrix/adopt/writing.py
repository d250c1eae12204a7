"""Write the proposed files into the repository, each only where there is none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.checks.files import ignored_words

_CONFIGURATION = "matrix.yaml"
_RULES = ".gitignore"
# What a build and pytest read; a file of other code may be made by the build.
_READ = re.compile(
    r"(^|/)(CMakeLists\.txt|[^/]+\.cmake|meson\.build|setup\.(py|cfg)|(pyproject|Cargo)\.toml|(test_|conftest)[^/]*\.py)$"
)


def refuse_where_nothing_can_be_written(root: Path) -> None:
    """Raise an error where a file would be overwritten or cannot be written, before any work is done.

    Raises:
        UserError: matrix.yaml is there, or the folder is read-only.
    """
    path = root / _CONFIGURATION
    if path.exists() or path.is_symlink():
        use = "matrix" if root == Path.cwd() else f"matrix --matrix {shlex.quote(str(path))}"
        raise UserError(
            f"{path}: it is there already, so nothing was written. Use it: `kernel-matrix {use}`, or move it away."
        )
    probe = root / f".{_CONFIGURATION}.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"{root}: nothing can be written here: {error.strerror or error}.") from None


def write(root: Path, files: Mapping[str, str]) -> list[str]:
    """Write the files in their order, and return a line for each. One that is there stays as it is.

    Of git's rules, those that are not there are added.

    Raises:
        UserError: a file cannot be written.
    """
    new, left = [], []
    for name, text in files.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            if path.name == _RULES and _add(path, text):
                new.append(f"{', '.join(text.split())} into {name}")
            else:
                left.append(name)
        except OSError as error:
            raise UserError(f"{path}: it cannot be written: {error.strerror or error}.") from None
        else:
            new.append(name)
    return [*(f"wrote {name}" for name in new), *(f"left {name} as it is" for name in left)]


def admit(root: Path, names: Collection[str]) -> list[str]:
    """Let git have files that were written and that a rule keeps out, and return a line for each that it still ignores.

    Lines follow about files of the repository itself that a build or pytest reads: a checkout comes without them.
    """
    rules, still = root / _RULES, dict[str, str]()
    if kept_out := git.ignored(root, names):
        before = rules.read_bytes()
        _add(rules, "".join(f"!/{name}\n" for name in kept_out))
        if still := git.ignored(root, names):  # its folder is ignored whole, and a rule for it would be void
            rules.write_bytes(before)
            _add(rules, "".join(f"!/{name}\n" for name in kept_out if name not in still))
    lines = [f"{name}: {rule} would keep it out of git, so {_RULES} names it" for name, rule in kept_out.items()
             if name not in still]  # fmt: skip
    own = git.ignored(root, filter(_READ.search, git.ignored_files(root)))
    return [*lines, *(f"{name}: {ignored_words(name, rule)}" for name, rule in (still | own).items())]


def _add(path: Path, lines: str) -> bool:
    """Add the lines that a file does not have, and return whether there were any.

    ``build``, ``/build/``, ``build/*`` and ``**/build/**`` are one.
    """
    present = path.read_text(encoding="utf-8", errors="replace")
    known = {line.strip().strip("/*") for line in present.splitlines()}
    missing = [line for line in lines.splitlines() if line.strip("/*") not in known]
    if missing:
        gap = "" if present.endswith("\n") or not present else "\n"
        path.write_text(f"{present}{gap}" + "".join(f"{line}\n" for line in missing), encoding="utf-8")
    return bool(missing)
