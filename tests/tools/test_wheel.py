"""Built wheels are read: what loads with which PyTorch, what is missing and whose it is, GPUs, tags."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from common import harness

from kernel_matrix.base.errors import UserError
from kernel_matrix.tools.wheel import builds, elf, gpu_code, promises
from kernel_matrix.tools.wheel.study import study
from kernel_matrix.tools.wheel.wheel import opened

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
HEAD = "namespace c10 {{ int kept(); int gone(int); {} }}\n"


def compiled(path: Path, text: str, *options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".cpp")
    source.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{path.name}", *options], check=True)
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install a double of PyTorch: a package, two libraries, and one more that the first brings."""
    site = tmp_path_factory.mktemp("site")
    lib = site / "torch" / "lib"
    compiled(lib / "libgomp.so.1", 'extern "C" int GOMP_barrier() { return 0; }')
    needs = (f"-L{lib}", "-l:libgomp.so.1", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN")
    compiled(lib / "libc10.so", "namespace c10 { int kept() { return 1; } }", *needs)
    compiled(lib / "libtorch.so", "namespace torch { int sum() { return 2; } }", *needs, "-l:libc10.so")
    (site / "torch-2.9.1.dist-info").mkdir()
    (site / "torch" / "__init__.py").write_text(
        "import ctypes, pathlib\n__version__ = '2.9.1'\n"
        "for name in ('libc10', 'libtorch'):\n"
        "    ctypes.CDLL(str(pathlib.Path(__file__).parent / 'lib' / f'{name}.so'))\n"
    )
    return site


@pytest.fixture
def made(tmp_path, site):
    """Return a function that makes a wheel of sources by path, each with its options."""

    def make(sources, tag="cp311-cp311-linux_x86_64", metadata="Requires-Dist: torch>=2\n\nA package."):
        for name, (text, *options) in sources.items():
            compiled(
                tmp_path / "in" / name, text, f"-L{site}/torch/lib", f"-L{(tmp_path / 'in' / name).parent}", *options
            )
        path = tmp_path / f"package-1.0-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("package-1.0.dist-info/METADATA", f"Name: package\nVersion: 1.0\n{metadata}")
            for name in sources:
                archive.write(tmp_path / "in" / name, name)
        return path

    return make


def answers(path, site, *excepted):
    [build], _ = builds.chosen([str(site)])
    return study(path, [build], excepted, "").answers["2.9.1"]


TORCH = ("-l:libc10.so",)


@pytest.mark.parametrize(
    ("text", "options", "lacks"),
    [
        (HEAD.format("") + "int f() { return c10::kept(); }", TORCH, {}),
        (HEAD.format("") + "int f() { return c10::gone(1); }", TORCH, {"of_pytorch": ("_ZN3c104goneEi",)}),
        (HEAD.format("") + "int f() { return c10::kept(); }", (), {"of_pytorch": ("_ZN3c104keptEv",)}),
        ("int forgotten(); int f() { return forgotten(); }", TORCH, {"others": ("_Z9forgottenv",)}),
        ("extern int forgotten() __attribute__((weak)); int f() { return forgotten ? 1 : 0; }", TORCH, {}),
        ('extern "C" int GOMP_barrier(); int f() { return GOMP_barrier(); }', ("-l:libgomp.so.1",), {}),
        ('extern "C" int GOMP_barrier(); int f() { return GOMP_barrier(); }', (), {"others": ("GOMP_barrier",)}),
        ('extern "C" void* PyList_New(long); void* f() { return PyList_New(1); }', (), {}),
        ("#include <string>\nstd::string f() { return std::to_string(3.5); }", (), {}),
        ('extern "C" int shm_unlink(const char*); int f() { return shm_unlink("a"); }', ("-nodefaultlibs",), {}),
    ],
)  # fmt: skip
def test_what_a_shared_object_lacks(made, site, text, options, lacks):
    [found] = answers(made({"package/_C.so": (text, *options)}), site).values()
    wanted = {"of_pytorch": (), "others": (), **lacks}
    assert {name: getattr(found, name) for name in wanted} == wanted
    assert found.loads == (not lacks)


def test_a_library_that_nobody_brings_is_named_with_its_owner(made, site, tmp_path):
    for name in ("libcudart.so.12", "libtorch_cuda.so", "libsecret.so.3"):
        compiled(tmp_path / "away" / name, "namespace c10 { namespace cuda { int f() { return 1; } } }")
    text = (
        "namespace c10 { namespace cuda { int f(); } int gone(int); } int g() { return c10::cuda::f() + c10::gone(1); }"
    )
    needs = (
        "-Wl,--no-as-needed",
        f"-L{tmp_path}/away",
        "-l:libcudart.so.12",
        "-l:libtorch_cuda.so",
        "-l:libsecret.so.3",
    )
    [found] = answers(made({"package/_C.so": (text, *needs)}), site).values()
    assert found.libraries == {
        "libcudart.so.12": "NVIDIA's CUDA",
        "libtorch_cuda.so": "PyTorch built for CUDA",
        "libsecret.so.3": "",
    }
    assert found.of_pytorch == ("_ZN3c104goneEi",), "what the absent library has is not missing as well"


def test_an_own_library_is_found_by_its_runpath_or_must_be_loaded_before(made, site):
    own = ("namespace own { int f() { return 1; } }",)
    text, needs = "namespace own { int f(); } int g() { return own::f(); }", ("-l:libown.so",)
    for search, before in (("$ORIGIN", ()), ("$ORIGIN/../libs", ("libown.so",)), ("", ("libown.so",))):
        options = (*needs, f"-Wl,-rpath,{search}") if search else needs
        found = answers(made({"package/libown.so": own, "package/_C.so": (text, *options)}), site)
        assert found["package/_C.so"].before == before, search
        assert found["package/_C.so"].loads


@pytest.mark.parametrize("tag", ["py3-none-win_amd64", "cp311-cp311-macosx_11_0_arm64", "py3-none-musllinux_1_2_i686"])
def test_a_wheel_for_another_system_is_no_pass(made, site, tag):
    done = harness("wheel", str(made({}, tag)), "--torch", str(site))
    assert (done.returncode, "not looked at: it is for another system" in done.stdout) == (1, True)
    assert harness("wheel", str(made({}, "py3-none-any")), "--torch", str(site)).returncode == 0


def test_an_excepted_object_has_no_answer(made, site):
    wheel = made({"package/_C.so": ("int f() { return 1; }",), "package/_C_xpu.so": ("int f() { return 1; }",)})
    assert list(answers(wheel, site, "*_xpu*")) == ["package/_C.so"]


THREADS = "#include <pthread.h>\nint f() { return pthread_create(0, 0, 0, 0); }"


@pytest.mark.parametrize(
    ("tag", "name", "text", "said"),
    [
        ("cp311-cp311-manylinux1_x86_64", "_C.so", THREADS, r"glibc 2\.5, and _C\.so ask for 2\.\d+"),
        ("cp311-cp311-manylinux_2_5_x86_64.manylinux1_x86_64", "_C.so", THREADS, r"promises glibc 2\.5"),
        ("cp311-cp311-manylinux_2_99_x86_64", "_C.so", THREADS, ""),
        ("cp311-cp311-linux_x86_64", "_C.so", THREADS, ""),
        ("cp310-abi3-linux_x86_64", "_C.cpython-310-x86_64-linux-gnu.so", "int f();", r"CPython 3\.10 alone.*-abi3"),
        ("cp312-cp312-linux_x86_64", "_C.cpython-311-x86_64-linux-gnu.so", "int f();", r"CPython 3\.11 alone"),
        ("cp311-cp311-linux_x86_64", "_C.cpython-311-x86_64-linux-gnu.so", "int f();", ""),
    ],
)  # fmt: skip
def test_a_tag_that_is_not_true_is_said(made, site, tmp_path, tag, name, text, said):
    wheel = opened(made({f"package/{name}": (text,)}, tag), tmp_path / "out")
    found = list(promises.untrue(wheel))
    assert len(found) == bool(said)
    assert not said or re.search(said, found[0])


def fat_binary(*entries):
    body = b""
    for kind, architecture, flags in entries:
        body += struct.pack("<HHIQ", kind, 0, 64, 8) + bytes(12) + struct.pack("<IQQ", architecture, 0, flags)[:4]
        body += bytes(8) + struct.pack("<Q", flags) + bytes(16) + bytes(8)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def bundle(*triples):
    body = b"".join(struct.pack("<QQQ", 0, size, len(name)) + name.encode() for name, size in triples)
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(triples)) + body


