"""Images: what they are made from, what they must not keep, and the message if one cannot be made."""

from __future__ import annotations

import base64
import hashlib
import io
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker import DockerClient
from loops import at_least

from kernel_matrix.cli import main
from kernel_matrix.config.load import load
from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.model import Installer, Matrix
from kernel_matrix.diagnosis import NOT_KNOWN, diagnose, with_cause
from kernel_matrix.doctor import findings as doctor
from kernel_matrix.run.container import bundle, images, network, places
from kernel_matrix.run.container.build import Image, follow_steps, lines_of, name_of
from kernel_matrix.run.container.engine import SOCKET
from kernel_matrix.run.container.recipe import PREFIX, SHARED, Recipe, Source, source_of
from kernel_matrix.run.executors import InstallError, MachineError

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted(at_least(5, (ROOT / "containers").glob("*/Dockerfile")))
PIN = next(line for line in (ROOT / "containers/toolchains/Dockerfile").read_text().splitlines() if "ARG BOOK" in line)
INSTALLER = Installer(builds_of="torch", cpu={"UV_TORCH_BACKEND": "cpu"})
FROM_BASE = f"{PIN}\nFROM ${{BOOKWORM}}\n"


def write(root: Path, name: str, text: str) -> Path:
    path = root / "containers" / name / "Dockerfile"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def source(root: Path, dockerfile: Path, *locks: Path, kind: str = "cpu") -> Source:
    return Source(root, dockerfile.parent.name, dockerfile, locks, INSTALLER, kind)


def built(engine, root: Path, dockerfile: Path, locks=(), said: list[str] | None = None, say=None) -> Image:
    say = say or (said if said is not None else []).append
    return images.build(engine, source(root, dockerfile, *locks), say)


@pytest.fixture
def remove(engine) -> Iterator[list[str]]:
    """Return a list for references of images; at the end these images are removed."""
    references: list[str] = []
    yield references
    for reference in references:
        engine.images.remove(reference, force=True)


def with_environments(root: Path) -> Path:
    """Give a folder what makes environments, and a platform with nothing else; return the platform's Dockerfile."""
    shutil.copytree(ROOT / "containers" / SHARED, root / "containers" / SHARED)
    return write(root, "plain", "ARG TOOLCHAINS=kernel-matrix/toolchains\nFROM ${TOOLCHAINS}\n")


@contextmanager
def nothing_is_left(engine, recipe: Recipe) -> Iterator[Callable[[str], None]]:
    """Yield what a build says its steps to. At the end its container and the volume of that are gone."""
    volumes: set[str] = set()

    def say(text: str) -> None:
        if ": making " in text:
            volumes.update(mount["Name"] for mount in engine.containers.get(name_of(recipe)).attrs["Mounts"])

    yield say
    assert len(volumes) == 1
    assert engine.containers.list(all=True, filters={"name": name_of(recipe)}) == []
    assert volumes.isdisjoint(volume.name for volume in engine.volumes.list())


def environments_of(engine, root: Path, dockerfile: Path, lock: Path) -> Recipe:
    """Return the recipe of the environments that the image of a Dockerfile is made from."""
    return source(root, dockerfile, lock).shared_recipe(engine)


def run(engine, image: Image, command: str) -> str:
    """Return the output of a shell command in a container without a network."""
    container = engine.containers.create(image.id, ["sh", "-ec", command], network_mode="none")
    try:
        container.start()
        status = container.wait()["StatusCode"]
        output = container.logs().decode()
    finally:
        container.remove(force=True)
    assert status == 0, output
    return output


@pytest.mark.slow
def test_an_image_says_whose_it_is(matrix: Matrix):
    at_least(5, (platform for platform in matrix.platforms.values() if platform.container))
    for name, platform in matrix.platforms.items():
        if platform.container:
            text = (ROOT / platform.container).read_text()
            assert re.findall(rf"^ENV .*?{doctor.PLATFORM}=(\S+)", text, re.MULTILINE) == [name]


