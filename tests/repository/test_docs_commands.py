"""Every command of the documentation is executed, or its page says why not; and the site is built without a dead link.

A page has comments that its reader does not see. Before a block of commands: ``<!-- not run: why -->``, or
``<!-- ends with 1 -->``. Before a text whose lines those commands print: ``<!-- printed -->``. In a page:
``<!-- starts with: PAGE -->``, whose files are there when it begins, and ``<!-- cases at the end: held 3, fail 1 -->``,
the states that the last report counts. A block with a title, as in ```` ```python title="suite/test_x.py" ````, is a
file that is written before the commands.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from common import BYTECODE, ROOT, share
from loops import at_least

from kernel_matrix.run.environments import venv

PAGES = [
    "README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in at_least(60, (ROOT / "docs").rglob("*.md"))),
]
_BLOCK = re.compile(r"((?:^<!--[^\n]*-->\n)*)^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Long, and of commands that other pages or tests run by day.
AT_NIGHT = (
    *("docs/tutorials/depth-1.md", "docs/tutorials/depth-2.md", "docs/tutorials/depth-3.md"),
    *("docs/how-to/read-accuracy.md", "docs/how-to/expectation.md", "docs/how-to/suite.md"),
    *("docs/how-to/kept-results.md", "docs/how-to/pins.md"),
)
NIGHTLY = [pytest.param(page, marks=pytest.mark.nightly) for page in AT_NIGHT]
EXECUTED = 21  # blocks: a mark that is wrong, or a parser that finds nothing, would make this less


@dataclass(frozen=True)
class Block:
    """A block of commands of a page, why it is not run, the status that it ends with, and lines that it prints."""

    page: str
    text: str
    reason: str
    status: int
    printed: tuple[str, ...] = ()


def blocks_of(page: str, text: str) -> list[Block]:
    found = []
    for marks, language, _, body in _BLOCK.findall(text):
        if language == "sh":
            reason = re.search(r"<!-- not run: (.+) -->", marks)
            status = re.search(r"<!-- ends with (\d) -->", marks)
            found.append(Block(page, body, reason[1] if reason else "", int(status[1]) if status else 0))
        elif "<!-- printed -->" in marks:
            found[-1] = replace(found[-1], printed=tuple(body.splitlines()))
    return found


def files_of(page: str, text: str) -> dict[str, str]:
    """Return the files that a page has in its blocks, after the files of the page that it starts with."""
    files: dict[str, str] = {}
    if before := re.search(r"^<!-- starts with: (\S+) -->$", text, re.MULTILINE):
        other = os.path.normpath(Path(page).parent / before[1])
        files |= files_of(other, read(other))
    for _, _, rest, body in _BLOCK.findall(text):
        if title := re.search(r'title="([^"]+)"', rest):
            files[title[1]] = body
    return files


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


BLOCKS = [block for page in PAGES for block in blocks_of(page, read(page))]
RUN = [block for block in BLOCKS if not block.reason]


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """Make the command kernel-matrix, as an installed harness has it, and python of the same environment."""
    folder = tmp_path_factory.mktemp("bin")
    for name, words in (("kernel-matrix", "-m kernel_matrix"), ("python", "")):
        program = folder / name  # no link: a Python knows its environment by the folder that it is started from
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    # What pip writes of an installed distribution, and the fixture of depth 2 is found by: its entry points.
    metadata = folder / "kernel_matrix-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-matrix\nVersion: 0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = "".join(f"{name} = {module}\n" for name, module in project["entry-points"]["pytest11"].items())
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{entries}")
    return folder


def execute(block: Block, folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{programs}",
        "DOCKER_HOST": "unix:///nowhere/docker.sock",  # images would take minutes
    }
    environment.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)  # the tests set it; a reader's pytest finds its plugins
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({block.page for block in RUN} - set(AT_NIGHT)) + NIGHTLY)
def test_every_command_of_a_page_ends_as_the_page_says(page, tmp_path, programs):
    for name, text in files_of(page, read(page)).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    share(tmp_path / "build", BYTECODE)  # a reader's second job has it too
    for block in (block for block in RUN if block.page == page):
        done = execute(block, tmp_path, programs)
        assert done.returncode == block.status, f"{block.text}{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        assert {*block.printed} <= {*(done.stdout + done.stderr).splitlines()}, f"{done.stdout}{done.stderr}"
    if told := re.search(r"^<!-- cases at the end: (.+) -->$", read(page), re.MULTILINE):
        compat = json.loads((tmp_path / "build" / "site" / "compat.json").read_text(encoding="utf-8"))
        states = compat["run"]["cases_by_state"]
        assert sorted(told[1].split(", ")) == sorted(f"{state} {count}" for state, count in states.items())


def test_the_documentation_has_commands_and_most_pages_that_teach_run_theirs():
    """Name the blocks that are not run: ``pytest -rP`` shows them."""
    for block in (block for block in BLOCKS if block.reason):
        print(f"{block.page}: {block.text.splitlines()[0]}: {block.reason}")
    assert len(RUN) >= EXECUTED
    teaching = {block.page for block in BLOCKS if block.page.startswith(("docs/how-to/", "docs/tutorials/"))}
    assert len(teaching) >= 9
    assert len({block.page for block in RUN} & teaching) > len(teaching) / 2


def test_a_block_that_is_not_run_says_why_and_a_test_that_it_names_exists():
    at_least(20, (block for block in BLOCKS if block.reason))
    for block in BLOCKS:
        assert not block.reason or (len(block.reason) > 10 and not block.printed), block
        for name in re.findall(r"tests/\S+\.py", block.reason):
            assert (ROOT / name).exists(), block


def test_the_parser_sees_marks_titles_and_blocks():
    text = (
        "<!-- not run: no GPU here -->\n```sh\na\n```\n\n<!-- ends with 1 -->\n```sh\nb\n```\n"
        '<!-- printed -->\n```text\nd\n  e\n```\n```python title="x.py"\nc\n```\n'
    )
    assert blocks_of("p", text) == [Block("p", "a\n", "no GPU here", 0), Block("p", "b\n", "", 1, ("d", "  e"))]
    assert files_of("p", text) == {"x.py": "c\n"}


@pytest.mark.slow
def test_a_command_that_fails_is_seen(tmp_path, programs):
    assert execute(Block("p", "kernel-matrix check\ntrue\n", "", 0), tmp_path, programs).returncode == 2


@pytest.fixture(scope="module")
def generator(tmp_path_factory) -> Path:
    """Return the folder of the programs of the environment that builds the site."""
    folder = tmp_path_factory.mktemp("docs")
    venv.uv("venv", "--python", sys.executable, "--no-project", str(folder / "env"))
    python = folder / "env" / "bin" / "python"
    venv.uv("pip", "install", "--python", str(python), "-r", str(ROOT / "ci" / "locks" / "docs.txt"))
    return python.parent


def build(root: Path, site: Path, generator: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
        "PATH": f"{generator}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        **variables,
    }
    command = [sys.executable, str(root / "ci" / "docs_site.py"), str(site)]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly  # ``ci/nox -s docs`` builds the site for each change
def test_the_site_is_built_has_every_page_and_asks_no_other_host(tmp_path, generator):
    done = build(ROOT, tmp_path / "site", generator)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    expected = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in at_least(60, (ROOT / "docs").rglob("*.md"))
    }
    assert expected <= pages
    assert {f"reference/{name}.html" for name in ("commands", "matrix-yaml", "states", "suite")} <= pages
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//[^"]*"[^>]*>', text), path
    assert "mutants are killed" in (tmp_path / "site" / "mutants.html").read_text(encoding="utf-8")
    assert (tmp_path / "site" / "toolchains.html").read_text(encoding="utf-8").count("<table") > 8
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text(encoding="utf-8")
    assert 'id="init"' in commands
    assert "--no-run" in commands


@pytest.mark.slow
def test_a_dead_link_and_a_dead_anchor_stop_the_build(tmp_path, generator):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "ci", copy / "ci", ignore=shutil.ignore_patterns("locks"))
    for name in ("matrix.yaml", "src", "ci/locks", "pyproject.toml"):  # what the reference is made from
        (copy / name).symlink_to(ROOT / name)
    (copy / "docs").mkdir()
    (copy / "docs" / "explanation.md").write_text("# Explanation\n")
    (copy / "docs" / "index.md").write_text("# Start\n\n[a](how-to/nowhere.md)\n\n[b](explanation.md#nowhere)\n")
    done = build(copy, tmp_path / "site", generator)
    assert done.returncode != 0
    assert "page does not exist" in done.stderr
    assert "anchor does not exist" in done.stderr
    assert not (tmp_path / "site").exists()
