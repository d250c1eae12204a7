"""Published packages with each release of Triton: what is news, whose it is, and what need not be done again."""

from __future__ import annotations

import lzma
import re
import sys
from datetime import date
from types import SimpleNamespace

import pytest
from common import harness

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.watch import environment, kept, names, news, page, plan, rows
from kernel_matrix.tools.watch.rows import Ran, Row

PLAN = """\
triton: ["1.0", "2.0"]
targets: [sm_90]
packages:
  some: {{ calls: calls.py, version: "1" {more} }}
"""
ACCEPTED = "accepted: [{package: other, since: '2', reason: known long, owner: me, until: 2099-01-01}]"


def row(kernel="package.add", outcome="pass", **other):
    return Row(kernel, other.pop("target", "sm_90"), other.pop("launch", "a"), outcome, **other)


def of(*releases, warnings=()):
    """Return results by release: each is a list of rows."""
    return {f"{number}.0": Ran(tuple(rows), warnings=tuple(warnings)) for number, rows in enumerate(releases, 1)}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ({}, {"outcome": "error"}, "broke"),
        ({}, {"outcome": "fail"}, "broke"),
        ({"outcome": "error"}, {}, "mended"),
        ({"outcome": "error"}, {"outcome": "fail"}, ""),
        ({"outcome": "error", "message": "a"}, {"outcome": "error", "message": "b"}, ""),
        ({"outcome": "unavailable"}, {"spills": 900}, ""),
        ({"spills": 0}, {"spills": 16}, "spills more"),
        ({"spills": 0}, {"spills": 12}, ""),
        ({"spills": 48}, {"spills": 400}, "spills more"),
        ({"spills": 400}, {"spills": 368}, ""),
        ({"spills": 68}, {"spills": 0}, "spills less"),
        ({"registers": 60}, {"registers": 72}, "registers more"),
        ({"registers": 66}, {"registers": 78}, ""),
        ({"registers": 62}, {"registers": 66}, ""),
        ({"registers": 130}, {"registers": 100}, "registers fewer"),
        ({"registers": 120, "target": "gfx942"}, {"registers": 130, "target": "gfx942"}, "registers more"),
        ({"registers": 60, "target": "gfx942"}, {"registers": 52, "target": "gfx942"}, ""),
        ({"launch": "a"}, {"launch": "b", "outcome": "error"}, ""),
    ],
)
def test_a_difference_is_news_by_rules(old, new, kind):
    found, _, _ = news.of_package("p", of([row(**old)], [row(**new)]))
    assert [one.kind for one in found] == ([kind] if kind else [])


def test_launches_that_change_alike_are_one_line_with_the_first_release():
    broken = [row(f"p.k{number}", "error", message="gone") for number in range(31)]
    fine = [row(f"p.k{number}") for number in range(31)]
    [one], compared, differ = news.of_package("p", of(fine, fine, broken, broken))
    assert (one.kind, one.since, len(one.cells)) == ("broke", "3.0", 31)
    assert (compared, differ) == (93, 31)


@pytest.mark.parametrize(
    ("message", "stage", "warnings", "whose"),
    [
        ("AttributeError: module has no attribute 'make_block_ptr'", "lower",
         ["FutureWarning: use descriptors and no make_block_ptr or block pointers"], "Triton: a name went without"),
        ("Block pointers have been removed in favor of the tensor descriptor API", "lower",
         ["UserWarning: tl.make_block_ptr is deprecated. Use tl.make_tensor_descriptor"], "the package: earlier "),
        ("'_aggregate' object has no attribute 'element_ty'", "lower", [], "Triton: a name went without a warning"),
        ("'tt.load' op operation destroyed but still has uses", "compile", [], "Triton: a pass of its compiler fails"),
        ("no end after 150 s", "timeout", [], "Triton: a pass of its compiler fails"),
        ("ValueError: something", "lower", [], "open"),
    ],
)  # fmt: skip
def test_whose_a_break_is(message, stage, warnings, whose):
    broken = [row(outcome="error", message=message, stage=stage)]
    [one], _, _ = news.of_package("p", of([row()], broken, warnings=warnings))
    assert one.whose.startswith(whose)


