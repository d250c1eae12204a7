"""Judge candidates as most people do: one process, five inputs of one shape, `torch.allclose`. For a sandbox alone.

A line of stdin names a task and a candidate; a line of stdout says at which tolerances it passes. Each candidate has a
fork of this process, which it may end, deceive or fill.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

TOLERANCES = (1e-2, 1e-4)
TRIALS = 5
SECONDS = 240


def main() -> None:
    """Answer each line.

    Raises:
        SystemExit: this is no sandbox: the Python that runs it can be written to.
    """
    try:
        (Path(sys.prefix) / "written").touch()
    except OSError:
        pass
    else:
        (Path(sys.prefix) / "written").unlink()
        raise SystemExit("hostile files run in a sandbox only")
    torch.set_num_threads(1)
    torch.softmax(torch.randn(8, 8) @ torch.randn(8, 8), dim=1)
    for line in sys.stdin:
        task, candidate = json.loads(line)
        print(json.dumps({"candidate": candidate, **_in_a_fork(task, candidate)}), flush=True)
        for left in [*Path("/tmp").glob("*"), *Path("/dev/shm").glob("*")]:
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() and not left.is_symlink() else left.unlink()


def _in_a_fork(task: str, candidate: str) -> dict[str, object]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _quiet()
        try:
            answer: dict[str, object] = _judge(task, candidate)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    said = b""
    end = time.monotonic() + SECONDS
    while select.select([reading], [], [], max(0, end - time.monotonic()))[0] and (part := os.read(reading, 65536)):
        said += part
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        return dict(json.loads(said))
    except (ValueError, TypeError):
        return {"error": "it ended, hung, or answered by itself"}


def _quiet() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def _judge(task: str, candidate: str) -> dict[str, object]:
    sys.path[:0] = [str(Path(candidate).parent)]
    judged, given = _module(task), _module(candidate)
    torch.manual_seed(42)
    arguments = judged["get_init_inputs"]()
    torch.manual_seed(42)
    model = judged["Model"](*arguments)
    torch.manual_seed(42)
    new = given["ModelNew"](*arguments)
    passes = dict.fromkeys(TOLERANCES, True)
    shapes = None
    for trial in range(TRIALS):
        torch.manual_seed(1000 + trial)
        inputs = judged["get_inputs"]()
        shapes = [list(one.shape) for one in inputs]
        if any(one.requires_grad for one in inputs):
            inputs = [one.detach() for one in inputs]
        right = model(*[one.clone() if "cache" in task else one for one in inputs])
        result = new(*inputs)
        for tolerance in TOLERANCES:
            passes[tolerance] = passes[tolerance] and _near(right, result, tolerance)
    return {"shapes": shapes, "passes": {f"{key:g}": bool(value) for key, value in passes.items()}}


def _near(right: object, result: object, tolerance: float) -> bool:
    if isinstance(right, tuple):
        return all(_near(one, other, tolerance) for one, other in zip(right, result, strict=True))  # type: ignore[call-overload]
    if result.shape != right.shape:  # type: ignore[attr-defined]
        return False
    return torch.allclose(right, result, atol=tolerance, rtol=tolerance)  # type: ignore[arg-type]


def _module(path: str) -> dict[str, object]:
    import types

    made = types.ModuleType(Path(path).stem)
    made.__file__ = path
    sys.modules[made.__name__] = made
    exec(compile(Path(path).read_text(), path, "exec"), made.__dict__)
    return made.__dict__


if __name__ == "__main__":
    main()
