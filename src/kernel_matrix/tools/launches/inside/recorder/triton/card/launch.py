"""Compile a call of a Triton kernel for the GPU that is here, and run it there."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...settings import Target
from ..emulated import files, reference
from ..emulated.call import Call, run
from ..emulated.memory import Region
from .checks import Program


@dataclass
class OnCard:
    """Compile a call for a target and run it on the GPU, with all checks."""

    call: Call
    target: Target
    file: Path
    cache: Path
    card: Mapping[str, Any]
    key: str = ""

    def compile(self, report: Callable[[str], None]) -> dict[str, Any]:
        """Return the figures of the code, and what the checks found."""
        report("bind")
        source = self.call.launch.source(self.target)
        os.environ["TRITON_CACHE_DIR"] = str(self.cache)
        report("")
        done = source.compile(report)
        import triton

        kernel = triton.compile(source.ast, target=source.target, options=source.options.__dict__)
        report("reference")
        regions = self._regions_read()
        report("card")
        before = [region.bytes.copy() for region in regions]
        program = self._program(kernel, regions)
        driver = importlib.import_module("gpu_emulators.common.triton_driver")
        findings = run(self.call, program, driver.Launcher(source.ast, kernel.metadata))
        files.save_bits(self.file, regions, before)
        kept = str(self.cache / f"{kernel.hash}.json")
        return {**done, "findings": findings, "kept": kept, "card": program.said}

    def _program(self, kernel: Any, regions: Sequence[Region]) -> Program:
        """Return the compiled kernel as the checks run it.

        Raises:
            NotImplementedError: its blocks are launched in clusters.
        """
        if getattr(kernel.metadata, "num_ctas", 1) > 1:
            raise NotImplementedError("it is launched in clusters of blocks, which --on does not do")
        of_nvidia = self.card["api"] == "cuda"
        return Program(
            card=self.card,
            kernel=kernel.metadata.name,
            image=kernel.asm["cubin" if of_nvidia else "hsaco"],
            text=kernel.asm["ptx" if of_nvidia else "amdgcn"],
            regions=regions,
            lock=self.file.parent.parent / "card.lock",
            scratch=getattr(kernel.metadata, "global_scratch_size", 0) or 0,
        )

    def _regions_read(self) -> list[Region]:
        """Return the tensors with the elements that the reference reads: all, where it cannot compute the call."""
        kept = [(region, region.bytes.copy()) for region in self.call.regions()]
        try:
            read = [
                region.read
                for region in reference.compute(self.call.kernel, self.call.bound, self.call.grid, rounds=False)
            ]
        except Exception:  # the interpreter does not have all of the language
            read = [region.read | True for region, _ in kept]
        for (region, content), elements in zip(kept, read, strict=True):
            region.bytes[:] = content  # the reference changes integers in place
            region.read = elements
        return [region for region, _ in kept]