def test_every_platform_has_a_dockerfile(matrix: Matrix):
    at_least(5, DOCKERFILES)
    for platform in matrix.platforms.values():
        if platform.container:
            assert ROOT / platform.container in DOCKERFILES


MADE_HERE = ("TOOLCHAINS", "HARNESS", "PLATFORM")  # images that other Dockerfiles of this repository make


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_a_base_image_is_pinned_by_digest_beside_a_readable_tag(path: Path):
    text = path.read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    for base in re.findall(r"^FROM \$\{(\w+)\}", text, re.MULTILINE):
        assert base in MADE_HERE or re.fullmatch(r"debian:\w+-slim@sha256:[0-9a-f]{64}", arguments[base])
    assert not re.search(r"^FROM (?!\$\{|python\b)", text, re.MULTILINE)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_a_dockerfile_is_one_that_every_builder_reads(path: Path):
    assert not re.search(r"^# syntax|RUN --|<<", path.read_text(), re.MULTILINE)


def test_a_recipe_is_known_by_its_files_and_arguments_alone():
    def recipe(files=(("a", b"1"),), arguments=(("B", "2"),), **rest) -> str:
        return Recipe("cuda", "containers/cuda/Dockerfile", dict(files), dict(arguments), **rest).reference

    assert recipe() == recipe(labels={"org.opencontainers.image.revision": "another"})
    assert recipe() == recipe(transient=lambda: {"ca.crt": b"secret"})
    other_files = [recipe(files=files) for files in ([("a", b"2")], [("b", b"1")], [])]
    assert len({recipe(), recipe(arguments=[("B", "3")]), *other_files}) == 5


def test_the_content_of_an_image_changes_with_its_locks_and_not_with_its_base(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "containers", tmp_path / "containers")
    dockerfile, lock = tmp_path / "containers" / "cuda" / "Dockerfile", tmp_path / "a.txt"
    lock.write_text("pytest==9.2.0\n")
    before = source(tmp_path, dockerfile, lock).content
    monkeypatch.setenv("KERNEL_MATRIX_BOOKWORM", "another/debian")
    assert source(tmp_path, dockerfile, lock).content == before
    lock.write_text("pytest==9.2.0\ntorch==2.13.0\n")
    assert source(tmp_path, dockerfile, lock, kind="rocm").content != source(tmp_path, dockerfile, lock).content
    lock.write_text("pytest==9.1.0\n")
    assert source(tmp_path, dockerfile, lock).content != before


def test_only_the_wheels_that_a_lock_names_go_into_a_build(tmp_path, monkeypatch):
    for name in ("torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", "torch-2.12.0-cp311-cp311-linux_x86_64.whl"):
        (tmp_path / name).touch()
    (tmp_path / "not a wheel.whl").touch()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert [path.name for path in network.wheels([b"torch==2.13.0\n"], "cpu")] == [
        "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"
    ]
    assert network.wheels([b"torch==2.13.0\n"], "cuda") == [], "it is no build for CUDA"


def test_what_a_build_prints_is_read_by_lines_however_it_comes_in_pieces():
    red, plain = "\x1b[91m", "\x1b[0m"
    pieces = [
        "Step 1/2 : RUN a\n",
        "Reading",
        "...\nDone",
        f"{red}E: {plain}",
        f"{red}it is not found\n{plain}",
        "last",
    ]
    errors: list[str] = []
    output = [*({"stream": piece} for piece in pieces), {"error": "returned 100"}, {"aux": {}}]
    assert list(lines_of(iter(output), errors)) == [
        "Step 1/2 : RUN a",
        "Reading...",
        "Done",
        "E: it is not found",
        "last",
    ]
    assert errors == ["returned 100"]


