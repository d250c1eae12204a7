"""Ask `torch.allclose` about every candidate, in a sandbox.

    PYTHONPATH=tests/support python tests/tools/verify/allclose.py PYTHON [NAME ...]

PYTHON has torch and Triton. The answers are lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from candidates import Candidate, candidates

INSIDE = Path(__file__).parent / "allclose_inside.py"
BOX = "bwrap --ro-bind / / --dev /dev --proc /proc --size 2000000000 --tmpfs /tmp --size 500000000 --tmpfs /dev/shm"
BOX += " --unshare-all --die-with-parent --new-session --chdir /tmp --clearenv --setenv PATH /usr/bin:/bin"
BOX += " --setenv HOME /tmp --setenv TRITON_INTERPRET 1 --setenv OMP_NUM_THREADS 1 --setenv PYTHONDONTWRITEBYTECODE 1"


def answers(python: str, asked: Sequence[Candidate]) -> Iterator[dict[str, object]]:
    """Yield what it says of each; a candidate that ends the judge itself has an error, and the others a new judge."""
    left = list(asked)
    while left:
        lines = "".join(json.dumps([str(one.task), str(one.path)]) + "\n" for one in left)
        found = 0
        with subprocess.Popen(
            [*BOX.split(), python, str(INSIDE)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as box:
            box.stdin.write(lines)
            box.stdin.close()
            for line in box.stdout:
                if line.startswith('{"candidate"'):
                    found += 1
                    yield json.loads(line)
        left = left[found:]
        if left and box.returncode not in (0, -9, 137, 9):
            raise SystemExit(f"the sandbox could not be made, or its Python has no torch: exit status {box.returncode}")
        if left:
            yield {"candidate": str(left.pop(0).path), "error": "it ended the judge"}


if __name__ == "__main__":
    on_cpu = [one for one in candidates() if one.needs == "cpu" and (not sys.argv[2:] or one.name in sys.argv[2:])]
    for answer in answers(sys.argv[1], on_cpu):
        print(json.dumps(answer), flush=True)
