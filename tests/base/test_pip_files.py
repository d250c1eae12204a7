"""pip's settings in its files are known by the names of its variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kernel_matrix.base import installation, wheels
from kernel_matrix.base.pip_files import with_files

INDEX = "https://packages.example.com/simple"


def lay(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a home and a folder of the machine's settings, where nothing is set."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "XDG_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "etc"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    return tmp_path


@pytest.mark.parametrize(
    "file", ["etc/pip/pip.conf", "home/.pip/pip.conf", "home/.config/pip/pip.conf", "env/pip.conf"]
)
@pytest.mark.parametrize("section", ["global", "install"])
def test_a_setting_of_each_file_and_section_is_known(place, file, section):
    lay(place, {file: f"[{section}]\nindex-url = {INDEX}\n"})
    assert with_files(os.environ)["PIP_INDEX_URL"] == INDEX
    assert installation.settings_of_pip(os.environ)["UV_DEFAULT_INDEX"] == ("PIP_INDEX_URL", INDEX)


def test_the_file_that_a_variable_names_wins_over_the_others_and_a_variable_over_all(place, monkeypatch):
    lay(place, {"etc/pip/pip.conf": "[global]\ncert = /a.pem\nconstraint = /c.txt\n"})
    lay(place, {"env/pip.conf": "[global]\ncert = /b.pem\n", "own": "[install]\ncert = /c.pem\n"})
    lay(place, {"home/.config/pip/pip.conf": "[global]\nfind-links = /w\n"})
    assert with_files(os.environ)["PIP_CERT"] == "/b.pem"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(place / "own"))
    found = with_files(os.environ)
    assert (found["PIP_CERT"], found["PIP_CONSTRAINT"], "PIP_FIND_LINKS" in found) == ("/c.pem", "/c.txt", False)
    monkeypatch.setenv("PIP_CERT", "/d.pem")
    assert with_files(os.environ)["PIP_CERT"] == "/d.pem"


def test_a_name_may_have_underscores_and_a_value_several_lines_and_a_percent_sign(place):
    lay(place, {"home/.pip/pip.conf": "[global]\nfind_links =\n    /a%20b\n    /c\n"})
    assert wheels.words("UV_FIND_LINKS", "PIP_FIND_LINKS") == ["/a%20b", "/c"]
    assert installation.settings_of_pip(os.environ) == {"UV_FIND_LINKS": ("PIP_FIND_LINKS", "/a%20b,/c")}
    assert "UV_FIND_LINKS=/a%20b,/c" in installation.uv_line("pip", "list")


@pytest.mark.parametrize("text", ["index-url = x\n", "[global\n", "[global]\nindex-url\n", "[global]\n\xff", ""])
def test_a_file_that_pip_refuses_or_that_sets_nothing_is_left_to_pip(place, text):
    lay(place, {"etc/pip/pip.conf": ""})
    (place / "etc/pip/pip.conf").write_text(text, encoding="latin-1")
    lay(place, {"home/.pip/pip.conf": "[global]\ncert = /a.pem\n"})
    found = with_files({"HOME": str(place / "home"), "XDG_CONFIG_DIRS": str(place / "etc")})
    assert {name: value for name, value in found.items() if name.startswith("PIP_")} == {"PIP_CERT": "/a.pem"}


def test_no_file_is_read_where_pip_is_told_so_and_more_indexes_are_none_of_uv_s(place, monkeypatch):
    lay(place, {"etc/pip/pip.conf": f"[global]\nextra-index-url = {INDEX}\ncert = /a.pem\n"})
    assert "PIP_EXTRA_INDEX_URL" not in with_files(os.environ)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert "PIP_CERT" not in with_files(os.environ)


def test_uv_s_own_setting_stays(place, monkeypatch):
    lay(place, {"etc/pip/pip.conf": f"[global]\nindex-url = {INDEX}\n"})
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://other.example.com")
    assert installation.settings_of_pip(os.environ) == {}