@pytest.mark.parametrize(
    ("words", "layer"),
    [
        (["Step 1/2 : FROM a", " ---> 0123456789ab", "Step 2/2 : RUN b", "done", " ---> ab0123456789"], "ab0123456789"),
        (
            ["STEP 1/2: FROM a", "--> 0123456789a", "STEP 2/2: RUN b", "done", "COMMIT", "--> ab012345678"],
            "ab012345678",
        ),
        (["STEP 1/2: FROM a", "STEP 2/2: RUN b", "--> Using cache ab01234567", "--> ab0123456789cd"], "ab0123456789cd"),
    ],
    ids=["Docker", "podman", "podman with its cache"],
)
def test_the_last_layer_of_a_build_is_found_in_the_words_of_each_engine(words, layer):
    output = [{"stream": f"{word}\n"} for word in words]
    said: list[str] = []
    assert follow_steps(Recipe("a", "a/Dockerfile", {}, {}), iter(output), said.append) == layer
    assert [line.upper().replace(" :", ":") for line in said] == ["A: STEP 1/2: FROM A", "A: STEP 2/2: RUN B"]
    with pytest.raises(InstallError, match="a/Dockerfile: step 2/2: done"):
        follow_steps(
            Recipe("a", "a/Dockerfile", {}, {}), iter([*output, {"stream": "done\n"}, {"error": "1"}]), said.append
        )


def test_an_image_that_fails_to_build_says_its_last_lines_and_where(engine, tmp_path):
    dockerfile = write(tmp_path, "broken", FROM_BASE + "RUN echo before\nRUN echo the reason >&2; exit 3\n")
    with pytest.raises(InstallError) as failure:
        built(engine, tmp_path, dockerfile)
    *_, last = lines = str(failure.value).splitlines()
    assert re.fullmatch(r"containers/broken/Dockerfile: step \d/\d: the reason", last)
    assert any("returned a non-zero code: 3" in line for line in lines)
    assert "before" not in lines


def test_a_certificate_that_a_build_does_not_trust_names_the_remedy(engine, tmp_path):
    """The text is pip's own; the base image has no Python and no pip."""
    said = "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'))"
    dockerfile = write(
        tmp_path, "strange", FROM_BASE + f'RUN echo "{said}"; echo No matching distribution found; exit 1\n'
    )
    with pytest.raises(InstallError, match=r"step \d/\d: No matching distribution found$") as failure:
        built(engine, tmp_path, dockerfile)
    assert cause(failure) == "certificate-hidden-by-pip"


def cause(failure) -> str:
    """Return the rule that knows the error, for the stage of the build and for the stage that records name."""
    [one] = {diagnose(str(failure.value), stage) for stage in ("build", "install")}
    return one.rule if one else ""


def test_a_dockerfile_that_cannot_be_read_says_so(engine, tmp_path):
    with pytest.raises(InstallError, match=r"containers/odd/Dockerfile: .*unknown instruction"):
        built(engine, tmp_path, write(tmp_path, "odd", FROM_BASE + "RAN true\n"))


def test_a_base_image_that_no_registry_gives_names_the_remedy(engine, tmp_path):
    base = f"ARG BASE=127.0.0.1:1/debian:bookworm-slim@sha256:{'0' * 64}\n"
    with pytest.raises(InstallError, match=r"step 2/\d+: .*connection refused$") as failure:
        built(engine, tmp_path, write(tmp_path, "far", base + "FROM ${BASE}\n"))
    assert cause(failure) == "registry-not-reached"
    assert "ci/base-images" in with_cause(str(failure.value), "build")


def test_a_base_image_that_the_registry_does_not_have_is_told_from_one_that_is_not_reached(engine, tmp_path, registry):
    for name, rule in (
        ("debian", "base-image-not-there"),
        ("denied", "base-image-not-there"),
        ("many", "registry-limit"),
    ):
        base = f"ARG BASE={registry}/{name}:bookworm-slim@sha256:{'0' * 64}\n"
        with pytest.raises(InstallError, match=r"step 2/\d+") as failure:
            built(engine, tmp_path, write(tmp_path, name, base + "FROM ${BASE}\n"))
        assert cause(failure) == rule, failure.value


