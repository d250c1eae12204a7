"""Say what was found of a wheel, in lines for a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from kernel_matrix.base.words import counted, some
from kernel_matrix.tools.wheel import promises
from kernel_matrix.tools.wheel.builds import Build
from kernel_matrix.tools.wheel.loading import Answer
from kernel_matrix.tools.wheel.study import Study

_MOST, _MOST_SYMBOLS, _WIDTH = 4, 2, 110


def lines(study: Study, builds: Sequence[Build]) -> Iterator[str]:
    """Yield all that is found of one wheel."""
    wheel = study.wheel
    codes = sorted(set().union(*wheel.codes.values()))
    yield f"{wheel.name}: {counted(len(wheel.objects), 'shared object')}, code for {' '.join(codes) or 'no GPU'}"
    if not wheel.is_read:
        yield "  not looked at: it is for another system than Linux with glibc"
        return
    for text in study.untrue:
        yield f"  not true: {text}"
    for target, words in study.unserved.items():
        yield f"  its text names {', '.join(words)}, and no code in it runs on {target}"
    if study.excepted:
        yield f"  {counted(len(study.excepted), 'shared object')} excepted"
    if promises.names_no_pytorch(wheel):
        yield "  its shared objects need PyTorch, and its metadata names none"
    for build in builds if study.answers and wheel.objects else ():
        yield from _of_build(study, build, study.answers[build.version])
    before = {one for of in study.answers.values() for each in of.values() for one in each.before}
    if before:
        yield f"  the package must load first, as no RUNPATH finds them: {some(sorted(before), _MOST)}"
    if study.said is not None:
        count, wrong = len(study.said), study.unlike
        yield f"  loaded for real with PyTorch {study.said_by}: {count - len(wrong)} of {count} as said"
        yield from (f"    {name}: {study.said[name].error or 'it loads'}" for name in wrong)
        if of_machine := sorted({library for one in study.of_machine.values() for library in one}):
            loads = some(list(study.of_machine), _MOST)
            yield f"  this machine itself has {some(of_machine, _MOST)}, so {loads} loads on it"


def _of_build(study: Study, build: Build, answers: Mapping[str, Answer]) -> Iterator[str]:
    wanted, admits = study.wheel.torch, study.admits(build.version)
    asks = "" if wanted is None else f" (its metadata {'asks for' if admits else 'does not admit it:'} torch{wanted})"
    good = sum(one.loads for one in answers.values())
    yield f"  {build.title}{asks}: {good} of {len(answers)} load"
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, one in answers.items():
        if not one.loads and admits:
            groups[tuple(_lacks(study, build, one))].append(PurePosixPath(name).name)
    for texts, names in groups.items():
        yield f"    {some(names, _MOST)}"
        yield from (f"      {text}" for text in texts)


def _lacks(study: Study, build: Build, one: Answer) -> Iterator[str]:
    by_owner: dict[str, list[str]] = defaultdict(list)
    for library, who in one.libraries.items():
        by_owner[who].append(library)
    for who, libraries in by_owner.items():
        stems = {library.partition(".so")[0] for library in libraries}
        there = [known for known in sorted(build.libraries) if known.partition(".so")[0] in stems]
        brings = f"; {build.title} brings {some(there, _MOST)}" if there else ""
        yield f"lacks {some(libraries, _MOST)}{f' of {who}' if who else ''}{brings}"
    if one.of_pytorch:
        more = f", {_MOST_SYMBOLS} of them" if len(one.of_pytorch) > _MOST_SYMBOLS else ""
        yield f"{counted(len(one.of_pytorch), 'symbol')} of PyTorch missing{more}:"
        yield from (f"  {study.readable[symbol][:_WIDTH]}" for symbol in one.of_pytorch[:_MOST_SYMBOLS])
    if one.others:
        yield f"{counted(len(one.others), 'symbol')} that no library has: {some(one.others, _MOST)}"
