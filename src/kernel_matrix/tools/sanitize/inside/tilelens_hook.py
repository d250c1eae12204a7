"""Start the kernels' process so that tilelens looks at each launch in Triton's interpreter before it runs.

It runs in the environment of the job: ``python tilelens_hook.py LOG LIBRARIES SCRIPT ARGUMENTS``. LIBRARIES is the
folder with tilelens, which comes last on the path: what the environment has itself, it keeps.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

_TEXT = 300  # characters of an error


class FoundError(RuntimeError):
    """A launch that would touch memory outside of its tensors, and that is not run."""


def watch(log: Path) -> None:
    """Make every launch of Triton's interpreter be looked at first; write what is found or cannot be looked at."""
    from tilelens.clients import Sanitizer
    from tilelens.clients.sanitizer import sanitizer
    from tilelens.core.client import ClientManager
    from tilelens.core.trace import TritonTrace
    from triton.runtime.interpreter import InterpretedFunction

    launch, loop = InterpretedFunction.run, ClientManager.loop_iter_wrapper
    looking: list[bool] = []

    def loop_iter_wrapper(self: Any, make: Any, args: Any, options: Any, site: Any, kind: str) -> Any:
        # The compiler unrolls such a loop. tilelens 3.1.1 makes a symbol of its variable, which then indexes no tuple.
        if kind == "tl_static_range":
            return iter(range(*(int(getattr(value, "value", value)) for value in args or ())))
        return loop(self, make, args, options, site, kind)

    def run(self: Any, *args: Any, **options: Any) -> Any:
        if not looking:
            looking.append(True)
            # tilelens 3.1.1 calls a launch clean that it has begun to look at before, also if it could not.
            sanitizer._fn_symbolic_cache_set.clear()
            client = Sanitizer(abort_on_error=False)
            try:
                TritonTrace(self, client).run(*args, **dict(options))
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:_TEXT]
                _write(log, [f"Cannot look at {self.fn.__name__}: {reason}"])
            finally:
                looking.clear()
            if client.records:
                _write(log, [text for record in client.records for text in _finding(self.fn.__name__, record)])
                raise FoundError(f"{self.fn.__name__} would touch memory outside of its tensors")
        return launch(self, *args, **options)

    ClientManager.loop_iter_wrapper, InterpretedFunction.run = loop_iter_wrapper, run


def _finding(kernel: str, record: Any) -> list[str]:
    """Return the lines of a finding: what, where, and how far from the tensor."""
    tensor, what = record.tensor, record.op_type.__name__.lower()
    begin = tensor.data_ptr()
    size = tensor.element_size()
    last = begin + size * sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    address = record.violation_address
    side = (
        f"{begin - address} bytes before it" if address < begin else f"{address - last} bytes behind its last element"
    )
    # A finding behind a loop has no frame of the kernel.
    frames = [frame for frame in record.user_code_tracebacks if frame.filename != __file__]
    place = frames[-1] if frames else None
    where = f" in {Path(place.filename).name}:{place.lineno}" if place else ""
    return [
        f"Out of bounds: {what} of {record.tensor_name or 'a tensor'}",
        f"    at {kernel}{where}",
        f"    {side}; its shape is {tuple(tensor.shape)}, {str(tensor.dtype).removeprefix('torch.')}",
    ]


def _write(log: Path, lines: list[str]) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write("".join(f"========= {line}\n" for line in lines))


def main() -> None:
    """Watch, and run the script as Python does."""
    log, libraries, script, *arguments = sys.argv[1:]
    sys.path.append(libraries)
    sys.path[0] = str(Path(script).parent)
    sys.argv = [script, *arguments]
    watch(Path(log))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