@pytest.fixture
def registry() -> Iterator[str]:
    """Start a registry without images, and return its address as the engine sees it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {
                "/v2/denied": (401, "DENIED"),
                "/v2/many": (429, "TOOMANYREQUESTS"),
                "/v2/debian": (404, "MANIFEST_UNKNOWN"),
            }
            status, code = next((a for prefix, a in answers.items() if self.path.startswith(prefix)), (200, ""))
            body = json.dumps({"errors": [{"code": code}]} if code else {}).encode()
            self.send_response(status)
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_full_disk_in_a_build_is_told(engine, tmp_path):
    dockerfile = write(tmp_path, "large", FROM_BASE + "RUN head -c 100M /dev/zero >/dev/shm/file\n")  # which has 64 MB
    with pytest.raises(InstallError) as failure:
        built(engine, tmp_path, dockerfile)
    assert cause(failure) == "disk-full"


def test_a_lock_for_another_python_fails_with_its_cause(engine, tmp_path):
    lock = tmp_path / "newer.txt"
    lock.write_text("ipython==9.11.0\n")  # this version needs Python 3.12
    dockerfile = with_environments(tmp_path)
    recipe = environments_of(engine, tmp_path, dockerfile, lock)
    with nothing_is_left(engine, recipe) as say, pytest.raises(InstallError) as failure:
        built(engine, tmp_path, dockerfile, [lock], say=say)
    assert cause(failure) == "wrong-python-for-uv"
    assert str(failure.value).splitlines()[-1].startswith("containers/toolchains/make-environments: ")


def test_a_version_that_debian_no_longer_has_is_told(engine, tmp_path):
    dockerfile = write(tmp_path, "gone", FROM_BASE + "RUN apt-get install --yes hostname=0.1\n")
    with pytest.raises(InstallError) as failure:
        built(engine, tmp_path, dockerfile)
    assert cause(failure) == "debian-version-gone", str(failure.value)


def test_a_failed_build_whose_reason_no_rule_knows_says_so(engine, tmp_path):
    with pytest.raises(InstallError) as failure:
        built(engine, tmp_path, write(tmp_path, "odd", FROM_BASE + "RUN echo a reason of its own; exit 3\n"))
    assert cause(failure) == ""
    assert with_cause(str(failure.value), "build") == f"{failure.value}\ncause: {NOT_KNOWN}"


def test_unchanged_inputs_build_nothing_and_other_inputs_do(engine, tmp_path, remove):
    dockerfile = write(tmp_path, "small", FROM_BASE + "COPY containers/small/file /file\n")
    file = dockerfile.with_name("file")
    file.write_text("one")
    said: list[str] = []
    first = built(engine, tmp_path, dockerfile, said=said)
    remove.append(first.reference)
    assert said[0] == f"building {first.reference}"
    assert re.fullmatch(r"kernel-matrix/small:[0-9a-f]{12}", first.reference)
    again: list[str] = []
    assert built(engine, tmp_path, dockerfile, said=again) == first
    assert again == []
    file.write_text("two")
    second = built(engine, tmp_path, dockerfile)
    remove.append(second.reference)
    assert second.reference != first.reference
    assert (run(engine, first, "cat /file"), run(engine, second, "cat /file")) == ("one", "two")


def test_an_engine_that_dies_in_a_build_is_an_error_of_the_machine(own_engine, tmp_path):
    dockerfile = write(tmp_path, "killed", "FROM scratch\nCOPY containers/killed/Dockerfile /one\n" + "ENV A=1\n" * 20)

    def say(text: str) -> None:
        if "Step 2" in text:
            own_engine.kill()

    client = DockerClient(own_engine.address)
    with pytest.raises(MachineError, match="the Docker engine failed to give the image of killed"):
        images.build(client, source(tmp_path, dockerfile), say)
    client.close()


def test_two_runs_at_once_build_an_image_once(engine, tmp_path, remove):
    dockerfile = write(tmp_path, "twice", FROM_BASE + f"RUN sleep 1; echo {tmp_path}\n")
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: built(engine, tmp_path, dockerfile, said=said), range(2))
    remove.append(first.reference)
    assert first == second
    assert [line for line in said if line.startswith("building")] == [f"building {first.reference}"]


@pytest.fixture
def index() -> Iterator[tuple[str, list[str]]]:
    """Start a package index with a user and a password. Return its address and what requests authorize by."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        about = "kernel_matrix_marker-1.0.dist-info"
        file.writestr("kernel_matrix_marker.py", "here = True\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: kernel-matrix-marker\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ("kernel_matrix_marker.py", f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD")
        file.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    name, asked = "kernel_matrix_marker-1.0-py3-none-any.whl", []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", ""))
            if self.path.endswith(".whl"):
                body, kind = wheel.getvalue(), "application/octet-stream"
            elif "kernel-matrix-marker" in self.path:
                body, kind = f'<a href="/{name}">{name}</a>'.encode(), "text/html"
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"user:{PASSWORD}@HOST:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


