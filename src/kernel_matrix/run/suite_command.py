"""Start pytest on a suite that knows nothing of the harness: with the suite's own configuration, and our plugin."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from configparser import ConfigParser, Error
from pathlib import Path

from kernel_matrix.run.executors import Interpreter, Request
from kernel_matrix.run.harness import NO_CONFIGURATION, START, copy_for_jobs

# The files that pytest reads its configuration from, in its order, and the section that makes a file count. A file
# without one here always counts.
_FILES = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "pytest",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}


def arguments(request: Request, interpreter: Interpreter, options: Iterable[str]) -> list[str]:
    """Return Python's arguments for pytest on the suite, with some options of our plugin."""
    seen, suite = interpreter.seen, request.root / request.matrix.package.suite
    harness = copy_for_jobs(request.build)
    configuration = _configuration(suite.resolve(), request.root.resolve())
    if configuration is None:
        configuration = harness / NO_CONFIGURATION
        options = ("--rootdir", seen(request.root), *options)
    return [
        seen(harness / START),
        *("-p", "kernel_matrix.job.suite_plugin", "-c", seen(configuration), "--confcutdir", seen(request.root)),
        *("-o", f"cache_dir={seen(request.folder / 'pytest-cache')}"),
        *("--color=no", "--tb=short", "-rN", "--continue-on-collection-errors"),
        *("--kernel-matrix-suite", seen(suite), *options, seen(suite)),
    ]


def _configuration(suite: Path, root: Path) -> Path | None:
    """Return the file that configures pytest for the suite: the nearest, from its folder up to the repository's root.

    Above that nothing is looked at: a repository may lie in another one.
    """
    for folder in (suite, *suite.parents):
        for name, section in _FILES.items():
            if _has_section(folder / name, section):
                return folder / name
        if folder == root:
            break
    return None


def _has_section(path: Path, section: str) -> bool:
    if not path.is_file():
        return False
    if not section:
        return True
    try:
        if path.suffix == ".toml":
            return section in tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        parser = ConfigParser(interpolation=None)
        parser.read_string(path.read_text(encoding="utf-8"))
        return parser.has_section(section)
    except (Error, ValueError, OSError):
        return False
