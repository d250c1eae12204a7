"""The theoretical occupancy of code as an expression for SQL; :mod:`kernel_matrix.job.ahead.targets` has figures."""

from __future__ import annotations

from kernel_matrix.job.ahead.targets import SCHEDULERS, TARGETS

_UNITS = {name: one.unit for name, one in TARGETS.items() if one.unit}


def occupancy(target: str, figures: str) -> str:
    """Return the expression of SQL of a target and of the figures of a case."""

    def of_unit(name: str) -> str:
        values: dict[int, list[str]] = {}
        for one, unit in _UNITS.items():
            values.setdefault(int(getattr(unit, name)), []).append(f"'{one}'")
        cases = " ".join(f"WHEN {target} IN ({', '.join(names)}) THEN {value}" for value, names in values.items())
        return f"(CASE {cases} ELSE 1 END)"

    def figure(name: str) -> str:
        return f"coalesce({figures}['artifact.{name}'], 0)"

    waves = f"ceil({figure('threads')} / {of_unit('lanes')})"
    most = f"({SCHEDULERS} * {of_unit('waves')})"
    granule, step = of_unit("granule"), of_unit("step")
    by_registers = f"floor({of_unit('registers')} / (ceil({figure('registers')} / {granule}) * {granule}))"
    shared = f"(greatest({figure('shared_bytes')}, {figure('shared')}) + {of_unit('reserved')})"
    free = f"{waves} = 1 AND {of_unit('one_wave_is_free')} = 1"
    by_shared = f"floor({of_unit('shared')} * 1024 / (ceil({shared} / {step}) * {step}))"
    blocks = (
        f"floor({most} / {waves})",
        f"floor({SCHEDULERS} * least({of_unit('waves')}, {by_registers}) / {waves})",
        f"CASE WHEN {free} THEN {most} ELSE {of_unit('blocks')} END",
        f"CASE WHEN {shared} > 0 THEN {by_shared} ELSE {most} END",
    )
    names = ", ".join(f"'{name}'" for name in _UNITS)
    known = f"{target} IN ({names}) AND {figure('registers')} > 0 AND {figure('threads')} > 0"
    return f"CASE WHEN {known} AND {figure('occupancy')} = 0 THEN least({', '.join(blocks)}) * {waves} / {most} END"
