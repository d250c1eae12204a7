"""A reason is told whole: of several lines, a chain, a group; where it is cut, a mark and a command say so."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from common import harness
from suites import MATRIX, Suite

from kernel_matrix.diagnosis import diagnose, in_words
from kernel_matrix.diagnosis.whole import CUT, MOST, cut, whole_reason
from kernel_matrix.vendors.machine import detect

LONG = "the table has no row for this, " * 40 + "so take sm_90"
# Each is raised in a test; what its reason must say.
RAISED = {
    "wrapped": (
        "raise ValueError('values that are more\\nthan 30 days old: set max_age to None')",
        "more than 30 days old",
    ),
    "empty_first": ("raise RuntimeError('\\nthe table has no row for sm_90\\n')", "RuntimeError: the table has no row"),
    "two_lines": (
        "raise TypeError('Failed in pipeline\\nNo implementation of add:\\n\\n >>> add(array, str)')",
        ">>> add(",
    ),
    "indented": ("raise ValueError('shapes differ:\\n    a: (2, 3)\\n    b: (3, 2)')", "a: (2, 3) b: (3, 2)"),
    "group": ("raise ExceptionGroup('several', [ValueError('bad stride')])", "ValueError: bad stride"),
    "group_of_group": (
        "raise ExceptionGroup('a', [ExceptionGroup('b', [OSError('deep\\nand more')]), KeyError('x')])",
        "OSError: deep and more",
    ),
    "raised_inside_group": (
        "try:\n        int('z')\n    except ValueError as e:\n        raise ExceptionGroup('several', [e])",
        "invalid literal for int()",
    ),
    "chained": (
        (
            "try:\n        raise OSError('libfoo.so.3: cannot open shared object file')\n"
            "    except OSError as e:\n        raise ImportError('the extension could not be loaded') from e"
        ),
        "libfoo.so.3: cannot open",
    ),
    "chained_twice": (
        (
            "try:\n        try:\n            {}['sm_90']\n        except KeyError as e:\n"
            "            raise LookupError('no kernel') from e\n"
            "    except LookupError as e:\n        raise RuntimeError('not built') from e"
        ),
        "KeyError: 'sm_90'",
    ),
    "while_handled": (
        "try:\n        open('/nowhere/weights')\n    except OSError:\n        raise RuntimeError('no weights')",
        "No such file or directory: '/nowhere/weights'",
    ),
    "printed": ("print('E   OSError: printed only')\n    raise ValueError('the real one')", "ValueError: the real one"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, list[str]]:
    """Return the lines that a run prints of each test."""
    files = {f"tests/test_{name}.py": f"def test_it():\n    {code}\n" for name, (code, _) in RAISED.items()}
    files["tests/test_long.py"] = f"def test_it():\n    raise ValueError({LONG!r})\n"
    files["tests/test_many.py"] = "".join(f"def test_{n}():\n    raise ValueError('number {n}')\n" for n in range(5))
    matrix = MATRIX.replace("[any]", f"[{detect().devices[0].targets[-1]}]")
    suite = Suite.made(tmp_path_factory.mktemp("said") / "thing", files, matrix)
    done = harness("run", "--matrix", str(suite.root / "matrix.yaml"), "--executor", "current")
    lines: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if ".tests" in line and not line.startswith("  repeat"):
            name = line.rpartition("/test_")[2] if "more of" not in line else "more"
            of_file = line.partition(".tests")[0].rpartition("/test_")[2]
            now = lines.setdefault("more" if name == "more" else of_file, [])
        now = now if lines else []
        now.append(line)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", RAISED)
def test_the_console_says_the_whole_reason(said, name):
    reason, cause = said[name][1:3]
    assert RAISED[name][1] in reason
    assert "printed only" not in reason
    assert cause.startswith("  cause: ")
    assert not cause.endswith(("Error:", "more"))


@pytest.mark.slow
def test_a_reason_that_is_cut_has_a_mark_and_the_command_that_shows_it(said):
    reason, whole = said["long"][1:3]
    assert reason.endswith(CUT)
    assert "take sm_90" not in reason
    assert whole.startswith("  the whole: ")
    shown = harness("query", *shlex.split(whole.partition(" query ")[2]))
    assert "so take sm_90" in shown.stdout, shown
    more = said["more"][0]
    assert more.startswith("  and 2 more of ")
    shown = harness("query", *shlex.split(more.partition(" query ")[2]))
    assert "number 4" in shown.stdout, shown


def test_a_text_is_cut_with_a_mark_only_where_it_is_longer():
    assert cut("x" * MOST) == "x" * MOST
    assert (len(cut("x" * (MOST + 1))), cut("x" * (MOST + 1))[-1]) == (MOST, CUT)


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stderr


def test_a_traceback_of_python_itself_has_its_chain_too():
    text = python("try:\n  import nowhere\nexcept ImportError as e:\n  raise RuntimeError('no backend') from e")
    assert "ModuleNotFoundError: No module named 'nowhere'" in whole_reason("RuntimeError: no backend", text)
    assert whole_reason("RuntimeError: no backend", "RuntimeError: no backend") == "RuntimeError: no backend"


def test_the_error_that_another_was_raised_from_has_its_rule_where_the_last_has_none():
    chained = "try:\n  raise OSError('libnothere.so.3: cannot open shared object file: No such file or directory')\n"
    text = python(f"{chained}except OSError as e:\n  raise ImportError('not loaded') from e")
    assert (found := diagnose(text)) is not None
    assert found.rule == "shared-library-missing"
    assert diagnose(python(f"{chained}except OSError as e:\n  raise ImportError('not loaded')")) is None


def test_an_error_inside_of_a_group_has_its_rule_and_is_named_where_there_is_none():
    group = "raise ExceptionGroup('several', [{}])"
    found = diagnose(python(group.format("ImportError('libnothere.so.3: cannot open shared object file')")))
    assert found is not None
    assert found.rule == "shared-library-missing"
    text = python(group.format("ValueError('bad stride')"))
    assert in_words(None, text).endswith("ValueError: bad stride")


def test_what_is_not_known_is_said_to_its_end(tmp_path):
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    text += "ValueError: values that are more\nthan 30 days old: set max_age to None"
    assert in_words(None, text).endswith("more than 30 days old: set max_age to None")
    file = tmp_path / "error.txt"
    Path(file).write_text(f"{text}\n")
    assert "than 30 days old" in harness("diagnose", str(file)).stdout
