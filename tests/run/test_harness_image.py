"""The container of the harness: built from its Dockerfile where an engine answers, and used as a person would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from common import ROOT, Doubles
from loops import at_least

import kernel_matrix
from kernel_matrix.run.container import network

FILE = ROOT / "containers" / "harness" / "Dockerfile"


def context(folder: Path) -> Path:
    """Return a folder with what the image is made from, and with the settings of this machine's network."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for source in at_least(1, (ROOT / "src").glob("kernel_matrix*")):
        shutil.copytree(source, folder / "src" / source.name, ignore=ignored)
    (folder / "ci" / "locks").mkdir(parents=True)
    shutil.copy(ROOT / "ci" / "locks" / "harness.txt", folder / "ci" / "locks")
    (folder / "build" / "site").mkdir(parents=True)
    for name, content in network.site([]).items():
        path = folder / "build" / "site" / name
        path.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
    shutil.copy(FILE, folder)
    return folder


@pytest.fixture(scope="module")
def image(engine, tmp_path_factory) -> str:
    """Build the image from this machine's own base image; return its name."""
    bases = [image.id for image in engine.images.list("debian:bookworm-slim")]
    if not bases:
        pytest.skip("there is no base image debian:bookworm-slim here: ci/base-images makes it")
    folder = context(tmp_path_factory.mktemp("harness"))
    arguments = {"BOOKWORM": bases[0], **network.proxies()}
    engine.images.build(path=str(folder), tag="kernel-matrix/harness:test", buildargs=arguments, rm=True, forcerm=True)
    return "kernel-matrix/harness:test"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_container_runs_a_matrix_in_a_mounted_folder(engine, image, doubles: Doubles):
    doubles.edit("targets: [any]", "targets: [x86-64]")
    trusted = network.certificates()
    folders = {str(doubles.root): {"bind": "/work", "mode": "rw"}}
    if trusted:  # a job's environment is made in the container, over this machine's network
        folders[str(trusted.parent)] = {"bind": "/certificates", "mode": "ro"}
    variables = {**network.proxies(), **({"PIP_CERT": f"/certificates/{trusted.name}"} if trusted else {})}

    def run(*words: str) -> str:
        user = f"{os.getuid()}:{os.getgid()}"
        output = engine.containers.run(
            image, list(words), remove=True, user=user, volumes=folders, environment=variables
        )
        return output.decode()

    assert "usage: kernel-matrix" in run("--help")
    assert re.search(r"\d+ cases in \d+ jobs", run("check"))
    assert "3 cases: 3 pass" in run("run", "--executor", "venv", "--toolchain", "good")
    assert list((doubles.root / "build" / "results" / "jobs").iterdir())


def test_the_dockerfile_takes_what_the_context_has():
    text = FILE.read_text(encoding="utf-8")
    named = re.search(r"^COPY (pyproject.*) /build/$", text, re.MULTILINE)
    assert named
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name in (*named[1].split(), *re.findall(r"^COPY (src/\S+) ", text, re.MULTILINE)):
        if "[" not in name:  # optional
            assert (ROOT / name).exists()
            assert any(f"!{name}" == line or (line.endswith("*.txt") and name.endswith(".txt")) for line in allowed), (
                name
            )
    assert 'ENTRYPOINT ["kernel-matrix"]' in text
    assert "USER 1000:1000" in text


def test_the_image_s_python_is_one_that_the_harness_works_with():
    done = subprocess.run(["grep", "-n", "requires-python", ROOT / "pyproject.toml"], capture_output=True, text=True)
    assert ">=3.11" in done.stdout, "bookworm has Python 3.11"
    assert kernel_matrix.__version__
