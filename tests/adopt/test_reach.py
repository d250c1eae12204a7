"""A lane is called emulated only where its tests launch kernels in an interpreter, by what the sources say."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kernel_matrix import cli
from kernel_matrix.adopt import proposal as proposals
from kernel_matrix.adopt.lock import Locks
from kernel_matrix.adopt.reach import reached
from kernel_matrix.adopt.repository import look

KERNEL = "@cuda.jit\ndef gpu_double(x, y):\n    y[cuda.grid(1)] = 2 * x[cuda.grid(1)]\n\n"
DOUBLE = "@njit\ndef double(x):\n    return x * 2\n\n"
BOTH = f"from numba import cuda, njit\n\n{KERNEL}{DOUBLE}"
TRITON = "import torch\nimport triton\n\n@triton.jit\ndef _add(x, n):\n    pass\n\n"
PALLAS = "import jax\nfrom jax.experimental import pallas as pl\n\ndef add(x):\n    return pl.pallas_call(f)(x)\n\n"
TEST = "from own import double\n\ndef test():\n    assert double(1) == 2\n"


def lay(root: Path, files: dict[str, str]) -> Path:
    names = ", ".join(f'"{name}"' for name in ("numba", "numpy"))
    given = {"pyproject.toml": f'[project]\nname = "own"\nversion = "1"\ndependencies = [{names}]\n', **files}
    for name, text in {"own/__init__.py": "", **given}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def kinds(root: Path, files: dict[str, str]) -> tuple[set[str], set[str]]:
    """Return whose kernels the tests of a repository reach without a GPU, and whose code for the CPU."""
    found = reached(look(lay(root, files)))
    return {*found.kernels}, {*found.native}


NATIVE = {
    "a kernel beside what is tested": {"own/__init__.py": BOTH, "tests/test_a.py": TEST},
    "a kernel in a file that no test imports": {
        "own/__init__.py": f"from numba import njit\n\n{DOUBLE}",
        "own/gpu.py": f"from numba import cuda\n\n{KERNEL}",
        "tests/test_a.py": TEST,
    },
    "a question for a GPU, and no kernel": {
        "own/__init__.py": f"from numba import cuda, njit\nHAS = cuda.is_available()\n{DOUBLE}",
        "tests/test_a.py": TEST,
    },
    "a kernel of the same name in another file": {
        "own/__init__.py": "from .cpu import double\nfrom .gpu import double as on_gpu\n",
        "own/cpu.py": f"from numba import njit\n\n{DOUBLE}",
        "own/gpu.py": f"from numba import cuda\n\n{KERNEL.replace('gpu_double', 'double')}",
        "tests/test_a.py": TEST,
    },
    "a kernel for tensors that lie on a GPU": {
        "own/__init__.py": f"import torch\n{BOTH}def run(x):\n    if x.is_cuda:\n        gpu_double[1, 2](x, x)\n"
        "    else:\n        double(x)\n",
        "tests/test_a.py": TEST.replace("double", "run"),
    },
    "what is after a return for the CPU": {
        "own/__init__.py": f"{BOTH}def run(x):\n    if x.device.type == 'cpu':\n        return double(x)\n"
        "    gpu_double[1, 2](x, x)\n",
        "tests/test_a.py": TEST.replace("double", "run"),
    },
    "a test that is skipped by a mark of another file": {
        "own/__init__.py": BOTH,
        "tests/marks.py": "import pytest\nimport torch\n\ndef there():\n    return torch.cuda.is_available()\n\n"
        "gpu = pytest.mark.skipif(not there(), reason='no GPU')\n",
        "tests/test_a.py": "from own import gpu_double\nfrom marks import gpu\n"
        f"{TEST}\n@gpu\ndef test_gpu():\n    gpu_double[1, 2](1, 2)\n",
    },
    "a file that is skipped": {
        "own/__init__.py": BOTH,
        "tests/test_a.py": TEST,
        "tests/test_gpu.py": "import pytest\ncp = pytest.importorskip('cupy')\nfrom own import gpu_double\n\n"
        "def test():\n    gpu_double[1, 2](cp.ones(2), cp.ones(2))\n",
    },
}


@pytest.mark.parametrize("name", NATIVE)
def test_tests_that_launch_no_kernel_without_a_gpu_run_natively(tmp_path, name):
    assert kinds(tmp_path, NATIVE[name]) == (set(), {"Numba"})


_BACKENDS = {  # a function with a kernel of Pallas for a GPU or a TPU, and plain code
    "among names": "if jax.default_backend() in ('gpu', 'tpu'):\n        return add(x)\n    return x",
    "not among names": "if jax.default_backend() not in ['cuda', 'rocm']:\n        return x\n    return add(x)",
    "a name of the function": "backend = jax.default_backend()\n    return add(x) if backend == 'tpu' else x",
    "a condition with a name": "fast = jax.default_backend() == 'tpu'\n    return add(x) if fast else x",
    "any device": "if any(d.platform == 'gpu' for d in jax.devices()):\n        return add(x)\n    return x",
    "any device of a list": "fast = any([d.platform == 'tpu' for d in devices()])\n    return add(x) if fast else x",
    "by a name of the module": "return add(x) if WHERE != 'cpu' else x",
}
_INTERPRETED = {
    "an interpreter on a CPU": "return add(x, interpret=jax.default_backend() == 'cpu')",
    "on a CPU": "if jax.default_backend() in ('cpu',):\n        return add(x)\n    return x",
    "a name that is given": "where = 'tpu'\n    return add(x) if where != jax.default_backend() else x",
    "among all": "if jax.default_backend() in ('cpu', 'gpu', 'tpu'):\n        return add(x)\n    return x",
}


@pytest.mark.parametrize("name", [*_BACKENDS, *_INTERPRETED])
def test_a_kernel_behind_the_backend_of_jax_is_reached_where_that_is_a_cpu(tmp_path, name):
    body = {**_BACKENDS, **_INTERPRETED}[name]
    files = {
        "own/__init__.py": f"{PALLAS}WHERE = jax.default_backend()\n\ndef run(x):\n    {body}\n",
        "tests/test_a.py": TEST.replace("double", "run"),
    }
    assert kinds(tmp_path, files)[0] == ({"Pallas"} if name in _INTERPRETED else set())


LAUNCHED = {
    "by its name": ("from own.gpu import gpu_double", "gpu_double[1, 2](1, 2)"),
    "through its module": ("import own.gpu", "own.gpu.gpu_double[1, 2](1, 2)"),
    "through a module under another name": ("import own.gpu as g", "g.gpu_double[1, 2](1, 2)"),
    "through all names": ("from own.gpu import *", "gpu_double[1, 2](1, 2)"),
    "through a function": ("from own.call import call", "call(1)"),
    "through a method": ("from own.call import Call", "Call().call(1)"),
    "through a table": ("from own import call", "call.TABLE['a'][1, 2](1, 2)"),
    "through a module that is given": ("import pytest\nfrom own import gpu", "getattr(gpu, 'gpu' + '_double')"),
    "through a name that is made": ("import importlib", "importlib.import_module('own.' + 'gpu').gpu_double"),
    "through the package": ("import own", "own.again(1)"),
    "where Numba finds a GPU, which its simulator is": (
        "from numba import cuda\nfrom own.gpu import gpu_double",
        "if cuda.is_available():\n        gpu_double[1, 2](1, 2)",
    ),
}


@pytest.mark.parametrize("name", LAUNCHED)
def test_a_kernel_that_tests_launch_is_found(tmp_path, name):
    imported, call = LAUNCHED[name]
    files = {
        "own/__init__.py": "from .call import call as again\n",
        "own/gpu.py": f"from numba import cuda\n\n{KERNEL}",
        "own/call.py": "from .gpu import gpu_double\nTABLE = {'a': gpu_double}\n\n"
        "def call(x):\n    gpu_double[1, 2](x, x)\n\nclass Call:\n    def call(self, x):\n        call(x)\n",
        "tests/test_a.py": f"{imported}\n\ndef test():\n    {call}\n",
    }
    assert kinds(tmp_path, files) == ({"Numba"}, set())


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("from numba import cuda\nk = cuda.jit(f)", {"Numba"}),
        ("from numba.cuda import jit\n@jit\ndef k(x): ...", {"Numba"}),
        ("import numba as nb\n@nb.cuda.jit(cache=True)\ndef k(x): ...", {"Numba"}),
        ("from numba import vectorize\n@vectorize(['f4(f4)'], target='cuda')\ndef k(x): ...", {"Numba"}),
        ("import triton\n@triton.autotune([], key=[])\n@triton.jit\ndef k(x): ...", {"Triton"}),
        ("from own.compat import triton\n@triton.jit\ndef k(x): ...", {"Triton"}),
        ("from jax.experimental import pallas as pl\ndef k(x):\n    return pl.pallas_call(f)(x)", {"Pallas"}),
        ("from jax.experimental.pallas import pallas_call as call\ndef k(x):\n    return call(f)(x)", {"Pallas"}),
        ("from jax import jit\n@jit\ndef k(x): ...", set()),
        ("import jax.experimental.pallas as pl\ndef k(x): ...", set()),
    ],
)
def test_a_kernel_is_what_a_framework_makes_one_of(tmp_path, made, expected):
    files = {"own/k.py": f"{made}\n", "tests/test_a.py": "from own.k import k\n\ndef test():\n    k(1)\n"}
    assert kinds(tmp_path, files)[0] == expected


def lanes(root: Path, monkeypatch) -> list[object]:
    monkeypatch.chdir(root)
    monkeypatch.setattr(proposals, "_lock", lambda *_: Locks({"": "numba==0.64.0\nnumpy==2.4.6\n"}, ()))
    assert cli.main(["init", "--no-run"]) == 0
    assert cli.main(["check"]) == 0
    return YAML(typ="safe").load((root / "matrix.yaml").read_text())["platforms"]["cpu"]["toolchains"]


def test_tests_of_both_kinds_have_a_lane_for_each(tmp_path, monkeypatch, capsys):
    test = f"from own import gpu_double\n{TEST}\ndef test_gpu():\n    gpu_double[1, 2](1, 2)\n"
    lay(tmp_path, {"own/__init__.py": BOTH, "tests/test_a.py": test})
    simulator = {"toolchain": "numba-simulator", "emulated": True, "environment": {"NUMBA_ENABLE_CUDASIM": "1"}}
    assert lanes(tmp_path, monkeypatch) == ["numba", simulator]
    assert "which does which is not known" in capsys.readouterr().out


def test_a_lane_without_kernels_is_not_called_emulated(tmp_path, monkeypatch, capsys):
    lay(tmp_path, NATIVE["a kernel beside what is tested"])
    assert lanes(tmp_path, monkeypatch) == ["numba"]
    assert "no test launches the kernels in Numba without a GPU" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "framework"), [(TRITON, "Triton"), (PALLAS, "Pallas")])
@pytest.mark.parametrize("guard", [True, False])
def test_every_interpreter_is_asked_for_where_its_kernels_are_launched(tmp_path, text, framework, guard):
    condition = "jax.default_backend() == 'tpu'" if framework == "Pallas" else "x.is_cuda"
    call = "return add(x)" if framework == "Pallas" else "_add[1](x, 1)"
    body = f"    if {condition}:\n        {call}\n    return x + 1\n" if guard else f"    {call}\n"
    files = {
        "own/__init__.py": f"{text}def run(x):\n{body}",
        "tests/test_a.py": "from own import run\n\ndef test():\n    run(1)\n",
    }
    assert kinds(tmp_path, files)[0] == (set() if guard else {framework})
