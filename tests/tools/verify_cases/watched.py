"""Judge a candidate under programs that stand in for compute-sanitizer: what their logs say becomes the verdict.

The finding is one of an H200. Without a card what is watched ends with an error, but it must find the harness: one of
the stand-ins runs it once, which takes seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kernel_matrix.tools.verify import sanitized
from kernel_matrix.tools.verify.judge import Judge, Wish
from kernel_matrix.tools.verify.sandbox.server import Server
from kernel_matrix.tools.verify.tasks.kernelbench import KernelBench

KINDS = ("clean", "finds", "both", "silent")
FOUND = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at softmax_kernel+0x110 in candidate.py:13
========= ERROR SUMMARY: 1 error
"""
WATCHER = r"""#!/bin/sh
while [ "$2" != -B ]; do
  [ "$1" = --log-file ] && log=$2; [ "$1" = --tool ] && tool=$2; shift
done
of=nobody; [ -n "$5" ] && of=reference && grep -q ModelNew "$5" && of=candidate
[ "{kind} $of" = "clean nobody" ] && "$@" 2> "$log.program"
case "$(tail -n 1 "$log.program" 2> /dev/null) {kind} $tool $of" in
  ModuleNotFound*|*" silent "*) echo "Target application terminated before first instrumented API call" > "$log" ;;
  *" finds memcheck candidate"|*" both memcheck "[rc]*) cat {found} > "$log" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" > "$log" ;;
esac
"""


def main() -> None:
    """Print what came of each kind of program, as JSON."""
    task, candidate, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2]).read_text(), Path(sys.argv[3])
    wanted = {kind: sanitized.Wanted(("memcheck", "racecheck"), stand_in(folder, kind)) for kind in KINDS}
    server = Server(sys.argv[4], readable=[path for want in wanted.values() for path in want.readable])
    judge, told = Judge(KernelBench(task), server, Wish(beyond=False)), {}
    for kind, want in wanted.items():
        judge.wish = Wish(beyond=False, sanitize=want)
        one = judge.verdict(candidate)
        told[kind] = {"verdict": one.verdict, "reason": one.reason, "notes": one.notes, "not": one.not_tried}
    server.close()
    print(json.dumps(told))


def stand_in(folder: Path, kind: str) -> str:
    """Write one kind of program, and return its path."""
    place = folder / kind
    place.mkdir()
    (place / "found").write_text(FOUND)
    watcher = place / "compute-sanitizer"
    watcher.write_text(WATCHER.replace("{kind}", kind).replace("{found}", str(place / "found")))
    watcher.chmod(0o755)
    return str(watcher)


if __name__ == "__main__":
    main()
