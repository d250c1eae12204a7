"""The GPU of this machine on which recorded launches run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.tools.launches.targets import known

_HOST = Path(__file__).with_name("inside") / "recorder" / "triton" / "card" / "host.py"
_ENVIRONMENT = re.compile(r"PATH|HOME|LD_LIBRARY_PATH|(CUDA|NVIDIA|HIP|ROCR|HSA)_\w+")
_BY_TORCH = """\
import json, torch
one = torch.cuda.get_device_properties({number})
arch = getattr(one, "gcnArchName", "").partition(":")[0] or f"sm_{{one.major}}{{one.minor}}"
print(json.dumps({{"name": one.name, "target": arch, "processors": one.multi_processor_count, "driver": ""}}))
"""


@dataclass(frozen=True)
class Card:
    """A GPU: the number that PyTorch has for it, its name and target, and the driver's functions that launch on it.

    ``order`` is whether blocks also run in other orders, and ``environment`` what the driver reads of it.
    """

    device: int
    name: str
    target: str
    processors: int
    driver: str
    api: str
    order: bool
    timed: bool
    environment: Mapping[str, str]

    @property
    def for_recorder(self) -> dict[str, Any]:
        """The GPU as the recorder reads it."""
        return asdict(self)


def card_named(text: str, python: str, *, order: bool) -> Card:
    """Return the GPU that PyTorch calls so.

    Raises:
        UserError: the text names none, none is there, or its target is not known.
    """
    found = re.fullmatch(r"cuda(?::(\d+))?", text)
    if not found:
        raise UserError(f"--on {text}: write a GPU as PyTorch names it, such as cuda:0; AMD's are called so too.")
    number = int(found[1] or 0)
    asked = (
        [sys.executable, "-I", "-S", str(_HOST), str(number), "cuda"],
        [python, "-c", _BY_TORCH.format(number=number)],
    )
    errors = []
    for api, command in zip(("cuda", "hip"), asked, strict=True):
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if not run.returncode:
            described = json.loads(run.stdout.strip().rpartition("\n")[2])
            api = "cuda" if described["target"].startswith("sm_") else api
            environment = {name: value for name, value in os.environ.items() if _ENVIRONMENT.fullmatch(name)}
            if described["target"] not in known():
                raise unknown(f"--on {text}", "target of launches", described["target"], known())
            return Card(number, api=api, order=order, timed=True, environment=environment, **described)
        errors.append(run.stderr.strip().rpartition("\n")[2].removeprefix("kernel-matrix: "))
    raise UserError(f"--on {text}: there is no such GPU: {errors[0]}; PyTorch: {errors[1]}")
