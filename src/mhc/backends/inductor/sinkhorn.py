"""``sinkhorn`` of the reference, compiled by Inductor."""

from __future__ import annotations

from mhc.backends.inductor.compiled import compiled_run
from mhc.backends.reference.sinkhorn import equations

# With one stream a sum is its only summand, so Inductor inlines the iterations into one expression, which doubles with
# each: 2**40 reads. Two operations are the most that it may inline.
run = compiled_run(equations, realize_opcount_threshold=2)