PASSWORD = "a-password-that-stays-out-of-images"


def test_what_a_closed_network_needs_is_used_and_leaves_no_trace(engine, tmp_path, monkeypatch, index, remove):
    address, asked = index
    subnet = engine.networks.get("bridge").attrs["IPAM"]["Config"][0]["Subnet"]
    gateway = str(next(ipaddress.ip_network(subnet).hosts()))
    monkeypatch.delenv("UV_INDEX", raising=False)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"http://{address.replace('HOST', gateway)}/simple")
    certificate = tmp_path / "ca.crt"
    own = base64.b64encode(hashlib.sha512(b"a certificate of this test").digest()).decode()
    trusted = network.certificates()
    certificate.write_text((trusted.read_text() if trusted else "") + f"\n# {own}\n")
    monkeypatch.setenv("PIP_CERT", str(certificate))
    lock = tmp_path / "marked.txt"
    lock.write_text("kernel-matrix-marker==1.0\n")

    dockerfile = with_environments(tmp_path)
    with nothing_is_left(engine, environments_of(engine, tmp_path, dockerfile, lock)) as say:
        image = built(engine, tmp_path, dockerfile, [lock], say=say)
    remove.append(image.reference)
    made = engine.images.get(image.id)
    remove += shared(made)
    program = "import kernel_matrix_marker as marker; print(marker.here)"
    assert run(engine, image, f"{places.python_of(lock)} -c '{program}'") == "True\n"
    assert f"Basic {base64.b64encode(f'user:{PASSWORD}'.encode()).decode()}" in asked

    history = json.dumps(made.history()) + json.dumps(made.attrs)
    assert PASSWORD not in history
    assert own not in history
    # Look in every file of every layer, and also in files that a later layer hides.
    archive = b"".join(made.save())
    assert PASSWORD.encode() not in archive
    assert own.encode() not in archive
    assert b"kernel_matrix_marker" in archive  # the archive is not compressed, so the search can find a text in it


def shared(made) -> list[str]:
    """Return the references of the shared image that this image was made from."""
    return [tag for row in made.history() for tag in row["Tags"] or () if f"/{SHARED}:" in tag]


def test_a_container_that_a_dead_process_left_stops_nobody(engine, tmp_path, remove):
    dockerfile, lock = with_environments(tmp_path), tmp_path / "none.txt"
    (dockerfile.parents[1] / SHARED / "make-environments").write_text(
        f"echo making one; sleep 2; echo {tmp_path} >/made\n"
    )
    lock.write_text("")
    recipe = environments_of(engine, tmp_path, dockerfile, lock)
    left = engine.containers.create(recipe.arguments["BOOKWORM"], ["sleep", "600"], name=name_of(recipe))
    left.start()
    with nothing_is_left(engine, recipe) as say:
        image = built(engine, tmp_path, dockerfile, [lock], say=say)
    remove += [image.reference, recipe.reference]
    assert run(engine, image, "cat /made; id -u").split() == [str(tmp_path), "1000"]


