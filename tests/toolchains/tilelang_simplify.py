"""Lower kernels for several architectures, once as TileLang does alone and once with ``simplify.simplified_once``.

Print as JSON the sources of both, and how often the passes ran that it runs once. The arguments are the targets.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import tilelang
import torch

from mhc.backends import load
from mhc.backends.tilelang import compat, program, simplify
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.sinkhorn import SinkhornSpec

SPECS = {
    ("mhc_post", "backward"): MhcPostSpec(4, 77, torch.bfloat16),
    ("sinkhorn", "forward"): SinkhornSpec(4, iterations=7, eps=1e-6, form="paper"),
}


def lowered(once: Any, targets: list[str]) -> dict[str, Any]:
    """Return the sources with their resources, and the number of runs of those passes, with ``once`` around each."""
    compat.simplified_once = once
    program.lowered.cache_clear()
    programs = tilelang.tvm.ir.transform.Pass
    calls, run = [], programs.__call__

    def counted(self: Any, module: Any) -> Any:
        calls.append(str(self.info.name))
        return run(self, module)

    programs.__call__ = counted
    try:
        sources = []
        for target in targets:
            for (op, direction), spec in SPECS.items():
                one = program.lowered(load("tilelang", op, direction)._program, spec, target)
                sources.append([target, op, one.source, one.symbol, one.parameters, one.resources])
    finally:
        programs.__call__ = run
    return {"sources": sources, "simplified": sum(name.rpartition(".")[2] in simplify._PASSES for name in calls)}


def main() -> None:
    """Print both."""
    targets = sys.argv[1:]
    once = simplify.simplified_once
    print(json.dumps({"alone": lowered(nullcontext, targets), "once": lowered(once, targets)}))


if __name__ == "__main__":
    main()
