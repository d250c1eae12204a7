"""Launch a kernel on a GPU several times from the same memory, and find what differs between the launches.

The launches are made by ``host.py``, in a process of its own: a kernel may bring its process down.
"""

from __future__ import annotations

import fcntl
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.common.memory import Memory, Ran

from ..emulated.memory import Region
from ..emulated.simulated import without_limit
from .job import HOST, Job
from .ptx_order import UnknownFormError, reordered

_GUARD = 64 << 10  # bytes before and behind each range of memory
_POISON = (0xFF, 0x7B, 0xFB)  # bytes of which floating-point dtypes have NaN, large numbers, and their negatives
_AGAIN = 3
_FEW = 8  # processors: the fewest that NVIDIA's newer GPUs give
_SAMPLES = 20
_ANY_ORDER = re.compile(  # floats are added in memory by one instruction, or behind a lock
    r"\b(?:red|atom)\.(?:\S*add\S*\.(?:f16|bf16|f32|f64)|\S*(?:cas|exch)\.)|atomic\w*(?:_add_f|_pk_add_|_cmpswap|_swap)"
)
_ROUGH = re.compile(
    r"\b((?:ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh|div)\.(?:approx|full|rn)\S*|(?:wgmma\.mma_async|mma)\.\S+|fma\.rn\.\w+|"
    r"(?:red|atom)\.\S+)"
)
_STEPS = 8  # of the dtype, by which sums may differ whose order is not known; of fp32 as many as of 2 ** -17
_WHERE = {
    "first": "",
    "again": "in the second launch, ",
    "guards": "with poison around the tensors, ",
    "unread": "with poison in elements that are not read, ",
    "between": "with poison in elements that are in no argument, ",
    "straight": "compiled by the driver, ",
    "reversed": "with its blocks in reverse order, ",
    "few": f"on {_FEW} processors, ",
    "timed": "while it was timed, ",
}
_DEPENDS = {  # what a result must not depend on, and what it means if it does
    "guards": "it reads outside of its tensors: poison there changes the result",
    "between": "elements of a storage that are in no argument change the result: it lacks a mask",
    "unread": "elements that the float64 run never reads change the result",
}


@dataclass(frozen=True)
class Pair:
    """Two runs that must leave the same in memory, and what it means if they do not."""

    runs: tuple[str, str]
    meaning: str


def _pairs() -> Iterator[Pair]:
    for number in range(_AGAIN):
        yield Pair(("first", f"again{number}"), "two launches from the same memory differ in bits")
    for name, meaning in _DEPENDS.items():
        for byte in _POISON:
            yield Pair(("first", f"{name}{byte}"), meaning)
    meaning = "blocks depend on each other: in {} the result is another"
    yield Pair(("straight", "reversed"), meaning.format("reverse order"))
    for seed in "12":
        yield Pair(("straight", f"random{seed}"), meaning.format("random order"))
    yield Pair(("first", "few"), meaning.format("turns on few processors"))
    yield Pair(("first", "timed"), "the last timed launch leaves other numbers than the first")