@pytest.mark.nightly
def test_a_large_image_may_take_longer_than_a_client_waits_for_other_answers(engine, tmp_path, remove):
    dockerfile, lock = with_environments(tmp_path), tmp_path / "none.txt"
    script = f"sleep 2; head -c 300M /dev/urandom >/large; echo {tmp_path} >/made\n"
    (dockerfile.parents[1] / SHARED / "make-environments").write_text(script)
    lock.write_text("")
    client = DockerClient(os.environ.get("DOCKER_HOST") or SOCKET)
    usual, waits = client.api.timeout, []

    def say(text: str) -> None:  # the client waits for a second while the environments are made, and for no image
        waits.append(client.api.timeout)
        client.api.timeout = usual if text.startswith(f"building {PREFIX}/plain") else 1

    image = built(client, tmp_path, dockerfile, [lock], say=say)
    assert {usual, 1} <= {*waits}
    client.close()
    remove += [image.reference, environments_of(engine, tmp_path, dockerfile, lock).reference]
    assert run(engine, image, "cat /made; wc -c </large").split() == [str(tmp_path), str(300 << 20)]


def test_an_image_says_what_it_was_made_from(engine, tmp_path, remove):
    dockerfile = with_environments(tmp_path)
    (dockerfile.parents[1] / SHARED / "make-environments").write_text("mkdir /opt/kernel-matrix\n")
    lock = tmp_path / "a-1.txt"
    lock.write_text("pytest==9.2.0\n    # via nothing\nnumpy==2.4.6 ; python_version > '3'\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    revision = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True)

    image = built(engine, tmp_path, dockerfile, [lock])
    made = engine.images.get(image.id)
    remove += [image.reference, *shared(made)]
    assert made.labels["org.opencontainers.image.revision"] == revision.strip()
    assert made.labels["org.opencontainers.image.title"] == "kernel-matrix/plain"
    assert made.labels["kernel-matrix.locks"] == hashlib.sha256(lock.read_bytes()).hexdigest()
    assert made.labels["kernel-matrix.versions.a-1"] == "pytest==9.2.0 numpy==2.4.6"


def test_a_bundle_brings_its_images_and_a_damaged_one_is_refused(engine, tmp_path, remove):
    root, wheels, into = tmp_path / "source", tmp_path / "wheels", tmp_path / "kernel-matrix-abc.tar"
    dockerfile = write(root, "carried", FROM_BASE + f"RUN echo {tmp_path} >/file\n")
    (root / "script").write_text("#!/bin/sh\n")
    (root / "script").chmod(0o755)
    (root / "untracked").touch()
    wheels.mkdir()
    (wheels / "a-1-py3-none-any.whl").write_bytes(b"wheel")
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run(["git", "-C", root, "add", "containers", "script"], check=True)
    image = built(engine, root, dockerfile)
    entry = bundle.Carried("carried", source(root, dockerfile).content, image.reference, image.id)
    bundle.write(engine, root, "abc", [entry], wheels, into, print)
    engine.images.remove(image.reference)

    with tarfile.open(into) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / "kernel-matrix-abc"
    check = ["sha256sum", "--check", "--strict", "bundle/SHA256SUMS"]
    done = subprocess.run(check, cwd=unpacked, capture_output=True, text=True, check=True)
    assert {line.split(":")[0] for line in done.stdout.splitlines()} == {
        *("bundle/bundle.json", "bundle/commit", "bundle/images.tar", "bundle/wheels/a-1-py3-none-any.whl"),
        *("containers/carried/Dockerfile", "script"),
    }
    assert (unpacked / "script").stat().st_mode & 0o111

    saved = unpacked / "bundle" / "images.tar"
    whole = saved.read_bytes()
    saved.write_bytes(whole[:-1] + b"x")
    with pytest.raises(InstallError, match="damaged"):
        built(engine, unpacked, unpacked / "containers" / "carried" / "Dockerfile")
    saved.write_bytes(whole)
    said: list[str] = []
    assert built(engine, unpacked, unpacked / "containers" / "carried" / "Dockerfile", said=said) == image
    remove.append(image.reference)
    assert said == ["loading bundle/images.tar"]
    assert run(engine, image, "cat /file").strip() == str(tmp_path)

    shutil.rmtree(unpacked / "bundle")
    bundle.write_images(engine, "abc", [entry], unpacked / "bundle", print)
    engine.images.remove(image.reference)
    assert built(engine, unpacked, unpacked / "containers" / "carried" / "Dockerfile", said=said) == image
    assert said == ["loading bundle/images.tar"] * 2, "as the machines of one run do"


def test_without_an_engine_a_run_has_no_image_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    words = ("--platform", "cuda", "--matrix", str(ROOT / "matrix.yaml"), "--into", str(tmp_path / "b"))
    assert main(["ci", "image", *words]) == 0
    assert "no image was made: no Docker engine answers" in capsys.readouterr().out
    assert not (tmp_path / "b").exists()


def test_the_images_of_a_run_are_written_with_their_checksums_and_found_by_their_content(tmp_path):
    """An engine that gives two blocks stands in for a real one."""
    answer = SimpleNamespace(raise_for_status=lambda: None, iter_content=lambda _: iter([b"one", b"two"]))
    asked: list[dict[str, list[str]]] = []
    api = SimpleNamespace(
        base_url="http://x", api_version="1", get=lambda _, params, **__: asked.append(params) or answer
    )
    entry = bundle.Carried("here", "content", "kernel-matrix/here:1", "sha256:1")
    bundle.write_images(SimpleNamespace(api=api), "abc", [entry], tmp_path / "bundle", print)
    assert asked == [{"names": ["kernel-matrix/here:1"]}]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "bundle/SHA256SUMS"], cwd=tmp_path, check=True)
    assert (tmp_path / "bundle" / "images.tar").read_bytes() == b"onetwo"
    assert bundle.find(tmp_path, "here", "content") == entry
    assert bundle.find(tmp_path, "here", "other content") is None


