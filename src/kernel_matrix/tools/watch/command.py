"""Compile what published packages launch with each release of Triton, and say what is news since the last time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.numbers import above_zero, whole
from kernel_matrix.base.words import some
from kernel_matrix.tools.launches.recording import Options
from kernel_matrix.tools.launches.versions import installed
from kernel_matrix.tools.watch import environment, kept, names, news, page, plan, rows


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the packages, the Python that has PyTorch, and where results are kept."""
    parser.add_argument("plan", type=Path, metavar="PACKAGES", help="packages.yaml")
    parser.add_argument("--python", required=True, help="a Python that has PyTorch and NumPy, and no Triton is needed")
    parser.add_argument("--only", nargs="+", default=[], metavar="PACKAGE", help="these packages only")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="what was found before (BUILD/watch/kept.xz)")
    parser.add_argument("--names", action="store_true", help="ask for names only, and compile nothing")
    parser.add_argument("--jobs", type=whole(1), default=2, help="how many compilers work at a time (2)")
    parser.add_argument("--seconds", type=above_zero, default=150, help="the time of one compilation (150)")
    parser.add_argument("--build", type=Path, default=Path("build"), help="where everything is written (build)")


@dataclass
class _Watch:
    """One run: the plan, the versions of today, and what is kept."""

    options: argparse.Namespace
    plan: plan.Plan
    newest: Mapping[str, str]
    versions: Mapping[str, str]
    file: Path  # of what is kept
    kept: kept.Kept
    started: int = 0

    @property
    def folder(self) -> Path:
        return Path(self.options.build).resolve() / "watch"

    @property
    def releases(self) -> list[str]:
        return environment.released(self.plan, self.newest)

    def pins(self, name: str) -> dict[str, Any]:
        """Return what a package is today: the versions of its distributions, or the digest of its checkout."""
        package = self.plan.packages[name]
        pins = environment.pins_of(name, package, self.newest)
        return {**pins, "program": rows.program_digest(package)}

    def key(self, name: str, release: str) -> str:
        """Return the key of what a package does with a release."""
        package = self.plan.packages[name].model_dump(exclude={"calls", "path"})
        targets = self.plan.targets
        parts = {"package": package, "pins": self.pins(name), "triton": release, "targets": targets}
        emulated = bool(self.plan.packages[name].emulate)
        return kept.key_of({**parts, "versions": self.versions}, emulated=emulated)

    def triton(self, release: str) -> Path:
        return installed(self.options.python, "triton", release, self.folder / "packages")

    def ran(self, name: str, release: str) -> rows.Ran:
        """Return what a package does with a release: as it is kept, or by running it now."""
        key = self.key(name, release)
        if (found := self.kept.result(name, release, key)) is not None:
            return found
        package, began = self.plan.packages[name], time.monotonic()
        self.started += 1
        folders, _ = environment.folders_of(self.options.python, name, package, self.newest, self.folder / "packages")
        options = Options(
            specialisations=package.launches,
            jobs=self.options.jobs,
            seconds=self.options.seconds,
            cache=self.folder / "cache",
            emulate=package.emulate,
            packages=(self.triton(release), *folders),
        )
        own = self.folder / "recorded" / f"{name}-{release}"
        found = rows.ran(self.options.python, package, self.plan.targets, options.packages, options, own)
        red = sum(row.outcome in ("error", "fail") for row in found.rows)
        seconds = time.monotonic() - began
        end = f"{len(found.rows)} compiled, {red} red" if found.rows else f"no launch: {found.fault}"
        print(f"{name} with triton {release}: {end} ({seconds:.0f} s)", flush=True)
        self.kept.keep(name, release, key, found)
        kept.write(self.file, self.kept)
        return found

    def names_gone(self, chosen: Sequence[str]) -> list[str]:
        """Return a line for each name of Triton that a release no longer has, and a package uses."""
        used = {}
        for name in chosen:
            key = kept.key_of({"names of": self.pins(name)})
            if key not in self.kept.used:
                package, packages = self.plan.packages[name], self.folder / "packages"
                folders, _ = environment.folders_of(self.options.python, name, package, self.newest, packages)
                self.kept.used[key] = names.used_in(folders[-1], environment.modules_in(folders[-1:]))
            used[name] = self.kept.used[key]
        every = sorted({one for places in used.values() for one in places})
        absent = {}
        for release in self.releases:
            key = kept.key_of({"names": every, "triton": release, "versions": self.versions})
            if key not in self.kept.names:
                self.kept.names[key] = names.absent_in(self.options.python, self.triton(release), every)
            absent[release] = self.kept.names[key]
        return list(names.gone(absent, used))


def main(options: argparse.Namespace) -> int:
    """Return 1 if a release breaks what it did not before and nobody has accepted, or a program launches nothing."""
    read = plan.read(options.plan)
    for name in options.only:
        if name not in read.packages:
            raise unknown("--only", f"package of {options.plan}", name, read.packages)
    file = options.kept or options.build / "watch" / "kept.xz"
    newest = environment.resolved(options.python, read)
    watch = _Watch(options, read, newest, environment.asked(options.python), file, kept.read(file))
    chosen = options.only or list(read.packages)
    gone = watch.names_gone(chosen)
    kept.write(file, watch.kept)
    if options.names and not gone:
        print(f"every name of Triton that {some(chosen)} use is there in {', '.join(watch.releases)}")
    for line in gone:
        print(line)
    if options.names:
        return 0
    found = _page(watch, chosen, gone)
    path = options.build / "watch" / "watch.md"
    write_atomically(path, page.markdown(found))
    for line in news.lines_of(found.news):
        print(line)
    print(f"{found.sentence}\npage: {path}")
    return int(bool(found.unknown) or any(one.key in found.new for one in found.broken))


def _page(watch: _Watch, chosen: Sequence[str], gone: list[str]) -> page.Page:
    """Do what is not kept, the newest release first, and return the page; each result is kept at once."""
    results: dict[str, dict[str, rows.Ran]] = {name: {} for name in chosen}
    for release in reversed(watch.releases):
        for name in chosen:
            try:
                results[name][release] = watch.ran(name, release)
            except UserError as error:
                results[name][release] = rows.Ran(fault=str(error).splitlines()[0])
    ordered = {name: {one: by[one] for one in watch.releases} for name, by in results.items()}
    every, compared, differ = list[news.News](), 0, 0
    for name, by in ordered.items():
        found, of_package, different = news.of_package(name, by)
        every, compared, differ = [*every, *found], compared + of_package, differ + different
    accepted = {one.key for one in every if _is_accepted(watch.plan, one)}
    new = frozenset(one.key for one in every if one.key not in watch.kept.told)
    watch.kept.told = sorted({*watch.kept.told, *(one.key for one in every)})
    kept.write(watch.file, watch.kept)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return page.Page(
        when, watch.versions, ordered, every, new, frozenset(accepted), gone, compared, differ, watch.started
    )


def _is_accepted(read: plan.Plan, one: news.News) -> bool:
    """Return whether every cell of a break is accepted."""
    today = datetime.now(UTC).date()
    cells = [cell.rsplit(" on ", 1) for cell in one.cells]
    return one.kind == "broke" and all(
        any(entry.covers(one.package, kernel, target, one.since, today) for entry in read.accepted)
        for kernel, target in cells
    )
