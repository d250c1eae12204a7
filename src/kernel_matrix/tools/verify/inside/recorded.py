"""Record a candidate's launches in the sandbox, as the tool ``launches`` does, and hand back the recorder's files.

A program of its own is needed: the recorder stands in for a GPU before PyTorch is imported. It could write any file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_matrix.job import wire
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.worker import Answer

_START = Path(__file__).parents[2] / "launches" / "inside" / "start.py"
_KEPT = ("recording.json", "compiled.jsonl", "emulated/**/*.npz")
_STATE = "state "  # and the name of a weight
_TOLD = 2000  # characters of what the program wrote last


def record(
    arrays: Mapping[str, Array], *, settings: dict[str, Any], seconds: float, surroundings: dict[str, str], **words: Any
) -> Answer:
    """Run the candidate behind the recorder; return its exit status and its last words, and the files."""
    folder = Path.cwd() / "recorded"
    folder.mkdir()
    call, told = folder / "call", folder / "settings.json"
    with call.open("wb") as file:
        wire.send(file, words, arrays)
    told.write_text(json.dumps({**settings, "output": str(folder), "cache": str(folder / "cache")}))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | surroundings
    command = [sys.executable, "-B", str(_START), str(told), __file__, str(call)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=seconds)
        status, last = done.returncode, done.stderr[-_TOLD:].decode(errors="replace")
    except subprocess.TimeoutExpired:
        status, last = 124, f"it took more than {seconds:g} s"
    files = {str(path.relative_to(folder)): path for pattern in _KEPT for path in sorted(folder.glob(pattern))}
    return [status, last], {name: np.fromfile(path, np.uint8) for name, path in files.items()}


def _program(path: str) -> None:
    """Build the candidate and call it once, with tensors that say that they are on a GPU."""
    import torch

    from kernel_matrix.kit.frameworks import framework
    from kernel_matrix.tools.verify.inside import candidate

    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        words, arrays = wire.receive(file)
    frame = framework("torch")
    state = {n.removeprefix(_STATE): arrays.pop(n) for n in list(arrays) if n.startswith(_STATE)}
    called = candidate.found_in(words["source"], words["entry"], words["modules"])
    if (build := words["build"]) is not None:
        candidate.seeded(build["seed"])
        given, named = candidate.shaped(build["call"], [])
        called = called(*given, **named)
        if isinstance(called, torch.nn.Module):
            called.train(build["train"])
            candidate.matched(dict(called.state_dict()), {n: frame.given(one, "cpu") for n, one in state.items()})
            called = called.cuda()
    given, named = candidate.shaped(words["call"], [frame.given(one, "cpu").cuda() for one in arrays.values()])
    candidate.seeded(words["seed"])
    with torch.set_grad_enabled(words["grad"]):
        list(candidate.flat(called(*given, **named)))


if __name__ == "__main__":
    _program(sys.argv[1])
