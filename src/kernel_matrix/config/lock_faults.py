"""Why a lock is not what a kind of machine can be installed from. Nothing asks a network: builds.toml is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from kernel_matrix.config import locks
from kernel_matrix.config.model import Matrix
from kernel_matrix.vendors import builds


def lock_faults(matrix: Matrix, root: Path) -> Iterator[str]:
    """Yield the faults of all locks of a matrix, each after the name of its file."""
    for lock, kinds in locks.kinds_of(matrix).items():
        files = {locks.lock_file(root, lock, kind): kind for kind in kinds}
        has_kinds = root / lock not in files
        if has_kinds and (root / lock).is_file():
            yield f"{lock}: nothing is installed from it, as each kind of build has a lock of its own. Remove it."
        for kind in kinds:
            path = locks.lock_file(root, lock, kind)
            name = path.relative_to(root).as_posix()
            yield from (f"{name}: {fault}" for fault in _of_file(path, kind, with_gpu=len(kinds) > 1, lock=lock))


def outdated(matrix: Matrix, root: Path, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each of these locks whose requirements have changed since: a run takes it as it is."""
    for lock, kinds in locks.kinds_of(matrix).items():
        if lock not in names:
            continue
        files = {path for kind in kinds if (path := locks.lock_file(root, lock, kind)).is_file()}
        origins = ((locks.origin_of(path.read_text(encoding="utf-8")), locks.source_of(path)) for path in files)
        if changed := sorted(source.name for origin, source in origins if _is_of_others(origin, source)):
            yield (
                f"{lock}: {changed[0]} has changed since it was made, and the versions of the lock are taken. "
                f"Make it anew: `kernel-matrix lock {Path(lock).stem}`"
            )


def _is_of_others(origin: locks.Origin | None, source: Path) -> bool:
    """Return whether a lock says that it was made from other requirements than those of today."""
    if not origin or not source.is_file():
        return False
    return (origin.source, origin.digest) != (source.name, locks.digest_of(source))


def _of_file(path: Path, kind: str, *, with_gpu: bool, lock: str) -> Iterator[str]:
    remedy = f"Make it: `kernel-matrix lock {Path(lock).stem}`"
    if not path.is_file():
        yield f"there is no such file, and a platform installs the builds for {kind} from it. {remedy}"
        return
    text = path.read_text(encoding="utf-8")
    origin, source = locks.origin_of(text), locks.source_of(path)
    if origin and origin.kind not in ("", kind):
        yield f"it was made for {origin.kind}, and not for {kind}. {remedy}"
    if origin and not source.is_file():
        yield f"{origin.source}, which it was made from, is not there."
    elif _is_of_others(origin, source):
        yield f"{source.name} is not what it was made from. {remedy}"
    if floating := locks.floating_in(text):
        yield f"it does not pin {', '.join(floating)}"
    for name, versions in locks.twice_in(text).items():
        yield f"it pins {name} {len(versions)} times: {', '.join(versions)}. {remedy}"
    yield from faults_of(locks.pins_in(text), kind, with_gpu=with_gpu)


def faults_of(pins: Mapping[str, str], kind: str, *, with_gpu: bool = False) -> Iterator[str]:
    """Yield why these pins cannot be installed with a kind of builds, or do not say all that comes with it.

    ``with_gpu``: the same toolchain is installed on machines with a GPU too, whose versions these should be.
    """
    yield from _of_one_folder(pins, kind)
    named = builds.distribution()
    if (version := pins.get(named)) is None:
        return
    said = f"{named} {version} for {kind}"
    if builds.is_of_another(version, kind):
        yield f"{named} {version} is no build for {kind}"
        return
    requirements = builds.requirements_of(kind, version)
    if "+" in version and kind == builds.LEADER:  # of all builds for CUDA it is known which Triton they ask for
        requirements = tuple(one for one in requirements or () if one.name in builds.tritons()) or None
    if requirements is None:
        yield f"nobody has written down what {said} asks for. `kernel-matrix doctor` asks its index, where it answers"
        return
    for one in requirements:
        name = canonicalize_name(one.name)
        if name in pins and not one.specifier.contains(pins[name], prereleases=True):
            yield f"{said} asks for {one.name}{one.specifier}, and the lock pins {pins[name]}"
    brought = [(name, one) for one in requirements if one.marker is None for name in builds.brought_by([one])]
    lacking = dict.fromkeys(name for name, _ in brought if name not in pins)
    exact = {name: f"{name}{one.specifier}" if canonicalize_name(one.name) == name else name for name, one in brought}
    if lacking:
        yield f"{said} brings {', '.join(exact[name] for name in lacking)}, and the lock does not pin {_them(lacking)}"
    if kind == builds.CPU and with_gpu:
        yield from _of_who_has_a_gpu(pins, version)


def _them(lacking: Mapping[str, None]) -> str:
    return "it" if len(lacking) == 1 else "them"


def _of_one_folder(pins: Mapping[str, str], kind: str) -> Iterator[str]:
    """Yield the distributions that write over each other: no installer sees that."""
    version = pins.get(builds.distribution(), "")
    of_build = next((one.name for one in builds.added_by(kind, version) or () if one.name in builds.tritons()), None)
    pinned = [name for name in builds.tritons() if name in pins]
    for name in pinned:
        other = of_build or pinned[0]
        if name != other:
            brings = f", which {builds.distribution()} for {kind} brings" if other == of_build else ""
            yield f"{name} writes the same folder as {other}{brings}"


def _of_who_has_a_gpu(pins: Mapping[str, str], version: str) -> Iterator[str]:
    """Yield that a machine without a GPU would test another Triton than a machine with one has."""
    triton = builds.triton_of(builds.LEADER, version)
    if triton.name in pins and not triton.specifier.contains(pins[triton.name], prereleases=True):
        yield (
            f"a CPU would test {triton.name} {pins[triton.name]}; who has {builds.distribution()} {version} for a GPU "
            f"has {triton.name}{triton.specifier}"
        )


def lock_differences(matrix: Matrix, root: Path) -> Iterator[str]:
    """Yield for each lock what who has no GPU tests in another version than who has one."""
    for lock, kinds in locks.kinds_of(matrix).items():
        files = {kind: path for kind in kinds if (path := locks.lock_file(root, lock, kind)).is_file()}
        cpu = locks.pins(files[builds.CPU]) if builds.CPU in files else {}
        for kind, path in files.items():
            pins = locks.pins(path)
            other = [
                f"{name} {version} ({cpu[own]})"
                for name, version in pins.items()
                for own in [builds.triton_among(cpu) if name in builds.tritons() else name]
                if own in cpu and cpu[own] != version
            ]
            if other:
                named = Path(lock).stem
                yield f"{named}: on a GPU ({kind}) are other versions than on a CPU (in brackets): {', '.join(other)}."


def overwritten(pins: Mapping[str, str], kind: str) -> str:
    """Return which distributions of an environment would write over each other; empty if none do."""
    return "; ".join(_of_one_folder(pins, kind))