def test_the_code_for_gpus_is_found(tmp_path):
    names = (("host-x86_64-unknown-linux--", 0), ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", 64))
    plain = bundle(*names, ("hip-amdgcn-amd-amdhsa--gfx1100", 0))
    packed = pa.Codec("zstd").compress(bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", 64)), asbytes=True)
    size = len(bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", 64)))
    second = b"CCOB" + struct.pack("<HHII", 2, 1, 24 + len(packed), size) + bytes(8) + packed
    third = b"CCOB" + struct.pack("<HHQQ", 3, 1, 32 + len(packed), size) + bytes(8) + packed
    for name, content, found in (
        (".nv_fatbin", fat_binary((2, 90, 1 << 20), (2, 80, 0), (1, 120, 0)), {"sm_90a", "sm_80", "compute_120"}),
        (".nv_fatbin", fat_binary((2, 80, 0)) + bytes(24) + fat_binary((2, 86, 0)), {"sm_80", "sm_86"}),
        (".hip_fatbin", plain, {"gfx90a:xnack-"}),
        (".hip_fatbin", bytes(16) + second + third, {"gfx942"}),
        (".nv_fatbin", b"nothing of this kind", set()),
        (".other", fat_binary((2, 80, 0)), set()),
    ):
        library = compiled(tmp_path / "lib.so", "int f() { return 1; }")
        (tmp_path / "content").write_bytes(content)
        section = ("--add-section", f"{name}={tmp_path / 'content'}")
        subprocess.run(["objcopy", *section, library], check=True)
        assert gpu_code.code_in(elf.read(library)) == found, name


@pytest.mark.parametrize(
    ("codes", "target", "runs"),
    [
        ({"sm_80"}, "sm_86", True), ({"sm_86"}, "sm_80", False), ({"sm_80"}, "sm_90", False),
        ({"sm_90a"}, "sm_90", True), ({"sm_90a"}, "sm_100", False), ({"sm_100f"}, "sm_103", True),
        ({"compute_80"}, "sm_120", True), ({"compute_90a"}, "sm_100", False), ({"compute_90"}, "sm_80", False),
        ({"sm_100"}, "sm_103", True), ({"sm_100a"}, "sm_103", False),
        ({"gfx90a:xnack-"}, "gfx90a", True), ({"gfx90a"}, "gfx942", False),
    ],
)  # fmt: skip
def test_code_runs_where_its_architecture_says(codes, target, runs):
    assert gpu_code.runs_on(codes, target) is runs


def test_a_gpu_that_the_text_names_and_no_code_runs_on_is_said(made, site, tmp_path):
    metadata = "Summary: for sm_70 and compute capability 8.0+\n\nTested on H100, L40S and MI300X."
    wheel = opened(made({"package/_C.so": ("int f() { return 1; }",)}, metadata=metadata), tmp_path / "out")
    object.__setattr__(wheel, "codes", {"package/_C.so": {"sm_80", "sm_90a"}})
    assert promises.unserved(wheel) == {"sm_70": ["sm_70"]}, "sm_80 runs on an L40S; there is no code for AMD at all"


def test_versions_ranges_folders_wheels_and_lists_name_builds(site, tmp_path):
    shipped, unknown = builds.chosen(["2.13..2.15"])
    assert {build.version.partition("+")[0] for build in shipped} == {"2.13.0", "2.14.0"}
    assert unknown == ["2.15"]
    assert all(len(build.symbols) > 50_000 and "libc10.so" in build.own for build in shipped)
    builds.keep([*shipped, *builds.chosen([str(site)])[0]], tmp_path / "list.xz")
    again, _ = builds.chosen([str(tmp_path / "list.xz")])
    assert {one.version: (one.own, one.libraries, one.symbols) for one in again if one.version != "2.9.1"} == {
        one.version: (one.own, one.libraries, one.symbols) for one in shipped
    }
    [build] = [one for one in again if one.version == "2.9.1"]
    assert {"libgomp.so.1", "libtorch.so"} <= build.own
    assert "_ZN3c104keptEv" in build.symbols
    path = tmp_path / "torch-2.9.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in [*site.glob("torch/lib/*.so*")]:
            archive.write(file, file.relative_to(site))
        archive.writestr("torch-2.9.1.dist-info/METADATA", "Name: torch\n")
    assert builds.chosen([str(path)])[0][0].symbols == build.symbols
    for text in ("two", "2.15..2.11", str(tmp_path), str(__file__)):
        with pytest.raises(UserError, match="--torch"):
            builds.chosen([text])


def test_the_command_says_all_and_its_status_is_right(made, site, tmp_path):
    good = made({"package/_C.so": (HEAD.format("") + "int f() { return c10::kept(); }", *TORCH)})
    done = harness("wheel", str(good), "--torch", str(site), "--json", str(tmp_path / "out.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "PyTorch 2.9.1 (its metadata asks for torch>=2): 1 of 1 load" in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())[0]["answers"]["2.9.1"]["package/_C.so"]["loads"] is True
    bad = made({"package/_C.so": (HEAD.format("") + "int f() { return c10::gone(1); }", *TORCH)})
    done = harness("wheel", str(bad), "--torch", str(site))
    assert done.returncode == 1
    assert "1 symbol of PyTorch missing:\n        c10::gone(int)" in done.stdout
    lacking = {"package/_C.so": (HEAD.format("") + "int f() { return c10::gone(1); }", *TORCH)}
    narrow = made(lacking, metadata="Requires-Dist: torch<2\n")
    assert harness("wheel", str(narrow), "--torch", str(site)).returncode == 0, "its metadata does not admit 2.9.1"
    assert harness("wheel", str(good), "--torch", str(site), "2.15").returncode == 1, "nobody looked at 2.15"
    for words in ((), (str(__file__),), (str(tmp_path / "absent-1-py3-none-any.whl"),)):
        assert harness("wheel", *words).returncode == 2


def test_with_a_python_every_object_is_loaded_for_real(made, site, tmp_path, monkeypatch):
    sources = {
        "package/good.so": (HEAD.format("") + "int f() { return c10::kept(); }", *TORCH),
        "package/bad.so": (HEAD.format("") + "int f() { return c10::gone(1); }", *TORCH),
        "package/dies.so": ("__attribute__((constructor)) void f() { __builtin_trap(); }",),
    }
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    done = harness("wheel", str(made(sources)), "--torch", "2.14", "--load", sys.executable)
    assert "loaded for real with PyTorch 2.9.1: 2 of 3 as said" in done.stdout
    assert "package/dies.so: the process ended with status" in done.stdout
    assert done.returncode == 1
    assert harness("wheel", str(made(sources)), "--load", "/no/python").returncode == 2


def test_a_file_that_is_broken_is_said_and_ends_nothing(made, site, tmp_path):
    """Change single bytes, and cut: there is an answer, or the file is broken."""
    content = tmp_path / "content"
    library = compiled(tmp_path / "whole.so", "#include <string>\nstd::string f() { return std::to_string(1.5); }")
    content.write_bytes(fat_binary((2, 80, 0)) + bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", 64)) + b"CCOB" + bytes(60))
    sections = [word for name in (".nv_fatbin", ".hip_fatbin") for word in ("--add-section", f"{name}={content}")]
    subprocess.run(["objcopy", *sections, library], check=True)
    whole, draw, answered = library.read_bytes(), random.Random(5), 0
    for number in range(400):
        part = bytearray(whole[: draw.randrange(64, len(whole))] if number % 4 == 0 else whole)
        for _ in range(number % 4):
            first, last = ((6, 64), (len(part) - 2000, len(part)), (0x40, 0x2000))[draw.randrange(3)]
            part[draw.randrange(first, last)] = draw.randrange(256)
        library.write_bytes(part)
        try:
            if shared := elf.read(library):
                gpu_code.code_in(shared)
                answered += 1
        except elf.BrokenError:
            pass
    assert answered > 40
    cut = made({"package/_C.so": ("int f() { return 1; }",)})
    (tmp_path / "in" / "package" / "_C.so").write_bytes(whole[:5000])
    with zipfile.ZipFile(cut, "a") as archive:
        archive.write(tmp_path / "in" / "package" / "_C.so", "package/_D.so")
    done = harness("wheel", str(cut), "--torch", str(site))
    assert (done.returncode, done.stderr) == (1, "")
    assert "not true: _D.so begins as an ELF file, and cannot be read to its end" in done.stdout
