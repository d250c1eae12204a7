"""Gradient of ``expand`` of the reference, compiled by Inductor."""

from __future__ import annotations

from mhc.backends.inductor.compiled import compiled_run
from mhc.backends.reference.expand_backward import equations

run = compiled_run(equations)
