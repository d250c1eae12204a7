"""The pages of the repository: what they name exists, and their generated tables are up to date."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from common import ROOT
from loops import at_least

from kernel_matrix import cli
from kernel_matrix.store.documents import documents
from kernel_matrix.store.load import collect
from kernel_matrix.store.write import write

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in at_least(60, [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "ci" / "runner" / "README.md"])
)
# Pages about a repository of the reader: their paths and toolchains do not exist in this one.
_OF_A_READER = (
    "docs/tutorials/",
    *(f"docs/how-to/{name}.md" for name in ("backend", "expectation", "kept-results", "read-accuracy", "suite")),
)
OWN_PAGES = at_least(40, (page for page in PAGES if not page.startswith(_OF_A_READER)))
NOTES = sorted(path.relative_to(ROOT).as_posix() for path in at_least(5, (ROOT / "notes").glob("*.md")))
# A day, as a log has it. A page has one only in a table, in code (the output of a command) or in the address of a note.
_DAY = re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b")
# A placeholder in a path stands for any name: src/mhc/ops/OP.py, src/mhc/backends/<backend>/.
_PLACEHOLDER = re.compile(r"<[^<>]+>|(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])")
_SESSION = re.compile(r"ci/nox -s ([\w-]+)((?: -- [^`|\n]*)?)")
_COMMAND = re.compile(r"kernel-matrix ((?:ci |toolchains )?[a-z][a-z-]*)([^`|\n]*)")


@cache
def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code(text: str) -> Iterator[str]:
    """Yield the words of all code in a page: in fences and between backticks."""
    fences = re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    for piece in (*fences, *spans):
        yield from re.split(r"[\s'\"=,;()]+", piece)


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "ci" / "docs_tables.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tracked() -> frozenset[str]:
    """Return the files of the repository and their folders. A file that is not committed yet counts too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [name for name in listed if (ROOT / name).exists()]
    return frozenset([*files, *(str(folder) for name in files for folder in Path(name).parents)])


@pytest.fixture(scope="module")
def sessions() -> frozenset[str]:
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "-l"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return frozenset(re.findall(r"^[*-] ([\w-]+) ->", listed, re.MULTILINE))


def missing_paths(text: str, tracked: frozenset[str]) -> list[str]:
    """Return the words in the code of a page that look like a path of the repository, but are not."""
    top = {name.partition("/")[0] for name in tracked if "/" in name}
    missing = []
    for word in code(text):
        path = word.rstrip("/.:")
        if path.partition("/")[0] not in top or "/" not in word or path in tracked:
            continue
        pattern = _PLACEHOLDER.sub("*", path)
        if "*" not in pattern or not any(ROOT.glob(pattern)):
            missing.append(word)
    return missing


def missing_links(page: str, text: str) -> list[str]:
    """Return the relative links of a page that lead to no file."""
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    return [link for link in links if link and not ((ROOT / page).parent / link).exists()]


def test_every_path_that_a_page_names_exists(tracked):
    assert {page: missing for page in OWN_PAGES if (missing := missing_paths(read(page), tracked))} == {}


def test_a_path_that_does_not_exist_is_found(tracked):
    text = "`ci/nothing`, `src/mhc/ops/OP.py`, `src/<name>/nothing`, and\n```sh\nci/nox -s x\nci/base-image\n```\n"
    assert missing_paths(text, tracked) == ["ci/base-image", "ci/nothing", "src/<name>/nothing"]


