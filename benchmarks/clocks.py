"""The clocks of PyTorch's devices: calls on a CPU, and replays of CUDA graphs on a GPU."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from kernel_matrix.tools.bench.inside.cpu import CpuClock
from kernel_matrix.tools.bench.inside.protocol import Clock, Run
from kernel_matrix.tools.bench.inside.summary import summary

_BEFORE = 1 << 20  # elements of the operation that a run on a CPU comes right behind
_HOST_SAMPLES = 9
_LEAST_REPLAY = 500e-6  # seconds of a replay: to begin one and to end it takes about 5 µs, which are in its time
_ISSUED = 4  # calls that are issued before the host waits: a longer queue could be full
_STATE = ("clocks.sm", "clocks.max.sm", "clocks_event_reasons.active", "temperature.gpu", "power.draw")
_IDLE, _THROTTLED = 0x1, 0x8 | 0x20 | 0x40 | 0x80  # bits of NVML's reasons: slow for heat or power, by hard or software
_BUSY = 10  # per cent of a GPU that nobody has asked for anything


def clock_of(device: torch.device) -> Clock:
    """Return the clock of a device."""
    if device.type == "cuda":
        return GraphClock(device)
    waiting = torch.ones(_BEFORE)
    return CpuClock(lambda size: _copy(size, device), lambda: waiting.add(1.0))


def _copy(size: int, device: torch.device) -> Run:
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def issue(runs: Sequence[Run], rounds: int) -> None:
    """Call the runs in turn, so many times each.

    What a run returns is kept until the same run is next. Else all would write their outputs to the same memory, to
    the cache alone, and those that write to given outputs would not.
    """
    kept = dict[int, object]()
    for _ in range(rounds):
        for place, run in enumerate(runs):
            kept.pop(place, None)
            kept[place] = run()


class GraphClock:
    """Time a graph of runs on all copies of the inputs in turn. The time of its replay is divided by the runs."""

    most_copies = 256  # a graph of several operations for each: instantiating more takes seconds

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        torch.cuda.set_stream(self._stream)  # autograd goes back on the stream of the forward: all are on this one
        self.cache_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self._others = self._used_by_others()

    @property
    def method(self) -> str:
        """The way it times, in a sentence."""
        return (
            "Replays of a CUDA graph with runs on several copies of the inputs in turn, which together are larger than "
            f"the L2 cache, for at least {_LEAST_REPLAY * 1e6:.0f} µs between two events; the time of a replay over "
            "its runs"
        )

    def sampler(self, runs: Sequence[Run]) -> Callable[[], float]:
        """Capture the runs as one graph, and return a function that replays it and returns the seconds of a run.

        All runs are in the graph as often as it takes for a replay of ``_LEAST_REPLAY``.
        """
        for run in runs[:2]:
            run()
        replay = self._replay(runs, 1)
        replay()
        rounds = math.ceil(_LEAST_REPLAY / replay())
        if rounds > 1:
            replay = self._replay(runs, rounds)
        return lambda: replay() / (len(runs) * rounds)

    def _replay(self, runs: Sequence[Run], rounds: int) -> Callable[[], float]:
        """Return a function that replays a graph of so many rounds of the runs and returns the seconds of all."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            issue(runs, rounds)
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def replay() -> float:
            first.record()
            graph.replay()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last)) / 1e3

        return replay

    def host_seconds(self, runs: Sequence[Run], /) -> float:
        """Return the median seconds until Python has issued a run, without a graph."""
        samples = []
        runs[0]()
        for _ in range(_HOST_SAMPLES):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for place in range(_ISSUED):
                runs[place % len(runs)]()
            samples.append((time.perf_counter() - began) / _ISSUED)
        torch.cuda.synchronize()
        return summary(samples).median

    def more(self, runs: Sequence[Run], /) -> Mapping[str, float]:
        """Return the bytes of the device that a run needs at its peak, beyond the inputs and given outputs."""
        runs[0]()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        runs[0]()
        torch.cuda.synchronize()
        return {"peak_bytes": float(torch.cuda.max_memory_allocated(self._device) - before)}

    def copy(self, size: int) -> Run:
        """Return a run that copies so many bytes on the device."""
        return _copy(size, self._device)

    def state(self) -> Mapping[str, str]:
        """Return the clock of the device and why it is not higher, as the driver says it."""
        values = _ask(_STATE)
        return dict(zip(("sm_mhz", "max_sm_mhz", "clock_reasons", "celsius", "watts"), values, strict=False))

    def disturbance(self) -> str:
        """Return that the clock was lowered, or that somebody else used the device before this process began."""
        reasons = self.state().get("clock_reasons", "")
        texts = [self._others] if self._others else []
        try:
            bits = int(reasons, 16)
        except ValueError:
            return "; ".join([*texts, "whether the clock was lowered is not known"])
        if bits & _THROTTLED and not bits & _IDLE:
            texts.append(f"the clock was lowered (reasons {reasons})")
        return "; ".join(texts)

    def release(self) -> None:
        """Give the memory of graphs and inputs back."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def _used_by_others(self) -> str:
        """Return that the device works although this process has asked it for nothing."""
        values = _ask(("utilization.gpu",))
        busy = values[0] if values else ""
        return f"others used {busy} % of the device before" if busy.isdecimal() and int(busy) > _BUSY else ""


def _ask(fields: Sequence[str]) -> list[str]:
    """Ask NVIDIA's tool for fields of the first device; nothing where there is no such tool."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [value.strip() for value in answer.stdout.strip().split(",")]
