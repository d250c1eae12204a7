"""Next to the page stand the summary, the table for spreadsheets, the pictures, and the badges."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from common import ROOT, few_cases
from judges import make_document, write_site
from loops import at_least
from records import TRITON

from kernel_matrix.config.plan import plan
from kernel_matrix.report import badges, table
from kernel_matrix.report.document import Cell, SilentLane
from kernel_matrix.report.grid import MOST_COLUMNS, THEMES, grid
from kernel_matrix.report.markdown import MOST_BYTES, summary, within
from kernel_matrix.report.support import support
from kernel_matrix.results.states import RED, STATES
from kernel_matrix.store.record import Record

HOSTILE = "</script><img src=x onerror=alert(1)> | `` ``` ``````` \0 @someone [x](javascript:x) #1\n::error::x\r\n```"


@pytest.fixture(scope="module")
def planned(matrix):
    return few_cases(plan(matrix, "quick"))


A_DAY_LATER = datetime(2026, 1, 2, tzinfo=UTC)  # than the start of the records' jobs


@pytest.fixture(scope="module")
def whole(matrix, planned, passing):
    """Return the document of results where one cell has failed with a hostile text."""
    case = next(case for case in planned.cases if case.cell.id == TRITON)
    records = [Record(case.id, "error", "run", "launch", HOSTILE, HOSTILE),
               *(passing(other) for other in planned.cases if other.id != case.id)]  # fmt: skip
    return make_document(matrix, planned, records, now=A_DAY_LATER).model_copy(update={"problems": (HOSTILE,)})


def many(whole, count, **changes):
    """Return the document with so many cells, each with other names and these changes."""
    cells = [
        replace(
            whole.cells[number % len(whole.cells)], id=f"p/t{number // 10}/c/op{number % 10}.forward",
            op=f"op{number % 10}", target=f"t{number // 10}", **changes,
        )
        for number in range(count)
    ]  # fmt: skip
    lanes = [whole.lanes[0].model_copy(update={"target": f"t{number}"}) for number in range(count // 10)]
    return whole.model_copy(update={"cells": tuple(cells), "lanes": tuple(lanes)})


@pytest.mark.slow
def test_a_summary_of_a_hundred_thousand_cells_is_one_that_github_shows(whole):
    reason = f"{HOSTILE}{'`' * 3000} {'é' * 5000}"
    large = many(whole, 100_000, state="fail", reason=reason, repeat=reason)
    large = large.model_copy(update={"problems": (reason * 20,) * 10_000, "notes": (reason * 20,) * 10_000})
    text = summary(large, None)
    assert len(text.encode()) <= MOST_BYTES
    assert text.startswith("# kernel-matrix: mhc")
    assert "more broken results" in text
    assert is_closed(text)


@pytest.mark.slow
def test_a_summary_of_many_cells_has_their_lanes_and_those_of_few_has_them_all(whole):
    text = summary(many(whole, 5_000, state="pass"), None)
    assert text.count("\n| cpu-llvm | t") == 500
    assert "There are too many cells for a table of them." in text
    assert "compat.csv" in text
    assert summary(whole, None).count(f"\n| {whole.cells[0].platform} |") > 10


@pytest.mark.slow
def test_a_summary_names_so_many_cells_that_are_wrong_and_counts_the_rest(whole):
    text = summary(many(whole, 300, state="fail", reason="it broke"), None)
    assert text.count("\n## p/t") == 200
    assert "100 more cells are like these" in text


def is_closed(text: str) -> bool:
    """Return whether no block of code is open at the end, by the rules of CommonMark."""
    fence = ""
    for line in text.splitlines():
        match = re.match(r"(`{3,})(.*)", line)
        if match and not fence:
            fence = match[1]
        elif match and len(match[1]) >= len(fence) and not match[2].strip():
            fence = ""
    return not fence


@pytest.mark.parametrize("most", range(1_200, 6_000, 97))
def test_a_cut_ends_no_line_and_leaves_no_block_open(most):
    block = "````text\n" + "line `` ```\n\n" * 200 + "````"
    text = "# a\n\n| x |\n| --- |\n" + "| é |\n" * 20 + f"\n{block}\n\nend {'x' * 900}"
    cut = within(text, most)
    assert len(cut.encode()) <= most
    assert is_closed(cut)
    assert "The page in the artifact 'site' has all of it." in cut or cut == text


@pytest.mark.slow
def test_a_hostile_text_stays_inside_its_place_of_the_summary(whole):
    text = summary(whole, None)
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(outside) < len(text)
    for sign in ("<img", "</script", "[x](", "@someone"):
        assert sign not in outside
    assert "\0" not in text
    assert not re.search(r"^::", outside, re.MULTILINE)
    assert is_closed(text)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_has_a_line_for_each_cell_with_the_columns_that_are_documented(whole):
    lines = rows(table.table(whole))
    assert len(lines) == len(whole.cells)
    assert tuple(lines[0]) == table.COLUMNS
    for line, cell in zip(lines, whole.cells, strict=True):
        assert (line["platform"], line["target"], line["toolchain"]) == (cell.platform, cell.target, cell.toolchain)
        assert (line["state"], line["evidence"], int(line["cases"])) == (cell.state, cell.evidence, cell.planned)
        assert line["repeat"] == cell.repeat
    documented = (ROOT / "docs" / "reports.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", documented.partition("compat.csv")[2], re.MULTILINE) == list(table.COLUMNS)


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "\r=1", "\n=HYPERLINK(1)", "\0=1", "＝1", "＋1", "\u200b=1"],
)
def test_no_text_of_the_table_is_a_formula(whole, text):
    cells = (replace(whole.cells[0], reason=text, stage=text, repeat=text, toolchain=text),)
    [line] = rows(table.table(whole.model_copy(update={"cells": cells})))
    for name in ("reason", "stage", "repeat", "toolchain"):
        assert line[name].startswith("'"), name
    assert "\n" not in line["reason"]


def test_numbers_of_the_table_are_numbers(whole):
    for line in at_least(5, rows(table.table(whole))):
        for name in ("stale_cases", "cases", "seconds"):
            assert math.isfinite(float(line[name]))
        assert not line["noise_ratio"] or float(line["noise_ratio"]) >= 0


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_of_the_grid_has_a_square_for_each_cell_and_says_what_it_is(whole, theme):
    text = grid(whole, theme)
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "mhc: every operator on every lane"
    assert f"{whole.run.cells} cells" in next(root.iter("{http://www.w3.org/2000/svg}desc")).text
    operators = Counter((cell.platform, cell.target, cell.toolchain) for cell in whole.cells)
    few = {lane for lane, count in operators.items() if 2 * count < max(operators.values())}
    alone = Counter((platform, toolchain) for platform, _, toolchain in few)
    own = [
        cell
        for cell in whole.cells
        if (cell.platform, cell.target, cell.toolchain) not in few or alone[cell.platform, cell.toolchain] == 1
    ]
    together = {(cell.platform, cell.toolchain, cell.op, cell.direction) for cell in whole.cells if cell not in own}
    assert len(titles) == 1 + len(own) + len(together)
    assert together, "the targets that are only compiled"
    for cell in own:
        place = f"{cell.op}.{cell.direction} on {cell.platform} {cell.target} {cell.toolchain}"
        words = dict.fromkeys([cell.state, cell.evidence, *(["emulated"] if cell.emulated else [])])
        assert f"{place}: {', '.join(words)}" in titles
    for platform, toolchain, op, direction in together:
        assert [title for title in titles if re.match(rf"{op}.{direction} on {platform} \d+ more {toolchain} ", title)]
    legend = "".join(root.itertext())
    for state, count in whole.run.cells_by_state.items():
        counted = sum(int(found) for found in re.findall(rf"(\d+) of {whole.run.cells} {state}\b", legend))
        assert counted == count, state


def test_the_picture_of_many_lanes_has_a_column_for_each_toolchain_of_a_platform(whole):
    root = ElementTree.fromstring(grid(many(whole, 5_000, platform="p", toolchain="c"), "light"))
    assert float(root.get("width")) < 1_000
    many_toolchains = [replace(cell, toolchain=f"c{number}", platform="p", target="t")
                       for number, cell in enumerate(many(whole, MOST_COLUMNS + 20).cells)]  # fmt: skip
    text = grid(whole.model_copy(update={"cells": tuple(many_toolchains)}), "dark")
    assert "and 20 more toolchains of platforms" in text


def test_lanes_with_few_operators_are_put_together_first(whole):
    def cells(target, count):
        made = ({"platform": "p", "toolchain": "c", "target": target, "op": f"op{number}"} for number in range(count))
        return [replace(whole.cells[0], **update) for update in made]

    few = [cell for number in range(20) for cell in cells(f"few{number}", 2)]
    lanes = [cell for number in range(MOST_COLUMNS - 1) for cell in cells(f"t{number}", 5)]
    text = grid(whole.model_copy(update={"cells": (*lanes, *few)}), "light")
    columns = re.findall(r"rotate\(-90\)[^>]*>([^<]*)<", text)
    assert columns == [*(f"p t{number} c" for number in range(MOST_COLUMNS - 1)), "p 20 more c"]
    one_more = cells("another", 5)
    assert re.findall(
        r"rotate\(-90\)[^>]*>([^<]*)<", grid(whole.model_copy(update={"cells": (*lanes, *one_more, *few)}), "light")
    ) == ["p c"]


@pytest.mark.parametrize(
    ("states", "shown"),
    [(("unavailable", "pass", "known"), "pass"), (("pass", "error"), "error"), (("known", "unavailable"), "known")],
)
def test_a_square_of_several_lanes_shows_what_is_red_and_else_what_is_known_best(whole, states, shown):
    one = whole.cells[0]
    cells = tuple(
        replace(one, target=f"t{place}", state=states[place % len(states)]) for place in range(MOST_COLUMNS + 1)
    )
    titles = re.findall("<title>(.*)</title>", grid(whole.model_copy(update={"cells": cells}), "light"))
    assert [title for title in titles if f"({MOST_COLUMNS + 1} cells): {shown}, " in title]


def test_a_name_cannot_break_the_picture(whole):
    cells = (replace(whole.cells[0], toolchain="<script>&\"'", op="]]>"),)
    text = grid(whole.model_copy(update={"cells": cells}), "light")
    ElementTree.fromstring(text)
    assert "<script>" not in text


@pytest.mark.slow
def test_every_platform_has_a_badge_with_its_own_counts(matrix, planned, passing, tmp_path):
    expected = {case.id for case in planned.cases if case.expectations}
    records = [Record(case.id, "unavailable", message="x") if case.id in expected or case.cell.vendor == "amd"
               else passing(case) for case in planned.cases]  # fmt: skip
    wrong = next(case for case in planned.cases if case.cell.id == TRITON)
    records = [replace(r, outcome="fail", message="x") if r.case == wrong.id else r for r in records]
    made = write_site(matrix, planned, records, tmp_path, now=A_DAY_LATER)
    assert {badge.label for badge in badges.of_platforms(made)} == set(matrix.platforms)
    for name in matrix.platforms:
        endpoint = json.loads((tmp_path / "badges" / f"{name}.json").read_text())
        assert endpoint["label"] == name
        assert endpoint["message"] in (tmp_path / "badges" / f"{name}.svg").read_text()
    shown = {name: json.loads((tmp_path / "badges" / f"{name}.json").read_text()) for name in matrix.platforms}
    assert shown["cuda"]["color"] == "#cf222e"
    assert shown["cuda"]["message"].startswith("1 fail of ")
    assert shown["cpu-llvm"]["color"] == "#1a7f37"
    assert shown["rocm"] == {"schemaVersion": 1, "label": "rocm", "message": "nothing known", "color": "#6e7781"}


def test_a_platform_with_a_silent_lane_is_not_green(whole):
    cells = tuple(cell for cell in whole.cells if cell.platform == "cpu-llvm")
    assert cells
    silent = SilentLane(lane=f"cpu-llvm/{cells[0].target}/x", last_result=None, silent_since="", days=99, gone=True)
    [badge] = [badge for badge in badges.of_platforms(whole.model_copy(update={"silent": (silent,)}))
               if badge.label == "cpu-llvm"]  # fmt: skip
    assert badge.color != "#1a7f37"
    assert badge.message.endswith("1 lane silent")


def test_every_state_is_in_the_picture_with_a_sign_of_its_own(whole):
    changes = [{"state": state, "toolchain": state, "evidence": "planned"} for state in STATES]
    cells: list[Cell] = [replace(whole.cells[0], **change) for change in changes]
    text = grid(whole.model_copy(update={"cells": tuple(cells)}), "light")
    signs = re.findall(r'font-weight="700"[^>]*>(.)</text>', text)
    assert len(set(signs)) == len(STATES)
    for state in STATES:
        assert f'<use href="#{state}" ' in text
    assert set(STATES) > RED


def placed(whole, *cells):
    """Return the document with these cells: an operator, a platform, a target, a toolchain and a state each."""
    made = [
        replace(whole.cells[0], id=f"{platform}/{target}/{tool}/{op}.forward", op=op, direction="forward",
                platform=platform, target=target, toolchain=tool, state=state, stale="", emulated=state == "held")
        for op, platform, target, tool, state in cells
    ]  # fmt: skip
    return whole.model_copy(update={"cells": tuple(made)})


def test_the_table_of_support_has_what_is_red_else_the_best_and_the_gaps(whole):
    text = support(placed(
        whole,
        ("add", "cuda", "sm_90", "a", "pass"), ("add", "cuda", "sm_90", "b", "compiled"),
        ("add", "rocm", "gfx942", "a", "compiled"), ("add", "xpu", "bmg", "a", "unavailable"),
        ("mul", "cuda", "sm_90", "a", "pass"), ("mul", "cuda", "sm_90", "b", "fail"),
        ("mul", "rocm", "gfx942", "a", "held"),
        ("sub", "cuda", "sm_90", "a", "excluded"), ("sub", "rocm", "gfx942", "a", "pass"),
        ("div", "rocm", "gfx942", "a", "error"),
    ))  # fmt: skip
    assert text.splitlines() == [
        "| operator | cuda sm&#95;90 | rocm gfx942 |",
        "| --- | --- | --- |",
        "| add.forward | pass | compiled |",
        "| mul.forward | **fail** | held, emulated |",
        "| sub.forward | excluded | pass |",
        "| div.forward |  | **error** |",
        "| **ended well** | 1 of 2 | 2 of 4 |",
        "",
        "No result yet: xpu bmg.",
        "",
        "Ended well on one platform and not on another:",
        "",
        "- add.forward ended well on cuda; compiled on rocm (gfx942)",
        "- mul.forward ended well on rocm; fail on cuda (sm&#95;90)",
    ]


def test_no_text_breaks_out_of_the_table_of_support(whole):
    text = support(
        placed(whole, ("a|b\n# c", "cuda", "<img>", "a", "pass"), ("a|b\n# c", "ro[c](x)m", "t", "a", "fail"))
    )
    assert "<img>" not in text
    assert "`" not in text, "in code an escape would show as it is written"
    assert [line.count("|") for line in text.splitlines()[:4]] == [4, 4, 4, 4]


def test_of_too_many_targets_a_platform_is_one_column(whole):
    targets = [("add", "cuda", f"sm_{number}", "a", "pass" if number else "fail") for number in range(30)]
    text = support(placed(whole, *targets, ("add", "rocm", "gfx942", "a", "pass")))
    assert "| add.forward | **fail** | pass |" in text
    assert "- add.forward ended well on rocm; fail on cuda" in text.splitlines()


def test_a_platform_without_a_gap_has_no_list(whole):
    text = support(placed(whole, ("add", "cuda", "sm_90", "a", "pass"), ("add", "rocm", "gfx942", "a", "pass")))
    assert text.endswith("| **ended well** | 1 of 1 | 1 of 1 |\n")
    assert support(whole.model_copy(update={"cells": ()})).startswith("| operator |")