def told(results, *, new=(), accepted=()):
    found, compared, differ = news.of_package("some", results)
    keys = {one.kind: one.key for one in found}
    chosen = [frozenset(keys[kind] for kind in kinds) for kinds in (new, accepted)]
    return page.Page(
        "today",
        {"python": "3", "torch": "2", "numpy": "2"},
        {"some": results},
        found,
        *chosen,
        ["`triton.a` is gone"],
        compared,
        differ,
        1,
    )


def test_the_page_begins_with_what_broke_and_says_if_nothing_did():
    broken = of([row(), row("p.b", spills=1)], [row(outcome="error", message="a | b"), row("p.b", spills=99)])
    first = page.markdown(told(broken, new=["broke", "spills more"]))
    assert first.startswith("# triton 2.0 breaks 1 kernel of some (today).")
    assert "| some | 2 of 2 | 1 of 2 |" in first
    assert "| new | broke | some | 2.0 | 1 | add on sm_90: a \\| b |" in first
    later = page.markdown(told(broken))
    assert later.startswith("# Nothing broke since the last time; 1 breaks stand from before (today).")
    assert page.markdown(told(broken, accepted=["broke"])).startswith("# Nothing broke since the last time (today).")
    assert "`triton.a` is gone" in later
    assert "With python 3, torch 2, numpy 2." in later
    assert "None: no launch changed" in page.markdown(told(of([row()], [row(registers=1)])))


def test_a_warning_of_the_newest_release_says_what_will_break():
    results = {**of([row()]), "2.0": Ran((row(),), warnings=("FutureWarning: fma goes",))}
    assert "## What will break" in (text := page.markdown(told(results)))
    assert "- FutureWarning: fma goes (some)" in text
    assert "## What will break" not in page.markdown(told(of([row()], [row()])))


def test_names_that_went_are_found_with_the_places_that_use_them(tmp_path):
    source = tmp_path / "package.py"
    source.write_text(
        "import triton.language as tl\nfrom triton.runtime import driver as d\nimport triton\n"
        "tl.advance(1)\nd.active.thing\ntriton.cdiv\nother.advance\n"
    )
    (tmp_path / "broken.py").write_text("def")
    used = names.used_in(tmp_path, [source, tmp_path / "broken.py"])
    assert used["triton.language.advance"] == ("package.py:4", 1)
    assert {"triton.runtime.driver.active.thing", "triton.cdiv"} <= set(used)
    assert not any("other" in name for name in used)
    absent = {"1": ["x"], "2": ["triton.language.advance", "x"]}
    [line] = names.gone(absent, {"some": used, "none": {}})
    assert line == "`triton.language.advance` is gone in triton 2: some (package.py:4)"
    [line] = names.gone(absent, {"some": {"triton.language.advance": ("a.py:1", 3)}})
    assert line.endswith("some (a.py:1 and 2 more)")


