"""Programs of about thirty lines that show a wrong result without this project."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from kernel_matrix.tools.verify.tasks.values import KINDS

_MODEL = '''\
"""{title} Needs PyTorch, and reference.py and candidate.py beside it."""
import copy, importlib, torch

{kind}
device = "{device}"
real = torch.nn.init.ones_, torch.nn.init.zeros_
torch.nn.init.ones_ = lambda t: torch.no_grad()(t.uniform_)(0.5, 1.5)  # else a gain that is left out is not seen
torch.nn.init.zeros_ = lambda t: torch.no_grad()(t.uniform_)(-0.5, 0.5)
reference = importlib.import_module("reference")
torch.manual_seed({seed})
inputs, arguments = list(reference.get_inputs()), list(reference.get_init_inputs())
{change}
torch.manual_seed({seed} + 1)
model = reference.Model(*arguments).train({train})
candidate = importlib.import_module("candidate")
torch.manual_seed({seed} + 1)
new = candidate.ModelNew(*arguments).train({train})
if len(new.state_dict()) == len(model.state_dict()):
    new.load_state_dict(dict(zip(new.state_dict(), model.state_dict().values())))
wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
with torch.no_grad():
    torch.set_default_dtype(torch.float64)
    expected = copy.deepcopy(model).double()(*wide)
    torch.set_default_dtype(torch.float32)
    got = new.to(device)(*[x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs]).cpu()
off = (got.double() - expected).abs()
place = tuple(int(i) for i in torch.nonzero(off == off.max())[0])
print("inputs", [tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in inputs])
print("largest error", float(off.max()), "at", place, "expected", float(expected[place]), "got", float(got[place]))
'''


def program_of_model(recipe: Mapping[str, Any]) -> str:
    """Return the program for KernelBench's form."""
    return _MODEL.format(title="A wrong result.", device=recipe.get("device", "cpu"), seed=recipe["seed"],
                         train=recipe["train"], **changing(recipe["kind"], recipe["seed"]))  # fmt: skip


def changing(kind: str, seed: int) -> dict[str, str]:
    """Return the text of the map of the inputs' values, and of its use."""
    if not kind:
        return {"kind": "", "change": ""}
    import numpy as np

    factor = float(np.random.default_rng(seed).uniform(0.5, 2.5))
    names = ("signs", "six") if kind == "six" else (kind,)
    text = "".join(textwrap.dedent(inspect.getsource(KINDS[name])) for name in names)
    text = text.replace(f"def _{kind}", "def changed")
    text = text.replace(": Any", "").replace(" -> Any", "").replace("_: float", "_").replace("factor: float", "factor")
    for name, value in (("_STEP", 4096), ("_LOUD", 100.0)):
        text = text.replace(name, str(value))
    use = (
        f"inputs = [changed(x, {factor!r}) if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() > 1"
        " else x for x in inputs]"
    )
    return {"kind": text, "change": use}
