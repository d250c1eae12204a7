"""`kernel-matrix init` proposes descriptions of operators that it recognises, and none of them is green as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

from kernel_matrix import cli
from kernel_matrix.adopt import describe
from kernel_matrix.adopt import proposal as proposals
from kernel_matrix.adopt.lock import Locks
from kernel_matrix.adopt.recognize import Recognized, recognize
from kernel_matrix.adopt.repository import look
from kernel_matrix.config.load import load

sys.path.append(str(ROOT / "tests" / "kit"))
import driving

PYPROJECT = '[project]\nname = "own"\nversion = "1"\ndependencies = ["numpy>=2"]\n'
TWIN = """import numpy as np

def fast_scale(x, weight, eps=1e-6):
    \"\"\"Scale rows.

    x: an array of shape (tokens, width).
    weight: an array of shape (width,).
    \"\"\"
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps)) * weight
"""
PLAIN = """import numpy as np

def scale_reference(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight
"""
TRITON = """import torch
import triton

@triton.jit
def _add_kernel(x, y, out, n):
    pass

def add(
    x: torch.Tensor,  # [rows, N]
    y: torch.Tensor,
    alpha: float,
    out_dtype=None,
):
    out = torch.empty_like(x)
    _add_kernel[(1,)](x, y, out, x.numel())
    return out, out.sum()

def add_bwd(g: torch.Tensor):
    _add_kernel[(1,)](g, g, g, 1)

def fill(x: torch.Tensor):
    _add_kernel[(1,)](x, x, x, 1)
"""
AUTOGRAD = """import torch

class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate, eps):
        return x * gate

    @staticmethod
    def backward(ctx, g):
        return g, None, None

class Lonely(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, g):
        return g, g

def gated(x: torch.Tensor, gate: "Float[torch.Tensor, 'rows width']", eps: float = 1e-5):
    return _Gate.apply(x, gate, eps)