def test_a_release_is_asked_for_names_in_a_process_of_its_own(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("def cdiv(): ...\n")
    (tmp_path / "triton" / "language.py").write_text("class dtype:\n    x = 1\n")
    asked = ["triton.cdiv", "triton.gone", "triton.language.dtype.x", "triton.language.dtype.y", "triton.none.x"]
    asked.append("triton.cdiv.anything")  # an attribute of a value is not seen
    absent = names.absent_in(sys.executable, tmp_path, asked)
    assert absent == ["triton.gone", "triton.language.dtype.y", "triton.none.x"]
    (tmp_path / "triton" / "__init__.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(UserError, match="cannot be asked"):
        names.absent_in(sys.executable, tmp_path, ["triton.cdiv"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAN.format(more=", launched: 1"), "packages.some.launched: Extra inputs are not permitted"),
        (PLAN.format(more=", path: ."), "packages.some: version and path: name one of them"),
        (PLAN.format(more="").replace("calls.py", "none.py"), "packages.some.calls: there is no file"),
        (PLAN.format(more="") + ACCEPTED, "accepted: other is none of the packages"),
        ("triton: []\ntargets: [sm_90]\npackages: {}", "triton: Tuple should have at least 1 item"),
        ("a: [", "it cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_says_something_unknown_is_one_sentence(text, said, tmp_path):
    (tmp_path / "calls.py").touch()
    (tmp_path / "packages.yaml").write_text(text)
    with pytest.raises(UserError, match=said):
        plan.read(tmp_path / "packages.yaml")


def test_a_break_is_accepted_until_a_day():
    entry = plan.Accepted(
        package="p", kernel="a*", since="2.0", reason="known upstream", owner="me", until="2026-12-01"
    )
    assert entry.covers("p", "add", "sm_90", "2.0", date(2026, 12, 1))
    for other in (("q", "add", "2.0", date(2026, 12, 1)), ("p", "mul", "2.0", date(2026, 12, 1)),
                  ("p", "add", "3.0", date(2026, 12, 1)), ("p", "add", "2.0", date(2026, 12, 2))):  # fmt: skip
        assert not entry.covers(other[0], other[1], "sm_90", other[2], other[3])


def test_what_is_kept_is_the_same_after_reading_and_another_file_is_refused(tmp_path):
    file = tmp_path / "kept.xz"
    found = Ran((row(message="m", spills=3),), "a fault", ("FutureWarning: x",), {"k": "print()"})
    state = kept.read(file)
    state.keep("some", "1.0", "key", found)
    kept.write(file, state)
    again = kept.read(file)
    assert again.result("some", "1.0", "key") == found
    assert again.result("some", "1.0", "another key") is None
    assert again.result("some", "2.0", "key") is None
    file.write_bytes(lzma.compress(b"[]"))
    with pytest.raises(UserError, match="not what `watch` has kept"):
        kept.read(file)


def test_the_key_changes_with_all_that_decides_a_result(monkeypatch):
    first = kept.key_of({"triton": "1"})
    assert kept.key_of({"triton": "1"}) == first
    assert kept.key_of({"triton": "2"}) != first
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert kept.key_of({"triton": "1"}) == first
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert kept.key_of({"triton": "1"}) != first


def test_a_package_whose_program_launched_nothing_is_named_first_and_is_no_success():
    ended = of([row()], [])
    ended["2.0"] = Ran(fault="told of sm_90: ModuleNotFoundError: No module named 'einops'")
    unknown = "nothing is known of some: told of sm_90: ModuleNotFoundError: No module named 'einops' (today)."
    assert page.markdown(told(ended)).startswith(f"# Nothing broke since the last time; {unknown}")
    assert told(of([row()], [row()])).unknown == {}
    assert told(of([], [row()])).unknown == {}, "the newest release is what counts"


def python_that(tmp_path, says):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{says}"\n')
    python.chmod(0o755)
    return str(python)


def test_all_that_the_python_of_the_programs_has_is_told_and_so_part_of_the_key(tmp_path):
    """Change what a program can do by what is installed into its environment afterwards."""
    python = python_that(tmp_path, "print('python 3 11'); print('Torch 2.13'); print('numpy 2'); print('a_b.c 1')")
    assert environment.asked(python) == {"python": "3.11", "torch": "2.13", "numpy": "2", "a-b-c": "1"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("exit 3", "SyntaxError: invalid syntax"),
        ("print('python', 3, 11)", "it has no torch. It needs torch and numpy."),
        ("print('python', 3, 11); print('Torch', 2)", "it has no numpy. It needs torch and numpy."),
        (None, "No such file or directory"),
    ],
)
def test_a_python_that_cannot_run_the_programs_is_one_sentence(tmp_path, text, sentence):
    python = python_that(tmp_path, text) if text else str(tmp_path / "python")
    with pytest.raises(UserError, match=re.escape(sentence)) as raised:
        environment.asked(python)
    assert str(raised.value).startswith(f"--python {python}: ")


def test_a_module_that_is_absent_is_named_with_what_installs_it():
    fault = rows.in_words("ModuleNotFoundError: No module named 'einops.layers' (a.py:3)", ["sm_90", "gfx942"])
    assert fault.startswith("told of sm_90 and gfx942: ModuleNotFoundError")
    assert fault.endswith("; put the distribution that has einops into `requires`")
    assert rows.in_words("ValueError: 3", ["sm_90"]) == "told of sm_90: ValueError: 3"


def test_code_that_a_run_imports_nothing_from_is_no_part_of_its_key(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py")))

    def keys():
        return kept.key_of({}), kept.key_of({}, emulated=True)

    seen = [keys()]
    for folder in ("card", "emulated", "."):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "some.py").write_text("one = 1\n")
        seen.append(keys())
    assert seen[0] == seen[1], "no run of watch has a card"
    assert seen[1][0] == seen[2][0] != seen[3][0]
    assert seen[1][1] != seen[2][1] != seen[3][1]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Write a plan of one checkout and a stand-in for what installs and records."""
    (tmp_path / "calls.py").write_text("import some\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "some.py").write_text("import triton\ntriton.cdiv\n")
    text = 'triton: ["1.0", "2.0"]\ntargets: [sm_90]\npackages:\n  some: { calls: calls.py, path: package }\n'
    (tmp_path / "packages.yaml").write_text(text)
    return tmp_path


def test_a_second_run_without_news_starts_nothing_and_a_changed_checkout_does(watched, monkeypatch, capsys):
    from kernel_matrix.cli import main
    from kernel_matrix.tools.watch import command

    started = []

    def ran(_python, _package, _targets, folders, _options, folder):
        started.append(folder.name)
        outcome = "error" if folder.name.endswith("2.0") else "pass"
        return Ran((row(outcome=outcome, message="went away"),), reproducers={"went away": "import some"})

    monkeypatch.setattr(rows, "ran", ran)
    monkeypatch.setattr(command, "installed", lambda _python, name, version, folder: folder / f"{name}-{version}")
    monkeypatch.setattr(
        names, "absent_in", lambda _python, triton, _names: ["triton.cdiv"] if "2.0" in str(triton) else []
    )
    monkeypatch.setattr(environment, "asked", lambda _: {"python": "3", "torch": "2", "numpy": "2"})
    words = ["watch", str(watched / "packages.yaml"), "--python", "x", "--build", str(watched / "b")]
    assert main(words) == 1
    assert started == ["some-2.0", "some-1.0"], "the newest release first"
    text = (watched / "b" / "watch" / "watch.md").read_text()
    assert text.startswith("# triton 2.0 breaks 1 kernel of some")
    assert "[reproducer 1](#reproducer-1)" in text
    assert "`triton.cdiv` is gone in triton 2.0: some (some.py:2)" in text
    assert main(words) == 0, "it was told before"
    assert len(started) == 2
    (watched / "package" / "some.py").write_text("import triton\n")
    assert main(words) == 0
    assert len(started) == 4
    assert "Nothing broke since the last time; 1 breaks stand from before" in capsys.readouterr().out
    kept_elsewhere = ["--build", str(watched / "new"), "--kept", str(watched / "b" / "watch" / "kept.xz")]
    assert main([*words, *kept_elsewhere]) == 0, "as a night does, in a fresh checkout"
    assert (watched / "new" / "watch" / "watch.md").is_file()
    assert len(started) == 4


def test_a_package_that_is_not_in_the_plan_and_a_plan_that_is_not_there_are_one_sentence(watched):
    done = harness("watch", str(watched / "packages.yaml"), "--python", sys.executable, "--only", "sme")
    assert done.returncode == 2
    assert "--only sme: there is no such package of" in done.stderr
    done = harness("watch", str(watched / "none.yaml"), "--python", sys.executable)
    assert (done.returncode, "it cannot be read" in done.stderr) == (2, True)
