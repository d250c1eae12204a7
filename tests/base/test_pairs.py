"""Options of the form NAME=VALUE are read as they are written, or refused: none is passed over."""

from __future__ import annotations

import ast

import pytest
from common import ROOT, harness
from loops import at_least

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.pairs import pairs

FORM = "NAME=VERSION"


def test_several_are_read_and_the_same_one_twice_is_one():
    given = ["numpy=2.4.6", " torch = 2.13.0 ", "numpy=2.4.6", "flag=a=b"]
    assert pairs("--pin", given, FORM) == {"numpy": "2.4.6", "torch": "2.13.0", "flag": "a=b"}
    assert pairs("--pin", [], FORM) == {}


@pytest.mark.parametrize(
    "text", ["numpy", "numpy=", "=2.4.6", "", "=", "numpy==2.4.6", "numpy= ", "numpy>2", "numpy>=2", "a b=2"]
)
def test_what_has_another_form_is_refused_with_the_form(text):
    with pytest.raises(UserError, match="write NAME=VERSION"):
        pairs("--pin", ["torch=2.13.0", text], FORM)


def test_a_name_with_two_values_is_refused():
    with pytest.raises(UserError, match=r"'numpy' has another value already, 1\.26\.4"):
        pairs("--pin", ["numpy=1.26.4", "numpy=2.4.6"], FORM)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("toolchains", "bisect", "torch", "--pin", "numpy", "--good", "1", "--bad", "2"), "--pin numpy: write NAME="),
        (
            ("toolchains", "bisect", "--commits", "a..b", "--pin", "numpy=1", "--case", "a"),
            "each commit has its own",
        ),
        (("toolchains", "sweep", "torch", "--with", "numpy", "--versions", "1"), "--with numpy: write NAME="),
        (("toolchains", "sweep", "torch", "--with", "numpy=1,,2", "--versions", "1"), "a version is missing between"),
    ],
)
def test_a_command_refuses_what_it_would_pass_over(words, said):
    done = harness(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_every_option_of_this_form_is_read_so():
    """An option whose help says NAME=VALUE stands in a module that reads it by the one function."""
    own = {"launches/command.py": "one NAME=VERSION,VERSION alone"}
    found = {}
    for path in sorted(at_least(300, (ROOT / "src" / "kernel_matrix").rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            value = next((k.value for k in getattr(node, "keywords", ()) if k.arg == "metavar"), None)
            if isinstance(value, ast.Constant) and "=" in str(value.value):
                found[str(path.relative_to(ROOT / "src" / "kernel_matrix"))] = "base.pairs import pairs" in text
    assert len(found) > 2
    others = [name for name, ok in found.items() if not ok and not name.endswith((*own, "cli/options.py"))]
    assert others == [], "cli/options.py hands --expect to results/repeat.py"
