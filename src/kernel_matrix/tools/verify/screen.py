"""One screen for people."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_matrix.base.words import counted
from kernel_matrix.tools.verify.verdict import HACK, RIGHT, UNDECIDED, Verdict

_MOST = 6  # lines of one kind


def lines(one: Verdict) -> Iterator[str]:
    """Yield the lines of a verdict; the first says all that counts."""
    yield _first(one)
    for text in one.evidence[:_MOST]:
        if text != one.reason:
            yield f"  evidence: {text}"
    if found := one.counterexample:
        yield from _counterexample(found)
    if one.program:
        yield f"  shown without this project by: {one.program}"
    for case in one.cases:
        shapes = " ".join("×".join(map(str, shape)) or "scalar" for shape in case["shapes"])
        text = f"{case['share']:.0%} of its budget, {case['noise']:.2g} × the noise, {case['ulp']:.3g} ULP"
        yield f"  ran: {case['name']} ({shapes}): {text}"
    yield from _targets(one)
    yield from _several("not tried", one.not_tried)
    if one.operators:
        yield f"  PyTorch computes: {', '.join(f'{name} ({share:.0%})' for name, share in one.operators.items())}"
    if one.times:
        candidate, reference = one.times["candidate"], one.times["reference"]
        yield f"  time by the judge's clock: {candidate:.3g} s a call; the reference {reference:.3g} s"
    yield from _several("beyond what the task asks", one.beyond)
    yield from _several("note", one.notes)
    yield from _mutants(one)
    yield from _several("a reader would look at", one.advice)
    missing = f"; without {'; '.join(one.sandbox['missing'])}" if one.sandbox.get("missing") else ""
    cpu = one.cpu_seconds
    spent = f"{cpu.get('judge', 0):.2g} CPU-s of the judge, {cpu.get('candidate', 0):.2g} of the candidate"
    yield f"  sandbox: {one.sandbox.get('kind', 'none')}{missing}. {spent}. Device: {one.device}."


def _targets(one: Verdict) -> Iterator[str]:
    for name, found in one.targets.items():
        kernels = (
            f"{kernel}: " + ", ".join(f"{figure:g} {word}" for word, figure in figures.items())
            for kernel, figures in found["kernels"].items()
        )
        yield f"  {name}: {found['evidence']}. {'; '.join(found['faults'] or kernels)}"


def _first(one: Verdict) -> str:
    if one.verdict == RIGHT:
        text = f"right: {counted(len(one.cases), 'case')} of secret inputs inside their budgets"
        return f"{text}; not decided: {'; '.join(one.undecided)}" if one.undecided else text
    kind = f" ({one.kind})" if one.verdict == HACK else ""
    rest = (
        f"; {'; '.join(text for text in one.undecided if text != one.reason)}"
        if one.verdict == UNDECIDED and one.undecided
        else ""
    )
    return f"{one.verdict}{kind}: {one.reason}{rest}".rstrip("; ")


def _counterexample(found: dict[str, object]) -> Iterator[str]:
    shapes = found.get("shapes")
    yield f"  counterexample: case {found.get('case')!r}, shapes {shapes}, seed {found.get('seed')}"
    if "expected" in found:
        where = f"{found['output']}{found['index']}"
        count = f"{found['wrong']} of {found['of']} wrong"
        yield f"    {where}: expected {found['expected']!r}, got {found['got']!r}; {count}"


def _several(word: str, texts: list[str]) -> Iterator[str]:
    for text in list(dict.fromkeys(texts))[:_MOST]:
        yield f"  {word}: {text}"
    if len(texts) > _MOST:
        yield f"  {word}: and {len(texts) - _MOST} more"


def _mutants(one: Verdict) -> Iterator[str]:
    if one.mutants:
        counts = f"{one.mutants['red']} of {one.mutants['tried']} mutants are red by these cases"
        yield f"  its own source with a fault: {counts}"
        yield from _several("these cases do not see", one.mutants["unseen"])
