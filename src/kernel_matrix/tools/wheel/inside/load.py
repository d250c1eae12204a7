"""Load shared objects for real, each in a process of its own: ``python load.py FOLDER NAME...``. It needs PyTorch.

The loader's error of each is printed as JSON, by name, empty of one that loads, with the files that it then has loaded.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LONGEST = 2000


def loaded(path: Path) -> dict[str, Any]:
    """Return the loader's error, empty if it loads, and the files that are loaded then."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        said: dict[str, Any] = {"error": "", "files": []}
        try:
            ctypes.CDLL(str(path), mode=os.RTLD_NOW)
            lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
            said["files"] = sorted({Path(line.split()[-1]).name for line in lines if ".so" in line})
        except OSError as error:
            said["error"] = str(error)[:_LONGEST]
        with os.fdopen(writer, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"error": f"the process ended with status {status}", "files": []}


def main(folder: str, names: Sequence[str]) -> None:
    """Import PyTorch, as a package does before its own objects, and load each."""
    import torch

    said = {name: loaded(Path(folder, name)) for name in names}
    print(json.dumps({"torch": torch.__version__, "file": torch.__file__, "said": said}))  # noqa: T201  the answer


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
