"""Build the wheel and the source archive of every distribution of this repository: python ci/distributions.py VERSION.

Exit status: 0 all are built in ``build/distributions``, 2 a distribution has another version, or asks for another one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def folders(root: Path) -> list[Path]:
    """Return the folders of the distributions: the harness first, which the others require."""
    return [root, *sorted(path.parent for path in root.glob("src/*/pyproject.toml"))]


def other_versions(root: Path, version: str) -> Iterator[str]:
    """Yield a sentence for each distribution that has another version, or requires another one of its neighbours."""
    projects: dict[Path, dict[str, Any]] = {
        folder: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in folders(root)
    }
    own = {project["name"] for project in projects.values()}
    for folder, project in projects.items():
        if (has := project.get("version") or _written(folder)) != version:
            yield f"{project['name']} has the version {has}, and this is {version}."
        extras = project.get("optional-dependencies", {}).values()
        for requirement in [*project.get("dependencies", ()), *(one for extra in extras for one in extra)]:
            name, asked = re.fullmatch(r"([\w.-]+)(?:\[.*?\])?(.*)", requirement).groups()  # type: ignore[union-attr]
            if name in own and asked not in ("", f"=={version}"):
                yield f"{project['name']} requires {requirement}, and this is {version}."


def build(root: Path, into: Path) -> None:
    """Build all distributions into an empty folder; a failed build ends this with its own error."""
    shutil.rmtree(into, ignore_errors=True)
    for folder in folders(root):
        subprocess.run([sys.executable, "-m", "uv", "build", "--out-dir", str(into), str(folder)], check=True)
    (into / ".gitignore").unlink(missing_ok=True)  # uv writes it, and an index refuses it


def _written(folder: Path) -> str:
    """Return the version that a package says in its own ``__init__``."""
    found = re.search(r'^__version__ = "(.+)"$', (folder / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "no version"


def main(words: list[str]) -> int:
    """Build, if every distribution has the version that the tag names."""
    if len(words) != 1:
        print("Name the version, as the tag does without its v: ci/nox -s distributions -- 1.2.3", file=sys.stderr)
        return 2
    if sentences := [*other_versions(ROOT, words[0])]:
        print("\n".join(sentences), file=sys.stderr)
        return 2
    build(ROOT, ROOT / "build" / "distributions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
