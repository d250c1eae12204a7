"""Judge a thousand candidates of mixed kinds, kill the command now and then, and go on; say how fast and large it is.

    PYTHONPATH=src:tests/support python tests/tools/verify/throughput.py FOLDER [--count 1000] [--kills 3] [--jobs 1]

The candidates are the fixtures that need no compiler and not Triton's interpreter, again and again, each with a line of
its own. The judge's resident memory, and that of all processes together, are read from Linux after every 50 verdicts.
No candidate may be lost or judged twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

from candidates import candidates

SLOW = ("torch.compile", "load_inline", "gcc", "while True", "range(300)", "range(1024)", "1 << 26", "triton")


def main() -> int:
    """Run it until it ends by itself, with kills between; return 1 where a candidate is lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kills", type=int, default=3, help="at random moments")
    parser.add_argument("--python")
    options = parser.parse_args()
    asked, told = _written(options.folder, options.count), options.folder / "told.jsonl"
    told.unlink(missing_ok=True)
    words = [sys.executable, "-m", "kernel_matrix", "verify", "--jsonl", str(asked), "--out", str(told)]
    words += ["--jobs", str(options.jobs), "--device", "cpu", "--quick"]
    words += ["--python", options.python] if options.python else []
    began, before = time.monotonic(), os.times()
    for kill in [*sorted(random.sample(range(options.count), options.kills)), None]:
        done = _watched(words, told, kill)
        if kill is not None:
            print(f"killed after {done} verdicts", flush=True)
    seconds, after = time.monotonic() - began, os.times()
    found = [json.loads(line) for line in told.read_text().splitlines()]
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    own = sorted(sum(one["cpu_seconds"].values()) for one in found if "cpu_seconds" in one)
    print(f"{len(found)} in {seconds:.0f} s; of the last run {spent:.0f} CPU-seconds")
    print(f"a candidate: {own[len(own) // 2]:.2f} CPU-seconds in the median, {sum(own) / len(own):.2f} in the mean")
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
    shown = _lines(told)
    while process.poll() is None:
        time.sleep(0.1)
        done = _lines(told)
        if done >= shown + 50:
            shown = done
            judge, all_of_them = _memory(process.pid)
            print(f"| {done} | {judge} | {all_of_them} |", flush=True)
        if kill is not None and done >= kill:
            time.sleep(random.random())
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return _lines(told)


def _lines(told: Path) -> int:
    return told.read_bytes().count(b"\n") if told.exists() else 0


def _memory(root: int) -> tuple[int, int]:
    """Return, in MiB, the memory of the largest process of a family, and of all: what several share counts once."""
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
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:]
            found = {name: int(text.split()[0]) >> 10 for name, _, text in (line.partition(":") for line in lines)}
            sizes.append((found["Rss"], found["Pss"]))
        except (OSError, KeyError):
            continue
    return max((rss for rss, _ in sizes), default=0), sum(pss for _, pss in sizes)


if __name__ == "__main__":
    sys.exit(main())
