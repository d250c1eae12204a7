"""Run probes one after the other, each in a child of one process that has imported their toolchain.

The program runs in the environment's Python, which has nothing of the harness: the harness hands over its text. A child
is as ``python PROBE`` would be, but for the import: output, arguments, ``__main__``, working folder and variables.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import signal
import sys
import time
import traceback
import types
from pathlib import Path

POLL_SECONDS = 0.01

# A toolchain may ask for the source line of every frame of the stack when it reads a kernel, also of the frames of
# Python's own import. For these, inspect looks through all modules and finds none. To tell it saves half a minute of
# one probe.
IMPORT_SYSTEM = ("importlib._bootstrap", "importlib._bootstrap_external")


def main(plan: dict) -> int:  # type: ignore[type-arg]  # as JSON has it
    """Import the modules of the plan, then run its probes; return 1 if one of the modules does not import."""
    inspect.modulesbyfile.update({f"<frozen {name}>": name for name in IMPORT_SYSTEM})
    try:
        for name in plan["modules"]:
            importlib.import_module(name)
        meet_first_error_of_tvm()
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    imported = Path(plan["log"]).read_bytes()
    for probe in plan["probes"]:
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            become(probe, imported)
        status = wait(child, began + probe["seconds"])
        write(Path(probe["end"]), json.dumps({"status": status, "seconds": time.monotonic() - began}))
    return 0


def meet_first_error_of_tvm() -> None:
    """Let TVM raise an error, if it is here: for its first traceback it reads the symbols of all libraries.

    That takes about a second. Most probes of TileLang meet an error; a child has what its parent has read.
    """
    if ffi := sys.modules.get("tvm_ffi"):
        with contextlib.suppress(Exception):
            ffi.get_global_func("ffi.String")()  # without the argument that it needs


def become(probe: dict, imported: bytes) -> None:  # type: ignore[type-arg]
    """Run the probe in this process, and end the process as Python would. ``imported`` is what the import printed."""
    with Path(probe["log"]).open("wb") as file:
        file.write(imported)
        file.flush()
        for output in (1, 2):
            os.dup2(file.fileno(), output)
    os.chdir(probe["folder"])
    os.environ.update(probe["variables"])
    program = probe["program"]
    sys.argv, sys.path[0] = [program], str(Path(program).parent)
    module = types.ModuleType("__main__")
    module.__file__ = program
    sys.modules["__main__"] = module
    try:
        exec(compile(Path(program).read_bytes(), program, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  that is what it is for
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without this function
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    sys.exit(0)


def delay(child: int) -> float:
    """Return the seconds that the child waited for a core which others used; 0 where the system does not count them."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc", str(child), "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def wait(child: int, end: float) -> int | None:
    """Return the child's exit status (negative: the signal that ended it), or None if its time limit ended it.

    The limit does not count the time in which others had the cores.
    """
    while time.monotonic() < end + delay(child):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_SECONDS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def write(path: Path, text: str) -> None:
    """Write the file so that no reader sees a part of it."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
