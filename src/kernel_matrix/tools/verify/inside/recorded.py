"""Run a candidate as a program of its own in the sandbox, and hand back the files that were written beside it.

The tool ``launches`` records its launches: the recorder stands in for a GPU before PyTorch is imported. A sanitizer
watches it on the card that is here. The candidate could write any of these files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernel_matrix.job import wire
from kernel_matrix.job.inputs import Array
from kernel_matrix.job.worker import Answer

_START = Path(__file__).parents[2] / "launches" / "inside" / "start.py"
_PACKAGE = Path(__file__).parents[3]
# The folder around the package cannot be listed, where no namespace hides it: so the package is found by its own place.
_ALONE = f"""import sys
from importlib.util import module_from_spec, spec_from_file_location
found = spec_from_file_location({_PACKAGE.name!r}, {str(_PACKAGE / "__init__.py")!r})
found.loader.exec_module(sys.modules.setdefault(found.name, module_from_spec(found)))
from {__name__} import _program
_program(*sys.argv[1:])"""
_KEPT = ("recording.json", "compiled.jsonl", "emulated/**/*.npz")
_STATE = "state "  # and the name of a weight
_TOLD = 2000  # characters of what the program wrote last


def record(
    arrays: Mapping[str, Array], *, settings: dict[str, Any], seconds: float, surroundings: dict[str, str], **words: Any
) -> Answer:
    """Run the candidate behind the recorder; return its exit status and its last words, and the files."""
    folder = Path.cwd() / "recorded"
    folder.mkdir()
    [call], told = _written(folder, [(words, arrays)]), folder / "settings.json"
    told.write_text(json.dumps({**settings, "output": str(folder), "cache": str(folder / "cache")}))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | surroundings
    ended = _run([sys.executable, "-B", str(_START), str(told), __file__, call], environment, seconds)
    return ended, _read(folder, [path for pattern in _KEPT for path in sorted(folder.glob(pattern))])


def sanitized(
    arrays: Mapping[str, Array],
    *,
    commands: dict[str, list[str]],
    calls: list[dict[str, Any]],
    seconds: float,
    surroundings: dict[str, str],
) -> Answer:
    """Run some calls on the card that is here under each command; return how each ended, and the logs.

    The names of arrays begin with the number of their call.
    """
    folder = Path.cwd() / "sanitized"
    folder.mkdir()
    several: list[dict[str, Array]] = [{} for _ in calls]
    for name, one in arrays.items():
        number, _, own = name.partition(" ")
        several[int(number)][own] = one
    program = [sys.executable, "-B", "-c", _ALONE, *_written(folder, list(zip(calls, several, strict=True)))]
    environment = {**os.environ, **surroundings}
    ended, logs = dict[str, str](), []
    for name, command in commands.items():
        logs.append(folder / name)
        logs[-1].touch()
        status, last = _run([one.format(log=logs[-1]) for one in command] + program, environment, seconds)
        ended[name] = f"ended with status {status}: {' '.join(str(last).split())[-_TOLD:]}"
    return ended, _read(folder, logs)


def _written(folder: Path, calls: Sequence[tuple[dict[str, Any], Mapping[str, Array]]]) -> list[str]:
    """Write calls for the program, each into a file."""
    paths = []
    for number, (words, arrays) in enumerate(calls):
        paths.append(str(folder / f"call{number}"))
        with open(paths[-1], "wb") as file:  # noqa: PTH123
            wire.send(file, words, arrays)
    return paths


def _run(command: list[str], environment: dict[str, str], seconds: float) -> list[int | str]:
    """Run a program; return its exit status and its last words."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=seconds)
        return [done.returncode, done.stderr[-_TOLD:].decode(errors="replace")]
    except subprocess.TimeoutExpired:
        return [124, f"it took more than {seconds:g} s"]


def _read(folder: Path, paths: Sequence[Path]) -> dict[str, Array]:
    return {str(path.relative_to(folder)): np.fromfile(path, np.uint8) for path in paths}


def _program(*paths: str) -> None:
    """Build the candidate and call it once for each file, with tensors that are, or say that they are, on a GPU."""
    import torch

    from kernel_matrix.kit.frameworks import framework
    from kernel_matrix.tools.verify.inside import candidate

    frame = framework("torch")
    if not paths:
        candidate.begin({}, device="cuda")
    for path in paths:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            words, arrays = wire.receive(file)
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
    _program(*sys.argv[1:])
