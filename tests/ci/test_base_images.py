"""The base images come from the mirror of this machine's own apt sources. debootstrap and docker are fakes on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEBOOTSTRAP = """
echo "$5 for $3" >> "$CALLS/debootstrap"
mkdir -p "$4/etc/apt/apt.conf.d" "$4/etc/dpkg/dpkg.cfg.d" "$4/var/lib/apt/lists"
"""
DOCKER = """
case "$1 $2" in
"version "*) exit 0 ;;
"image inspect") exit 1 ;;
"import "*) tar -x -C "$CALLS" ;;
esac
"""
OTHER_SOURCES = "deb https://example.org/apt cloud-sdk-trixie main\n"
SECURITY = "deb http://security.example.org/debian-security trixie-security main\n"


@dataclass
class Machine:
    """Hold a Debian machine with its own apt sources."""

    root: Path

    def sources(self, name: str, text: str) -> None:
        path = self.root / "sources" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def release(self, text: str) -> None:
        (self.root / "os-release").write_text(text)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (self.root / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{self.root}/sources/list";\nDir::Etc::SourceParts "{self.root}/sources";\n'
        )
        environment = {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "APT_CONFIG": str(self.root / "apt.conf"),
            "OS_RELEASE": str(self.root / "os-release"),
            "CALLS": str(self.root),
            **variables,
        }
        command = [str(ROOT / "ci" / "base-images"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def mirrors(self) -> list[str]:
        """Return the mirrors that debootstrap was asked for."""
        return (self.root / "debootstrap").read_text().splitlines()

    @property
    def apt_settings(self) -> str:
        """Return the settings of apt in the image."""
        return "".join(path.read_text() for path in (self.root / "etc" / "apt" / "apt.conf.d").iterdir())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if not shutil.which("apt-get"):
        pytest.skip("needs apt-get, which reads the sources")
    (tmp_path / "bin").mkdir()
    for name, script in {"debootstrap": DEBOOTSTRAP, "docker": DOCKER, "id": "echo 0"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    machine = Machine(tmp_path)
    machine.release("ID=debian\nVERSION_CODENAME=trixie\n")
    return machine


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list", f"{OTHER_SOURCES}{SECURITY}deb [arch=amd64] http://one.example.org/debian trixie main contrib\n"),
        ("debian.list", "# deb http://off.example.org/debian trixie main\ndeb http://one.example.org/debian trixie main\n"),
        ("debian.sources", "Types: deb\nURIs: http://one.example.org/debian\nSuites: trixie trixie-updates\nComponents: main\n"),
        ("debian.list", "deb http://one.example.org/debian stable main\n"),
    ],
)  # fmt: skip
def test_the_mirror_is_that_of_the_machine_s_own_sources(machine, name, text):
    machine.sources(
        "a.sources", "Types: deb\nEnabled: no\nURIs: http://off.example.org\nSuites: trixie\nComponents: main\n"
    )
    machine.sources(name, text)
    done = machine.run("bookworm")
    assert done.returncode == 0, done.stderr
    assert machine.mirrors == ["http://one.example.org/debian/ for bookworm"]


def test_mirror_overrides_the_sources(machine):
    machine.sources("list", "deb http://one.example.org/debian trixie main\n")
    done = machine.run("bookworm", "forky", MIRROR="http://two.example.org/debian")
    assert done.returncode == 0, done.stderr
    assert machine.mirrors == [f"http://two.example.org/debian for {suite}" for suite in ("bookworm", "forky")]


@pytest.mark.parametrize(
    ("release", "text"),
    [
        ("ID=debian\nVERSION_CODENAME=trixie\n", OTHER_SOURCES + SECURITY),
        ("ID=ubuntu\nVERSION_CODENAME=noble\n", "deb http://ubuntu.example.org/ubuntu noble main\n"),
    ],
)
def test_sources_without_a_debian_mirror_are_refused(machine, release, text):
    machine.release(release)
    machine.sources("list", text)
    done = machine.run("bookworm")
    assert done.returncode == 2
    assert "name no Debian mirror. Name one: MIRROR=URL" in done.stderr
    assert not (machine.root / "debootstrap").exists()


def test_the_date_of_release_files_is_checked_unless_somebody_says_otherwise(machine):
    machine.sources("list", "deb http://one.example.org/debian trixie main\n")
    assert machine.run("bookworm").returncode == 0
    assert "Languages" in machine.apt_settings
    assert "Check-Valid-Until" not in machine.apt_settings
    assert machine.run("bookworm", CHECK_VALID_UNTIL="no").returncode == 0
    assert 'Acquire::Check-Valid-Until "false";' in machine.apt_settings
    done = machine.run("bookworm", CHECK_VALID_UNTIL="false")
    assert done.returncode == 2
    assert "CHECK_VALID_UNTIL=false: write yes or no" in done.stderr


def test_no_script_names_a_host_of_a_mirror():
    for path in (ROOT / "ci" / "base-images", ROOT / ".ci" / "run"):
        assert "http" not in path.read_text().replace("/^https?:/", ""), path
