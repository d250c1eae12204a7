"""Judge a thousand candidates of mixed kinds, kill the command in the middle, and go on; say how fast and large it is.

    PYTHONPATH=src:tests/support python tests/tools/verify/throughput.py FOLDER [--count 1000] [--kill 300] [--jobs 2]

The candidates are the fixtures that need no compiler, again and again, each with a line of its own. The judge's and the
sandbox's resident memory is read from Linux every two seconds. No candidate may be lost or judged twice.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

from candidates import candidates

SLOW = ("torch.compile", "load_inline", "gcc", "while True", "range(300)", "range(1024)", "1 << 26")


def main() -> int:
    """Run it twice, with a kill between; return 1 where a candidate is lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kill", type=int, default=300, help="after so many verdicts")
    parser.add_argument("--python")
    options = parser.parse_args()
    asked, told = _written(options.folder, options.count), options.folder / "told.jsonl"
    told.unlink(missing_ok=True)
    words = [sys.executable, "-m", "kernel_matrix", "verify", "--jsonl", str(asked), "--out", str(told)]
    words += ["--jobs", str(options.jobs), "--device", "cpu", "--quick"]
    words += ["--python", options.python] if options.python else []
    if options.kill:
        print(f"killed after {_watched(words, told, options.kill)} verdicts", flush=True)
        time.sleep(2)
    began, before, used = time.monotonic(), _lines(told), os.times()
    _watched(words, told, None)
    found = [json.loads(line) for line in told.read_text().splitlines()]
    seconds, cpu = time.monotonic() - began, os.times()
    spent = cpu.children_user + cpu.children_system - used.children_user - used.children_system
    judged = len(found) - before
    print(
        f"{judged} in {seconds:.0f} s, {judged / seconds:.2f} a second, {spent / judged:.2f} CPU-seconds each",
        flush=True,
    )
    print(dict(Counter(one["verdict"] for one in found)))
    names = Counter(one["id"] for one in found)
    print(f"{len(names)} of {options.count} candidates, {sum(n - 1 for n in names.values())} twice")
    return int(len(names) != options.count or max(names.values()) > 1)


def _written(folder: Path, count: int) -> Path:
    chosen = [one for one in candidates() if one.needs == "cpu" and not one.options]
    chosen = [one for one in chosen if not any(word in one.path.read_text() for word in SLOW)]
    (folder / "candidates").mkdir(parents=True, exist_ok=True)
    lines = []
    for place, one in enumerate(islice(cycle(chosen), count)):
        path = folder / "candidates" / f"{place}_{one.path.stem}.py"
        path.write_text(f"{one.path.read_text()}\n# {place}\n")
        lines.append(json.dumps({"id": str(place), "candidate": str(path), "against": str(one.task)}) + "\n")
    asked = folder / "asked.jsonl"
    asked.write_text("".join(lines))
    return asked


def _watched(words: list[str], told: Path, kill: int | None) -> int:
    """Run the command and print its memory; kill it and all below it after so many verdicts."""
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
    shown = 0
    while process.poll() is None:
        time.sleep(2)
        done = _lines(told)
        if done >= shown + 50:
            shown = done
            judge, all_of_them = _memory(process.pid)
            print(f"{done} verdicts: judge {judge} MiB, with all below it {all_of_them} MiB", flush=True)
        if kill and done >= kill:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return done
    return _lines(told)


def _lines(told: Path) -> int:
    return told.read_bytes().count(b"\n") if told.exists() else 0


def _memory(root: int) -> tuple[int, int]:
    """Return the largest resident memory of one process, and that of all, of a process and those below it, in MiB."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    family, sizes = [root], []
    for one in family:
        family += parents.get(one, [])
        try:
            sizes.append(int(Path(f"/proc/{one}/statm").read_text().split()[1]) * 4096 >> 20)
        except OSError:
            continue
    return max(sizes, default=0), sum(sizes)


if __name__ == "__main__":
    sys.exit(main())