def days(text: str) -> list[str]:
    """Return the lines of a page with a day outside of tables, code and addresses."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]+`|\]\([^)\s]+\)", "", text)
    return [line for line in text.splitlines() if not line.startswith("|") and _DAY.search(line)]


def test_a_page_is_no_diary():
    """Notes have days: figures of a day, and what was tried, stand in notes/YYYY-MM-DD-TOPIC.md."""
    assert {page: found for page in PAGES if page != "CHANGELOG.md" and (found := days(read(page)))} == {}


def test_a_diary_in_a_page_is_found():
    code = "```text\n2026-11-22\n```\n`until: 2027-11-22`"
    text = f"Measured 2026-11-22:\n| 2026-11-22 |\n{code}, [a note](2026-11-22-x.md)\n"
    assert days(text) == ["Measured 2026-11-22:"]


@pytest.mark.parametrize(("page", "most"), [("README.md", 8192), ("CONTRIBUTING.md", 15360)])
def test_the_first_pages_are_short(page, most):
    assert len(read(page).encode()) <= most


def test_a_note_has_the_day_in_its_name_and_a_title():
    assert NOTES
    for page in NOTES:
        assert re.fullmatch(r"notes/20\d\d-[01]\d-[0-3]\d-[a-z0-9-]+\.md", page)
        assert read(page).startswith("# "), page


def test_every_link_inside_the_repository_leads_to_a_file():
    assert {page: missing for page in (*PAGES, *NOTES) if (missing := missing_links(page, read(page)))} == {}


def test_a_link_that_leads_nowhere_is_found():
    text = "[a](runners.md#rows) [b](nowhere.md) [c](https://example.org/x)"
    assert missing_links("docs/containers.md", text) == ["nowhere.md"]


@pytest.mark.slow
def test_every_session_that_a_page_names_exists(sessions):
    named = {page: {name for name, _ in _SESSION.findall(read(page))} for page in PAGES}
    at_least(8, set().union(*named.values()))
    assert {page: names - sessions for page, names in named.items() if names - sessions} == {}


def test_the_readme_names_what_a_user_starts_with():
    named = {name for name, _ in (*_SESSION.findall(read("README.md")), *_COMMAND.findall(read("README.md")))}
    assert {"matrix", "tests", "lint", "doctor"} <= named


@cache
def options_of(command: str) -> frozenset[str]:
    """Return the options of a command."""
    return frozenset(re.findall(r"(?<![\w-])--[a-z][\w-]*", cli.parser_of(command).format_help())) | {"--help"}


def test_every_option_that_a_page_names_is_one_of_its_command():
    text = "\n".join(map(read, PAGES))
    of_sessions = [("run" if name.startswith("test-") else name, words) for name, words in _SESSION.findall(text)]
    for name, words in {*of_sessions, *_COMMAND.findall(text)}:
        options = set(re.findall(r"(?<=\s)--[a-z][\w-]*", words.partition(" -- ")[0] if name == "launches" else words))
        if name in cli.commands() and options:
            assert options <= options_of(name), f"{name}{words}"


def test_every_toolchain_that_a_command_names_is_in_the_matrix(matrix):
    named = {page: {*re.findall(r"--toolchain ([\w.-]+)", read(page))} - {"NAME"} for page in OWN_PAGES}
    at_least(2, set().union(*named.values()))
    assert {page: names for page, names in named.items() if not names <= matrix.toolchains.keys()} == {}


@pytest.mark.parametrize("package", ["kernel_matrix", "mhc"])
def test_contributing_describes_every_room(package):
    text = read("CONTRIBUTING.md").partition(f"### The rooms of `src/{package}`")[2].partition("\n#")[0]
    named = {
        name.strip("/") for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) for name in row.split("`")[1::2]
    }
    folder = ROOT / "src" / package
    assert [name for name in named if "<" not in name and not (folder / name).exists()] == []
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert rooms <= {name.partition("/")[0] for name in named}


def test_contributing_has_the_order_of_the_rooms_that_imports_are_held_to():
    [arrows] = re.findall(r"^    (base.* <- .*)$", read("CONTRIBUTING.md"), re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    assert [layer.replace(", ", " | ") for layer in reversed(arrows.split(" <- "))] == layers


@pytest.mark.slow
def test_generated_tables_are_up_to_date(tables):
    at_least(15, (block for page in PAGES for block in tables._BLOCK.findall(read(page))))
    assert [page for page in PAGES if tables.page_is_old(ROOT / page, write=False)] == []


def test_every_generated_table_has_both_of_its_markers_and_stands_on_a_page_that_is_written(tables):
    for page in PAGES:
        text = read(page)
        blocks = re.findall(r"^<!-- generated: .+? -->\n(?:\|.*\n)*<!-- end -->$", text, re.MULTILINE)
        assert len(blocks) == text.count("<!-- generated:") == text.count("<!-- end -->"), page
        assert not blocks or page in tables.PAGES


@pytest.mark.slow
def test_every_table_that_only_the_site_has_is_made_from_its_data(tables):
    pages = [page for page in PAGES if "<!-- on the site: " in read(page)]
    assert {"docs/mutants.md", "docs/toolchains.md"} <= set(pages)
    for page in pages:
        text = tables.filled(read(page))
        assert "<!-- on the site: " not in text
        assert text.count("\n|") > 20, page


def test_a_table_that_differs_from_its_data_is_found_and_written(tables, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- generated: events -->\n| wrong |\n<!-- end -->\nafter\n")
    monkeypatch.setattr(tables, "PAGES", [str(page)])
    assert tables.main(["--check"]) == 1
    assert "Write it: ci/nox -s docs" in capsys.readouterr().out
    assert "wrong" in page.read_text()
    assert tables.main([]) == 0
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "| `nightly` | full | all | tried too | no limit |" in lines
    assert tables.main(["--check"]) == 0


def test_an_unknown_table_is_refused(tables):
    with pytest.raises(ValueError, match="no generated table 'event'"):
        tables.table("event")


def test_a_verdict_holds_for_neighbouring_versions_only(tables):
    assert tables.windows({"1.0": "works", "1.1": "works", "1.2": "", "1.3": "works", "1.4": "known"}) == [
        "1.0 to 1.1 works",
        "1.3 works",
        "1.4 known",
    ]


def test_an_error_cannot_end_the_cell_of_a_table(tables):
    assert tables.sweep_tables.quoted("a | b\nc") == "`a \\| b`"
    assert tables.sweep_tables.quoted("a `b`") == "`` a `b` ``"
    assert tables.sweep_tables.quoted("") == ""
    assert tables.sweep_tables.quoted("x" * 200) == f"`{'x' * 100}...`"


def test_two_calibrations_of_one_output_are_refused(tables: ModuleType, tmp_path: Path) -> None:
    kept = [text for _, text in documents(ROOT / "docs" / "calibration" / "nvidia-h100")]
    assert len(kept) > 50
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(kept[0])
    with pytest.raises(ValueError, match="twice"):
        tables.calibration_tables.read(tmp_path)
    with pytest.raises(ValueError, match="no calibration"):
        tables.calibration_tables.read(tmp_path / "absent")


def test_a_time_is_bold_where_its_contender_is_ahead_and_two_times_of_one_case_are_refused(tables, tmp_path):
    times = tables.bench_tables
    far = times.Case({"fastest": 10.0, "triton-3.7": 11.0, "liger": 30.0}, {"fastest": 0.5, "triton-3.7": 0.4})
    near = times.Case({"fastest": 10.0, "liger": 10.05}, {"fastest": 0.5})
    behind = times.Case({"fastest": 250.0, "liger": 200.0, "flashinfer": 201.0}, {"fastest": 0.5})
    shown = {name: [times._median(case, name) for case in (far, near, behind)] for name in ("fastest", "liger")}
    assert shown == {"fastest": ["**10.0**", "10.0", "250"], "liger": ["30.0", "10.1", "**200**"]}
    assert times._median(near, "triton-3.7") == "", "it was not timed"
    kept = collect([ROOT / "docs" / "results" / "nvidia-h200"]).records
    of_bench = (record for record in kept if record.case.startswith("bench:") and "/fastest/" in record.case)
    timed = list({record.case: record for record in of_bench}.values())  # some shapes ran twice
    assert len(timed) > 10
    for job in ("a.bench", "b.bench"):
        write(tmp_path, {**timed[0].job, "job": job}, timed)
    with pytest.raises(ValueError, match="two results of fastest"):
        times.read(tmp_path)
    with pytest.raises(ValueError, match="no result of the benchmark"):
        times.read(tmp_path / "absent")


def test_few_tokens_are_a_table_of_the_sizes_with_most_of_them_and_one_of_every_width(tables):
    case = tables.bench_tables.Case({"fastest": 5.0, "deepgemm": 6.0}, {"fastest": 0.1})
    shapes = [(tokens, 4096) for tokens in (1, 2, 128)] + [(1, 5120), (128, 5120), (8192, 4096)]
    cases = {("read.forward", shape): case for shape in shapes}
    heads, lines = tables.bench_tables.times(cases, ["read.forward", "mhc_post_pre.forward"], few=True)
    assert (heads[2:], [line[0] for line in lines]) == (("1", "2", "128"), ["`read.forward`, hidden 4096", ""])
    heads, lines = tables.bench_tables.times(cases, ["read.forward"], few=True, widths=True)
    assert heads[2:] == ("1", "128")
    assert [line[0] for line in lines] == ["`read.forward`, hidden 4096", "", "`read.forward`, hidden 5120", ""]


def test_a_shape_at_which_an_operator_has_no_time_is_an_empty_column(tables):
    case = tables.bench_tables.Case({"fastest": 5.0}, {"fastest": 0.1})
    cases = dict.fromkeys([("mhc_pre.forward", (8192, 4096)), ("sinkhorn.forward", (2048, 1280))], case)
    heads, lines = tables.bench_tables.times(cases, ["mhc_pre.forward", "sinkhorn.forward"], few=False)
    assert heads[2:] == ("(2048, 1280)", "(8192, 4096)")
    assert [line[2:] for line in lines] == [("", "5.0"), ("5.0", "")], "none is bold: there are no rivals"


def test_a_clone_stays_small():
    """Keep what a page shows and cites: pictures with a palette, notes that are short."""
    pictures = at_least(1, (ROOT / "docs").rglob("*.png"))
    assert {path.name: size for path in pictures if (size := path.stat().st_size) > 200_000} == {}
    assert sum((ROOT / note).stat().st_size for note in NOTES) <= 100_000
    assert sum(path.stat().st_size for path in at_least(4, (ROOT / "docs" / "results").rglob("*.parquet"))) <= 3_300_000
    uncited = [note for note in NOTES if not any(Path(note).name in read(page) for page in PAGES)]
    assert [note for note in uncited if Path(note).name not in (ROOT / "matrix.yaml").read_text()] == []