@pytest.fixture(scope="session")
def platform_image(engine, matrix: Matrix):
    """Return the image of a platform of the project."""

    def make(name: str) -> Image:
        of_platform = source_of(matrix, ROOT, name)
        assert of_platform is not None
        return images.build(engine, of_platform, print)

    return make


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["cpu-llvm", "cuda", "rocm"])
def test_a_platform_s_image_has_the_versions_of_its_locks_and_nothing_to_spare(engine, platform_image, matrix, name):
    image = platform_image(name)
    for lane in matrix.platforms[name].entries:
        lock = lock_file(ROOT, matrix.lock_of(name, lane.toolchain))
        ask = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
        found = run(engine, image, f'{places.python_of(lock)} -c "{ask}"').lower().replace("_", "-").split()
        wanted = re.findall(r"^[\w.-]+==[^\s;]+", lock.read_text().lower().replace("_", "-"), re.MULTILINE)
        assert sorted(pin.partition("+")[0] for pin in found) == sorted(wanted)
    assert run(engine, image, "id -u") == "1000\n"
    spare = "ls -A /var/lib/apt/lists; ls -d /build; find /opt -type d -name tests; find / -xdev -name .cache"
    assert run(engine, image, f"({spare}) 2>/dev/null || true").split() == []


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "reaches"), [("cpu-llvm", "ran"), ("cuda", "compiled"), ("rocm", "compiled")])
def test_the_doctor_is_right_in_an_image(engine, platform_image, matrix, tmp_path, name, reaches):
    platform_image(name)
    command = [sys.executable, "-m", "kernel_matrix", "doctor", "--inside", name, "--build", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    marks = dict(re.findall(r"^[✓✗-] ([^:]+): (.*)$", done.stdout, re.MULTILINE))
    assert "✗" not in done.stdout
    assert marks["image"] == f"the image of {name}; all that its jobs need is in it"
    for lane in matrix.platforms[name].entries:
        lock = lock_file(ROOT, matrix.lock_of(name, lane.toolchain))
        assert re.fullmatch(rf"\d+ packages, as {lock.name} names them", marks[f"environment {lock.stem}"])
    assert not marks.keys() & {"uv", "Docker", "package index"}
    seen = dict(re.findall(r"^([\w-]+): up to '(\w+)' here\.$", done.stdout, re.MULTILINE))
    assert seen == {**dict.fromkeys(matrix.platforms, "planned"), name: reaches}
    compiler = {"cuda": "nvcc", "rocm": "hipcc"}.get(name)
    assert compiler is None or f"✓ {compiler}: " in done.stdout


@pytest.mark.nightly
def test_the_cuda_image_compiles_machine_code(engine, platform_image, matrix):
    source = "#include <cuda_bf16.h>\\n__global__ void k(float* x) { *x = expf(*x); }\\n"
    targets = " ".join(matrix.platforms["cuda"].targets)
    compile_all = f"for arch in {targets}; do nvcc -cubin -arch=$arch -o k k.cu; head -c 4 k | tail -c 3; done"
    command = f"cd /tmp; printf '{source}' >k.cu; {compile_all}"
    assert run(engine, platform_image("cuda"), command) == "ELF" * len(matrix.platforms["cuda"].targets)


@pytest.mark.nightly
def test_the_rocm_image_compiles_machine_code(engine, platform_image, matrix):
    source = (
        "#include <hip/hip_runtime.h>\\n#include <rocwmma/rocwmma.hpp>\\n"
        "__global__ void k(hip_bfloat16* x) { *x = hip_bfloat16(expf(float(*x))); }\\n"
    )
    targets = {
        target
        for entry in matrix.platforms["rocm"].entries
        if "hipcc" in entry.needs
        for target in entry.targets or matrix.platforms["rocm"].targets
    }
    assert len(targets) == 11, "all but gfx1250, which its library for devices does not know"
    compile_all = (
        f"for arch in {' '.join(targets)}; do hipcc --genco --offload-arch=$arch -o k k.hip; grep -ac $arch k; done"
    )
    command = f"cd /tmp; printf '{source}' >k.hip; {compile_all}"
    assert all(int(count) for count in run(engine, platform_image("rocm"), command).split())


def test_a_build_by_hand_makes_the_environments_that_the_matrix_names_and_no_other(tmp_path):
    """ci/locks has locks of tools as well; the script that makes environments chooses among them."""
    text = (ROOT / "containers" / SHARED / "Dockerfile").read_text(encoding="utf-8")
    script = (ROOT / "containers" / SHARED / "make-environments").read_text(encoding="utf-8")
    [line] = re.findall(r"^if \[ -f matrix\.yaml \].*?^fi$", script, re.MULTILINE | re.DOTALL)
    matrix = load(ROOT / "matrix.yaml")
    for kind in ("cuda", "rocm", "cpu"):
        for path in [ROOT / "matrix.yaml", *at_least(25, (ROOT / "ci" / "locks").glob("*.txt"))]:
            shutil.copy(path, tmp_path)
        subprocess.run(["sh", "-euc", line], cwd=tmp_path, check=True, env={**os.environ, "KIND": kind})
        named = {path for name in matrix.locks if (path := lock_file(ROOT, name, kind)).is_file()}
        assert {path.name for path in tmp_path.glob("*.txt")} == {path.name for path in named}
    assert "!matrix.yaml" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert re.search(r"^COPY containers/toolchains/make-environments ci/locks matrix\.yam\[l\] ", text, re.MULTILINE)
    (tmp_path / "matrix.yaml").unlink()
    subprocess.run(["sh", "-euc", line], cwd=tmp_path, check=True)
    assert len(list(tmp_path.glob("*.txt"))) == len(named), "the harness gives the locks of a platform alone"