@dataclass
class Program:
    """A kernel that is launched on a GPU. ``said`` has what is no fault: times, and sums that vary.

    ``card`` is what the harness knows of the GPU, and asks. ``regions`` are the tensors, with the elements that the
    reference has read (all, where it is not known). ``scratch`` are the bytes that the compiler asks for in addition.
    """

    card: Mapping[str, Any]
    kernel: str
    image: bytes
    text: str
    regions: Sequence[Region]
    lock: Path
    scratch: int = 0
    said: dict[str, Any] = field(default_factory=dict)

    def launch(self, grid: Sequence[int], threads: int, arguments: Sequence[Memory | bytes], *, shared: int = 0) -> Ran:
        """Do all runs, write the memory of the first one back, and return what was found.

        Raises:
            EmulatorError: the GPU did not run it.
        """
        arguments, kept = self._with_scratch(arguments, grid)
        common = {"api": self.card["api"], "device": self.card["device"], "guard": _GUARD}
        settings = {**common, "kernel": self.kernel, "threads": threads, "shared": shared}
        job = Job(settings, grid, arguments, [(one.base, one.size) for one in self.regions])
        del kept
        runs, images = self._runs(grid)
        with tempfile.TemporaryDirectory(prefix="card-") as name:
            folder, contents = Path(name), job.contents()
            job.write(folder, images, self._contents(job, contents), runs)
            said = self._host(folder)
            results = {run["name"]: job.results(folder, run["name"]) for run in runs if "written" in said[run["name"]]}
        self._note(said)
        self.said["instructions"] = sorted(set(_ROUGH.findall(self.text)))
        found = self._written(job, said)
        for pair in _pairs():
            if any(one not in results for one in pair.runs) or any(pair.meaning in one for one in found):
                continue
            if text := self._differ(job, pair, results, contents):
                found.append(f"{pair.meaning}: {text}{self._smallest(job, pair, contents)}")
                if pair.runs[1].startswith("again"):  # what else differs says nothing of its own
                    break
        job.take(results["first"])
        return Ran(0, tuple(found))  # type: ignore[arg-type]  # words, in place of findings of an emulator

    def _with_scratch(self, arguments: Sequence[Memory | bytes], grid: Sequence[int]) -> tuple[list[Any], Any]:
        """Return the arguments with the memory that a compiler asks for: it is the last but one pointer."""
        given = list(arguments)
        array = np.zeros(self.scratch * int(np.prod(grid)), np.uint8)
        if array.size:
            given[-2] = Memory.of("scratch memory", array)
        return given, array

    def _runs(self, grid: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
        """Return the runs, and the images of code that they need."""
        plain: dict[str, Any] = {"image": "image", "content": "memory"}
        runs = [{"name": name, **plain} for name in ("first", *(f"again{number}" for number in range(_AGAIN)))]
        for byte in _POISON:
            runs.append({"name": f"guards{byte}", **plain, "byte": byte})
            runs += [{"name": f"{name}{byte}", **plain, "content": f"{name}{byte}"} for name in ("between", "unread")]
        images = {"image": self.image}
        if self.card["order"]:
            try:
                orders = self._orders(grid) if np.prod(grid) > 1 else {}
            except UnknownFormError as error:
                self.said["order"], orders = str(error), {}
            images |= {f"image.{name}": image for name, image in orders.items()}
            runs += [{"name": name, "image": f"image.{name}", "content": "memory"} for name in orders]
            runs.append({"name": "few", **plain, "processors": _FEW})
        if self.card["timed"]:
            runs.append({"name": "timed", **plain, "samples": _SAMPLES})
        return runs, images

    def _orders(self, grid: Sequence[int]) -> dict[str, bytes]:
        """Return the kernel's PTX with its blocks in other orders, by name.

        Raises:
            UnknownFormError: there is no PTX, or its blocks cannot be given other numbers.
        """
        if self.card["api"] != "cuda":
            raise UnknownFormError("blocks keep their order: it is changed in PTX, and this GPU has none")
        orders = {"straight": "straight", "reversed": "reversed", "random1": "1", "random2": "2"}
        return {name: reordered(self.text, grid, order).encode() + b"\0" for name, order in orders.items()}

    def _host(self, folder: Path) -> dict[str, Any]:
        """Do the runs. One process at a time is on the GPU.

        Raises:
            EmulatorError: a run did not end well.
        """
        with self.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run = subprocess.run(
                [sys.executable, "-I", "-S", str(HOST), str(folder)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                preexec_fn=without_limit,
                env=dict(self.card["environment"]),
            )
        if run.returncode or not (folder / "done").exists():
            last = run.stdout.strip().rpartition("\n")[2].removeprefix("kernel-matrix: ")
            at = (folder / "at").read_text() if (folder / "at").exists() else "first"
            where = _WHERE.get(at.rstrip("0123456789"), "with its blocks in random order, ")
            raise EmulatorError(f"{self.card['name']}: {where}{last or f'it ended with status {run.returncode}'}")
        return dict(json.loads((folder / "said.json").read_text()))

    def _note(self, said: Mapping[str, Any]) -> None:
        if times := said.get("timed", {}).get("microseconds"):
            self.said |= {"microseconds": statistics.median(times), "microseconds.least": min(times)}
        if few := said.get("few"):
            self.said["few"] = few.get("unavailable") or f"{few['processors']} processors"

    def _written(self, job: Job, said: Mapping[str, Any]) -> list[str]:
        """Return which tensors have bytes before or behind them that were written."""
        numbers = sorted({number for one in said.values() for number in one.get("written", ())})
        return [f"it writes outside of {self._region(job, number).name}" for number in numbers]

    def _region(self, job: Job, number: int) -> Region:
        """Return the tensor that a range of memory is of."""
        start, _ = job.ranges[number]
        return next(
            (one for one in self.regions if one.base <= start < one.base + one.size), _scratch(job.ranges[number])
        )

    def _contents(self, job: Job, contents: Sequence[bytes]) -> dict[str, Sequence[bytes]]:
        """Return what memory may begin with: as it is, or with poison in some of the floating-point numbers."""
        poisoned = {
            f"{name}{byte}": [
                self._with_poison(job, number, f"{name}{byte}", content) for number, content in enumerate(contents)
            ]
            for name in ("between", "unread")
            for byte in _POISON
        }
        return {"memory": contents, **poisoned}

    def _with_poison(self, job: Job, number: int, run: str, content: bytes) -> bytes:
        name = run.rstrip("0123456789")
        data, useless = np.frombuffer(bytearray(content), np.uint8), self._useless(job, number, name)
        data.reshape(useless.size, -1)[useless] = int(run.removeprefix(name))
        return data.tobytes()

    def _useless(self, job: Job, number: int, name: str) -> Any:
        """Return which elements of a range are floating-point numbers that the result must not depend on.

        They are in no argument, as between the rows of one, or the reference never reads them.
        """
        region, (start, size) = self._region(job, number), job.ranges[number]
        width = region.size // region.written.size
        if region.kind is None or (start - region.base) % width or size % width:
            return np.zeros(1, bool)
        first = (start - region.base) // width
        used = region.read if name == "unread" else region.inside
        return ~used[first : first + size // width]

    def _differ(self, job: Job, pair: Pair, results: Mapping[str, Sequence[bytes]], before: Sequence[bytes]) -> str:
        """Return where the results of two runs differ, in words; empty where they do not."""
        texts = []
        for number, (one, other) in enumerate(zip(*(results[name] for name in pair.runs), strict=True)):
            if one != other and (text := self._difference(job, number, pair, one, other, before[number])):
                texts.append(text)
        return "; ".join(texts)

    def _difference(self, job: Job, number: int, pair: Pair, one: bytes, other: bytes, before: bytes) -> str:
        region = self._region(job, number)
        width = region.size // region.written.size
        left, right, old = (np.frombuffer(data, np.uint8).reshape(-1, width) for data in (one, other, before))
        differs = (left != right).any(1)
        if pair.runs[1].startswith(("between", "unread")):  # what nobody has written is still what it was
            poisoned = self._with_poison(job, number, pair.runs[1], before)
            poison = np.frombuffer(poisoned, np.uint8).reshape(-1, width)
            differs &= ~((left == old).all(1) & (right == poison).all(1))
        if not differs.any():
            return ""
        if self._has_any_order and _are_near(region, left, right):
            self.said["varies"] = "bits vary with the order in which floats are added in memory"
            return ""
        place = int(np.flatnonzero(differs)[0])
        shown = " and ".join(_shown(region, rows[place]) for rows in (left, right))
        return f"{region.name}: {int(differs.sum())} of {differs.size} elements, the first at {place}: {shown}"

    @property
    def _has_any_order(self) -> bool:
        return bool(_ANY_ORDER.search(self.text))

    def _smallest(self, job: Job, pair: Pair, contents: Sequence[bytes]) -> str:
        """Return the smallest grid that shows a difference, in words: the blocks in x are 1, 2, 4 and so on."""
        x, *others = job.grid
        sizes = [2**power for power in range(max(1, x).bit_length()) if 2**power < x]
        if pair.runs[1] == "timed" or not sizes:
            return ""
        runs, images = list[dict[str, Any]](), dict[str, bytes]()
        for size in sizes:
            mine, own = self._runs((size, *others))
            images |= {f"{name}.{size}": image for name, image in own.items()}
            runs += [
                {**run, "name": f"{run['name']}.{size}", "image": f"{run['image']}.{size}", "grid": [size, *others]}
                for run in mine
                if run["name"] in pair.runs
            ]
        with tempfile.TemporaryDirectory(prefix="card-") as name:
            folder = Path(name)
            job.write(folder, images, self._contents(job, contents), runs)
            try:
                self._host(folder)
            except EmulatorError as error:
                return f" (a smaller grid: {error})"
            for size in sizes:
                if all((folder / f"{one}.{size}.0").exists() for one in pair.runs):
                    results = {one: job.results(folder, f"{one}.{size}") for one in pair.runs}
                    if self._differ(job, pair, results, contents):
                        return f" (a grid of {'x'.join(map(str, (size, *others)))} shows it)"
        return f" (no grid smaller than {'x'.join(map(str, job.grid))} that was tried shows it)"


def _scratch(place: tuple[int, int]) -> Any:
    """Return what stands for memory that is in no tensor."""

    class Scratch:
        name, dtype, kind, base, size = "scratch memory", "torch.uint8", None, *place
        read = inside = np.ones(size, bool)
        written = ~read

    return Scratch


def _numbers(region: Region, rows: Any) -> Any:
    from ..emulated import numbers

    if region.kind is None:
        return None
    with np.errstate(all="ignore"):
        return numbers.of_bits(np.ascontiguousarray(rows).reshape(-1), region.kind)


def _are_near(region: Region, left: Any, right: Any) -> bool:
    """Return whether numbers differ by no more than their order of addition lets them."""
    one, other = _numbers(region, left), _numbers(region, right)
    if one is None or (np.isnan(one) != np.isnan(other)).any():
        return False
    one, other = np.nan_to_num(one), np.nan_to_num(other)
    step = {"fp16": 2.0**-10, "bf16": 2.0**-7, "fp32": 2.0**-17}.get(str(region.kind), 2.0**-46)
    return bool((np.abs(one - other) <= _STEPS * step * max(np.abs(one).max(), np.abs(other).max())).all())


def _shown(region: Region, row: Any) -> str:
    value = _numbers(region, row)
    return f"{value[0]:.6g}" if value is not None else f"0x{row.tobytes()[::-1].hex()}"
