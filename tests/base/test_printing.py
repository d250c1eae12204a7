"""No text of a stranger reaches a terminal as a command, wherever it stands."""

from __future__ import annotations

import io
import sys

import pytest
from common import harness
from rich.table import Table

from kernel_matrix.base import printing
from kernel_matrix.base.console import ColouredConsole
from kernel_matrix.base.errors import UserError
from kernel_matrix.store import signed_file

COMMANDS = (
    "\x1b[2J",
    "\x1bc",
    "\x07",
    "\x9b31m",
    "\x1b]0;title\x07",
    "\rover",
    "\x08",
    "\x7f",
    "\u202ereversed",
    "\x00",
)


def obeyed(text: str) -> list[str]:
    """Return the characters of a text that a terminal would obey."""
    return [char for char in text if not char.isprintable() and char not in "\n\t"]


def test_what_a_command_prints_has_nothing_that_a_terminal_obeys():
    stream = io.StringIO()
    sys_stdout, sys.stdout = sys.stdout, stream
    try:
        with printing.watched():
            for command in COMMANDS:
                print(f"a{command}b", end="\n\t")
            sys.stdout.writelines(["\x1b[31mred\n", "half \ud800"])
            with printing.watched():
                assert sys.stdout.stream is stream, "it is watched once"
    finally:
        sys.stdout = sys_stdout
    text = stream.getvalue()
    assert obeyed(text) == []
    assert text.count("\n") == len(COMMANDS) + 1
    assert "a\N{REPLACEMENT CHARACTER}[2Jb" in text


def test_colours_of_ours_reach_the_terminal_and_those_of_strangers_do_not(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printing.Printed(stream))
    console = ColouredConsole(force_terminal=True, color_system="standard", width=200)
    table = Table("now")
    for command in COMMANDS:
        console.print(f"text {command}[2J", markup=False)
        table.add_row(f"[red]row[/] {command.replace('[', '(')}")
    console.print(table)
    text = stream.getvalue()
    assert "\x1b[31mrow" in text, "our own colour"
    assert set(obeyed(text.replace("\x1b[31m", "").replace("\x1b[0m", "").replace("\x1b[1m", ""))) <= {"\u202e"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_sentence_about_the_text_of_a_stranger_is_harmless(doubles, tmp_path, command):
    (doubles.root / "results").mkdir()
    (doubles.root / "results" / "a.xml").write_bytes(b"<testsuite><x")
    log = tmp_path / "log.txt"
    log.write_text(f"RuntimeError: {command} no such device\n", encoding="utf-8")
    named = command.replace("\x00", "")
    quoted = "".join(f"\\u{ord(char):04x}" for char in command)
    doubles.edit("toolchains:\n", f'toolchains:\n  "{quoted}": {{}}\n')
    matrix = ("--matrix", str(doubles.root / "matrix.yaml"))
    for words in (
        ("check", *matrix),  # a name in matrix.yaml
        ("diagnose", str(log)),  # a line of a log
        ("report", *matrix, str(tmp_path / f"no{named}folder")),  # the name of a folder
        ("query", f"SELECT '{named}' AS text", str(doubles.root / "results")),
    ):
        done = harness(*words)
        assert obeyed(done.stdout + done.stderr) == [], words


@pytest.mark.parametrize("place", ["commit", "package", "at", "outcomes", "machine", "jobs"])
def test_an_inventory_with_a_control_character_is_refused(place):
    inventory = {
        "version": 1, "by": "alice", "key": "k", "at": "t", "package": "p", "commit": "c", "machine": {},
        "outcomes": {"pass": 1}, "jobs": [], "files": {},
    }  # fmt: skip
    signed_file.parsed(signed_file.inventory_bytes(signed_file.Inventory(**inventory)), "it")
    hostile = {"outcomes": {"\x1b[2Jpass": 1}, "machine": {"cpu": "\x07"}, "jobs": [{"\x9b": "x"}]}
    wrong = signed_file.Inventory(**inventory | {place: hostile.get(place, "a\x1b[31m")})
    with pytest.raises(UserError, match="a control character"):
        signed_file.parsed(signed_file.inventory_bytes(wrong), "it")
