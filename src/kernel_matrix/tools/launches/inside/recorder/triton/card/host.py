"""Launch one kernel by a vendor's driver: ``python host.py FOLDER``, on a GPU or in a simulator. It needs Python alone.

``FOLDER`` has ``job.json``, images of code, and a file for each range of memory. Each run of the job begins with the
memory of its own content, between guards of its own byte, and leaves the memory as ``NAME.NUMBER``. ``python host.py
DEVICE`` says what the device is.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .vendor_driver import DRIVERS, UnavailableError
else:  # this is started without paths
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from vendor_driver import DRIVERS, UnavailableError

_CACHE = 256 << 20  # bytes that are written between two timed launches, so that no cache has the tensors


class _Host:
    """The memory of a launch on the device, and its kernels."""

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.folder, self.job, self.functions = folder, job, dict[Any, Any]()
        self.driver: Any = DRIVERS[job["api"]](job["api"])
        self.driver.begin(job.get("device", 0))
        self.guard = job.get("guard", 0)
        self.places = [self.driver.allocate(self._whole(one)) for one in job["memory"]]
        starts = [place + self.guard + one["pad"] for place, one in zip(self.places, job["memory"], strict=True)]
        self.starts = starts
        self.buffers = [ctypes.create_string_buffer(value, len(value)) for value in self._values()]
        self.pointers = (ctypes.c_void_p * len(self.buffers))(*map(ctypes.addressof, self.buffers))

    def _whole(self, memory: dict[str, int]) -> int:
        return int(memory["size"] + memory["pad"] + 2 * self.guard)

    def _values(self) -> list[bytes]:
        """Return the arguments as the kernel gets them."""
        given = self.job["arguments"]
        return [
            bytes.fromhex(one["bytes"])
            if "bytes" in one
            else int(self.starts[one["memory"]] + one["offset"]).to_bytes(8, "little")
            for one in given
        ]

    def fill(self, content: str, byte: int) -> None:
        """Let the memory have its content, between guards."""
        for number, (place, start, one) in enumerate(zip(self.places, self.starts, self.job["memory"], strict=True)):
            if self.guard:
                self.driver.fill(place, byte, self._whole(one))
            self.driver.write(start, (self.folder / f"{content}.{number}").read_bytes())

    def launch(self, run: dict[str, Any], context: int = 0) -> None:
        """Launch the kernel of an image on a grid."""
        key = (run["image"], context)
        if key not in self.functions:
            image = (self.folder / run["image"]).read_bytes()
            self.functions[key] = self.driver.function(image, self.job["kernel"])
            self.driver.permit(self.functions[key], self.job["shared"])
        self.driver.launch(self.functions[key], run["grid"], self.job["threads"], self.job["shared"], self.pointers)

    def run(self, run: dict[str, Any]) -> dict[str, Any]:
        """Do one run, and return what is to be said of it."""
        said: dict[str, Any] = {}
        self.fill(run["content"], run.get("byte", 0))
        if few := run.get("processors"):
            try:
                said["processors"] = self.driver.few(few)
            except UnavailableError as error:
                return {"unavailable": str(error)}
        if samples := run.get("samples"):
            said["microseconds"] = self._timed(run, samples)
        else:
            self.launch(run, int(bool(few)))
            self.driver.wait()
        if few:
            self.driver.whole()
        for number, (start, one) in enumerate(zip(self.starts, self.job["memory"], strict=True)):
            (self.folder / f"{run['name']}.{number}").write_bytes(self.driver.read(start, one["size"]))
        written = [number for number in range(len(self.places)) if self._is_written(number, run.get("byte", 0))]
        return {**said, "written": written}

    def _is_written(self, number: int, byte: int) -> bool:
        """Return whether bytes of a guard are others than before."""
        size, place, start = self.job["memory"][number]["size"], self.places[number], self.starts[number]
        parts = (
            (self.driver.read(place, start - place), self.driver.read(start + size, self.guard)) if self.guard else ()
        )
        return any(part != bytes([byte]) * len(part) for part in parts)

    def _timed(self, run: dict[str, Any], samples: int) -> list[float]:
        """Return the times of launches, each with the memory as it was at first, and no cache."""
        driver, cold = self.driver, self.driver.allocate(_CACHE)
        sizes = [one["size"] for one in self.job["memory"]]
        fresh = [driver.allocate(size) for size in sizes]
        begin, end, times = driver.event(), driver.event(), []
        for start, copy, size in zip(self.starts, fresh, sizes, strict=True):
            driver.copy(copy, start, size)
        for number in range(samples + 1):
            for start, copy, size in zip(self.starts, fresh, sizes, strict=True):
                driver.copy(start, copy, size)
            driver.fill(cold, number % 2, _CACHE)
            driver.record(begin)
            self.launch(run)
            driver.record(end)
            times.append(driver.microseconds(begin, end))
        return times[1:]  # the first one loads the code


def main(folder: Path) -> None:
    """Do the job."""
    host = _Host(folder, json.loads((folder / "job.json").read_text()))
    said = {}
    for run in host.job["runs"]:
        (folder / "at").write_text(run["name"])
        said[run["name"]] = host.run(run)
    (folder / "said.json").write_text(json.dumps(said))
    (folder / "done").touch()


if __name__ == "__main__":
    if sys.argv[1].isdecimal():
        sys.stdout.write(json.dumps(DRIVERS[sys.argv[2]](sys.argv[2]).described(int(sys.argv[1]))))
    else:
        main(Path(sys.argv[1]))
