"""Cells of the kernels in a CUDA source: ptxas names them, so each is an operator, and each instantiation a case."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from kernel_matrix.tools.launches.recording import Compiled, Launch, Recording

_MOST_TEMPLATE = 60  # characters of a template's arguments in the name of a case


def by_kernel(recordings: Sequence[Recording]) -> list[Recording]:
    """Return the recordings with a launch for each kernel of a source in place of the one for the source.

    A kernel is known where some target's compiler has named it. It then stands for its source on all targets: an error
    of the source is one of each of its kernels. A source whose kernels nobody has named stays one launch.
    """
    kernels = _kernels(recordings)
    return [
        replace(
            recording,
            launches=tuple(one for launch in recording.launches for one in _launches(launch, kernels)),
            compiled=tuple(one for compiled in recording.compiled for one in _results(compiled, kernels)),
        )
        for recording in recordings
    ]


def _kernels(recordings: Iterable[Recording]) -> Mapping[str, list[str]]:
    """Return the kernels that were named, by the identity of their source."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for recording in recordings:
        for compiled in recording.compiled:
            names[compiled.identity].update(dict.fromkeys(compiled.kernels))
    return {identity: list(kernels) for identity, kernels in names.items() if kernels}


def _launches(launch: Launch, kernels: Mapping[str, Sequence[str]]) -> Iterator[Launch]:
    if launch.identity not in kernels:
        yield launch
        return
    for kernel in kernels[launch.identity]:
        name, template, arguments = parts_of(kernel)
        yield replace(
            launch,
            identity=_identity(launch.identity, kernel),
            module=launch.kernel.rpartition(".")[0],
            kernel=name,
            types={str(index): kind for index, kind in enumerate(arguments)},
            constants={"template": template} if template else {},
            options={**launch.options, "source": launch.kernel},
        )


def _results(compiled: Compiled, kernels: Mapping[str, Sequence[str]]) -> Iterator[Compiled]:
    if compiled.identity not in kernels:
        yield compiled
        return
    for kernel in kernels[compiled.identity]:
        result = replace(compiled, identity=_identity(compiled.identity, kernel), kernels={})
        if kernel in compiled.kernels:
            yield replace(result, figures=compiled.kernels[kernel])
        elif compiled.stage or not compiled.kernels:  # the compiler failed, or it names no kernels
            yield result
        else:
            absent = f"the code for {compiled.target} does not have this kernel: its source leaves it out there"
            yield replace(result, stage="unavailable", message=absent, figures={})


def _identity(source: str, kernel: str) -> str:
    return sha256(f"{source} {kernel}".encode()).hexdigest()[:16]


def parts_of(kernel: str) -> tuple[str, str, list[str]]:
    """Return the name of a kernel without its namespaces, the arguments of its template, and the types it takes."""
    text = re.sub(r"\((?:anonymous namespace|unnamed)\)::", "", kernel)
    head, arguments = _cut(text, "(", ")")
    head, template = _cut(head, "<", ">")
    name = head.split(" ")[-1].rpartition("::")[2] or head
    return name, template[:_MOST_TEMPLATE], [part.strip() for part in _list_of(arguments) if part.strip()]


def _cut(text: str, opening: str, closing: str) -> tuple[str, str]:
    """Return what stands before the last pair of brackets that ends a text, and what stands in it."""
    depth = 0
    if text.endswith(closing):
        for place in range(len(text) - 1, -1, -1):
            depth += (text[place] == closing) - (text[place] == opening)
            if depth == 0:
                return text[:place], text[place + 1 : -1]
    return text, ""


def _list_of(text: str) -> Iterator[str]:
    """Yield the parts between the commas of a text that stand in no brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part