"""


def lay(root: Path, **sources: str) -> Path:
    for name, text in {"pyproject.toml": PYPROJECT, "src/own/__init__.py": "", **sources}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def found_in(root: Path, **sources: str) -> dict[str, Recognized]:
    sources.setdefault("tests/test_own.py", "def test_own(): pass\n")
    return {one.name: one for one in recognize(look(lay(root, **sources)))}


def test_a_function_in_triton_has_its_axes_options_and_outputs(tmp_path):
    found = found_in(tmp_path, **{"src/own/adding.py": TRITON})
    assert sorted(found) == ["add", "fill"]  # no kernel, and no backward
    add = found["add"]
    assert (add.kernel, add.where) == ("own.adding:add", "src/own/adding.py:8")
    assert [(one.name, one.tensor, one.axes) for one in add.parameters] == [
        ("x", True, ("rows", "n")),
        ("y", True, ()),
        ("alpha", False, ()),
        ("out_dtype", False, ()),
    ]
    assert (add.outputs, found["fill"].outputs) == (("out", "out1"), ())


def test_gradients_follow_from_what_a_backward_returns(tmp_path):
    found = found_in(tmp_path, **{"src/own/gate.py": AUTOGRAD})
    assert (found["gated"].differentiable, found["gated"].parameters[1].axes) == (("x",), ("rows", "width"))
    assert (found["lonely"].what, found["lonely"].differentiable) == ("a torch.autograd.Function", ("a", "b"))


@pytest.mark.parametrize("place", ["src/own/plain.py", "tests/test_scale.py"])
def test_plain_code_is_found_in_the_package_and_in_its_tests(tmp_path, place):
    [one] = found_in(tmp_path, **{"src/own/fast.py": TWIN, place: PLAIN}).values()
    assert (one.name, one.kernel) == ("scale", "own.fast:fast_scale")
    assert one.plain is not None
    assert (one.plain.where, one.plain.imports) == (f"{place}:3", ("import numpy as np",))


def test_plain_code_that_needs_other_functions_is_named_and_not_copied(tmp_path):
    plain = PLAIN.replace("np.sqrt", "_root") + "\n\ndef _root(x):\n    return np.sqrt(x)\n"
    [one] = found_in(tmp_path, **{"src/own/fast.py": TWIN, "src/own/ref.py": plain}).values()
    text = describe.files(look(tmp_path), [one])[f"{describe.FOLDER}/test_operators.py"]
    assert 'raise NotImplementedError("copy the plain code from src/own/ref.py:3, scale_reference' in text


def proposal(root: Path) -> str:
    """Write the proposal for the package with a twin, and return the text of its suite."""
    found = list(found_in(root, **{"src/own/fast.py": TWIN, "src/own/plain.py": PLAIN}).values())
    files = describe.files(look(root), found)
    lay(root, **files)
    return files[f"{describe.FOLDER}/test_operators.py"]


def end_of(root: Path) -> dict[str, object]:
    case = ("scale", "forward", {"tokens": 7, "width": 24})
    job = driving.run(root / "job", root / describe.FOLDER, "", [case], root / "src")
    assert len(job.ends) == 1, job.output
    return next(iter(job.ends.values()))


def test_a_proposal_is_an_error_until_a_person_confirms_it(tmp_path):
    text, suite = proposal(tmp_path), tmp_path / describe.FOLDER / "test_operators.py"
    end = end_of(tmp_path)
    assert (end["outcome"], end["stage"]) == ("error", "import")
    assert str(end["message"]).endswith(
        "nobody has confirmed the description of scale: a function with plain code of the same name, "
        "src/own/fast.py:3 [kit-proposal]"
    )
    confirmed = "\n".join(line for line in text.splitlines() if "proposed=" not in line)
    suite.write_text(confirmed)
    with pytest.raises(ValueError, match=r"write the axes of y in place of '\.\.\.'|write the axes of out"):
        compile_and_run(confirmed)
    suite.write_text(confirmed.replace("array(...)", 'array("tokens", "width")'))
    end = end_of(tmp_path)
    assert end["outcome"] == "pass", end
    assert "checks" in end["facts"]


def compile_and_run(text: str) -> None:
    exec(compile(text, "operators", "exec"), {})


def test_a_usual_run_of_pytest_leaves_the_proposal_out(tmp_path):
    proposal(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout


def test_the_function_that_people_call_is_proposed_and_not_what_it_calls(tmp_path):
    calling = "from own.adding import fill\n\ndef filled(x: 'Tensor'):\n    fill(x)\n    return x\n"
    found = found_in(tmp_path, **{"src/own/adding.py": TRITON, "src/own/ops.py": calling})
    assert found["filled"].kernel == "own.ops:filled"


def test_init_writes_a_matrix_of_the_proposal_that_loads(tmp_path, monkeypatch, capsys):
    lay(tmp_path, **{"src/own/fast.py": TWIN, "src/own/plain.py": PLAIN, "tests/test_own.py": "def test_own(): pass\n"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proposals, "_lock", lambda *_: Locks({"": "numpy==2.4.6\n"}, ()))
    assert cli.main(["init", "--no-run"]) == 0
    assert "1 operator recognised, 1 with plain code: scale" in capsys.readouterr().out
    matrix = load(tmp_path / "operators.matrix.yaml")
    assert [*matrix.ops["scale"].axes] == ["tokens", "width", "dtype"]


HEAD = "import numpy as np\nimport numba\nimport warp as wp\nimport triton\nfrom own.adding import _add_kernel, add\n"
NO_LAUNCH = {
    "a table": "def run(x, table, key):\n    return table[key](x)\n",
    "callbacks": "def run(x, callbacks):\n    return callbacks[0](x, 1.0)\n",
    "names of a module": "def run(x):\n    return globals()['f'](x)\n",
    "handlers of an object": "HANDLERS = {}\ndef run(x, kind):\n    return HANDLERS[kind](x)\n",
    "a type with a parameter": "def run(x):\n    return list[int](x)\n",
    "a kernel of Numba": "@numba.cuda.jit\ndef k(x):\n    pass\ndef run(x):\n    k[1, 2](x)\n",
    "a function of Numba": "@numba.jit\ndef k(x):\n    pass\ndef run(x):\n    k[1](x)\n",
    "a function of functions": "def made(x):\n    return [np.sin]\ndef run(x):\n    f = made(1)\n    f[0](x)\n",
}
LAUNCH = {
    "by its name": "def run(x):\n    _add_kernel[(1,)](x)\n",
    "under another name": "from own.adding import _add_kernel as k\ndef run(x):\n    k[(1,)](x)\n",
    "through its module": "import own.adding\ndef run(x):\n    own.adding._add_kernel[(1,)](x)\n",
    "through the package": "from own import again\ndef run(x):\n    again[(1,)](x)\n",
    "through all names": "from own.stars import *\ndef run(x):\n    _add_kernel[(1,)](x)\n",
    "one of two": "def run(x):\n    k = _add_kernel if x else None\n    k[(1,)](x)\n",
    "of a table": "K = {'a': _add_kernel}\ndef run(x):\n    K['a'][(1,)](x)\n",
    "tuned": "k = triton.autotune([], key=[])(_add_kernel)\ndef run(x):\n    k[(1,)](x)\n",
    "made by a call": "def f(x):\n    pass\nk = triton.jit(f)\ndef run(x):\n    k[(1,)](x)\n",
    "made inside": "def run(x):\n    @triton.jit\n    def k(x):\n        pass\n    k[(1,)](x)\n",
    "by a function that gets it": "def launch(k, x):\n    k[1](x)\ndef run(x):\n    launch(_add_kernel, x)\n",
    "in a loop": "def run(x):\n    for k in (_add_kernel, _add_kernel):\n        k[(1,)](x)\n",
}


def launched(root: Path, code: str) -> str | None:
    files = {
        "src/own/__init__.py": "from .adding import _add_kernel as again\n",
        "src/own/adding.py": TRITON,
        "src/own/stars.py": "from .adding import _add_kernel\n",
        "src/own/running.py": f"{HEAD}{code}",
    }
    found = found_in(root, **files).get("run")
    return found.what if found else None


@pytest.mark.parametrize("name", NO_LAUNCH)
def test_a_call_of_an_item_is_no_launch_where_no_decorator_of_triton_made_it(tmp_path, name):
    assert launched(tmp_path, NO_LAUNCH[name]) is None


@pytest.mark.parametrize("name", LAUNCH)
def test_a_kernel_of_triton_is_launched_under_any_name(tmp_path, name):
    assert launched(tmp_path, LAUNCH[name]) == "a function that launches a kernel in Triton"


@pytest.mark.parametrize(
    ("line", "axes"),
    [
        ("x: an array of shape (tokens, width).", ("tokens", "width")),
        ("x: [rows, N]", ("rows", "n")),
        ("x (torch.Tensor): (B, N)", ("b", "n")),
        ("x : ndarray, shape (n, m)", ("n", "m")),
        ("x: torch.Tensor of size [n, 4]", ("n", "4")),
        ("x: the states, whose shape is `(n, m)`", ("n", "m")),
        ("x = [None, I_12, I_23]", ()),
        ("x: functions of all levels, e.g. [f_12, f_23]", ()),
        ("x: what mix(a, b) returned", ()),
        ("x: one of (sum, mean)", ()),
        ("x: weights, see Jones (Annals, 1990)", ()),
        ("x: shape (n, None)", ()),
    ],
)
def test_axes_are_read_where_a_text_says_that_it_has_some(tmp_path, line, axes):
    twin = TWIN.replace("x: an array of shape (tokens, width).", line)
    [one] = found_in(tmp_path, **{"src/own/fast.py": twin, "src/own/plain.py": PLAIN}).values()
    assert one.parameters[0].axes == axes


@pytest.mark.parametrize(
    "annotation", ["Sequence[Callable[[Array], Array]]", "list[torch.Tensor]", "Callable[[Tensor], Tensor]"]
)
def test_what_holds_or_takes_arrays_is_no_array(tmp_path, annotation):
    twin = TWIN.replace("(x, weight,", f"(x, weight: {annotation},")
    [one] = found_in(tmp_path, **{"src/own/fast.py": twin, "src/own/plain.py": PLAIN}).values()
    assert [parameter.tensor for parameter in one.parameters] == [True, False, False]


_PLAIN_SCALE = "def scale_reference(x, weight, eps):\n    return x * weight + eps\n"
_SCALE = "def fast_scale(x, weight, eps=1e-6):\n    return x * weight + eps\n"
_FRAMEWORKS = {
    "by its imports": ("own/a.py", f"import jax.numpy as jnp\n{_SCALE}", "jax"),
    "by an import of names": ("own/a.py", f"from jax import lax\n{_SCALE}", "jax"),
    "by an import in the function": ("own/a.py", _SCALE.replace(":\n", ":\n    import jax\n", 1), "jax"),
    "by its folder": ("own/jax/a.py", f"import math\n{_SCALE}", "jax"),
    "by its module": ("own/ops/pallas.py", f"from . import kernels\n{_SCALE}", "jax"),
    "by the package": ("own/a.py", _SCALE, "torch"),
}


@pytest.mark.parametrize("name", _FRAMEWORKS)
def test_the_framework_of_an_operator_is_that_of_its_file(tmp_path, name):
    path, text, framework = _FRAMEWORKS[name]
    files = {path: text, "own/__init__.py": "import torch\nimport jax\n", "own/plain.py": _PLAIN_SCALE}
    files |= {"pyproject.toml": PYPROJECT, "tests/test_a.py": "import own\ndef test(): ...\n"}
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    repository = look(tmp_path)
    [text] = [text for file, text in describe.files(repository, recognize(repository)).items() if "test_oper" in file]
    assert f'framework="{framework}"' in text
