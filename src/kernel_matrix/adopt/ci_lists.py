"""Read what the CI of a repository installs: the commands of pip, uv and conda in its workflows and scripts."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.adopt.pinned import conda, lines
from kernel_matrix.adopt.pinned.repository import above

_FILES = (
    *(".gitlab-ci.yml", ".gitlab-ci/*.yml", ".gitlab/*.yml", ".gitlab/*/*.yml", ".github/workflows/*.y*ml"),
    *(".github/actions/*/action.y*ml", "azure-pipelines*.yml", ".azure-pipelines/*.yml", ".azure/*.yml", ".travis.yml"),
    *(".circleci/config.yml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", "bitbucket-pipelines.yml", ".drone.yml"),
    *(".buildkite/*.y*ml", ".woodpecker.y*ml", ".woodpecker/*.y*ml", ".builds/*.yml", "Jenkinsfile", "Taskfile.y*ml"),
    *("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"),
    *("Dockerfile*", "*.dockerfile", "docker/Dockerfile*"),
    *(".devcontainer/Dockerfile*", ".ci/*", "ci/*.sh", "*.sh", "scripts/*.sh", ".github/scripts/*.sh", ".travis/*.sh"),
)
_COMMAND = re.compile(
    r"""\b(pip[\d.]*\s+install|uv\s+add|poetry\s+add|(?:conda|(?:micro)?mamba)\s+install)\b((?:"[^"\n]*"|'[^'\n]*'|[^\n;&|"'#])*)"""
)
# Options with a word that is no requirement.
_WITH_A_WORD = re.compile(
    r"-[cifteGpn]|--(?:constraint|index-url|extra-index-url|find-links|target|editable|group|extra|optional|python"
    r"|prefix|name|channel|torch-backend|index-strategy|index|default-index|platform|only-binary|no-binary|root|file"
    r"|config-settings|trusted-host|timeout|retries|progress-bar|upgrade-strategy|cache-dir|override)"
)


def requirements_in(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the requirements that a repository's CI installs, and the file of each. Nothing is run.

    The one version that a job pins is not taken: another job may have another.
    """
    found = (path for at in (root, *above(root)) for pattern in _FILES for path in sorted(at.glob(pattern)))
    for path in dict.fromkeys(found):
        with contextlib.suppress(OSError):  # it may be a folder
            text = path.read_text(encoding="utf-8", errors="replace")
            for script in _scripts(text) if path.suffix in (".yml", ".yaml") else [text]:
                for one in _installed(script, root):
                    yield one, Path(os.path.relpath(path, root)).as_posix()


def _scripts(text: str) -> list[str]:
    """Return the texts of a file of YAML, each as its lines are joined there."""
    found: list[str] = []

    def enter(value: object) -> None:
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            enter(one)
        if isinstance(value, str):
            found.append(value)

    try:
        for document in YAML(typ="safe").load_all(text):
            enter(document)
    except (YAMLError, ValueError, RecursionError):
        return [text]
    return found


def _installed(script: str, root: Path) -> Iterator[str]:
    for command, rest in _COMMAND.findall(script.replace("\\\n", " ")):
        with contextlib.suppress(ValueError):
            words = iter(shlex.split(rest))
            for word in words:
                if word in ("-r", "--requirement", "--requirements"):
                    with contextlib.suppress(OSError):
                        yield from lines.requirements_of(root / next(words, ""))
                elif word.startswith("-"):
                    if _WITH_A_WORD.fullmatch(word):
                        next(words, "")
                elif "conda" in command or "mamba" in command:
                    yield from conda.name_of(word)
                else:
                    yield from _bounded(word)


def _bounded(word: str) -> Iterator[str]:
    """Yield a requirement without the one version that it pins; nothing of a word that is none."""
    with contextlib.suppress(InvalidRequirement):
        requirement = Requirement(word)
        kept = (one for one in requirement.specifier if one.operator not in ("==", "===") or one.version.endswith("*"))
        requirement.specifier = SpecifierSet(",".join(map(str, kept)))
        yield str(requirement)
