"""Compile the launches of published packages, and compare what fails with what is kept: python ci/worked_examples.py.

``examples/launches/expected.yaml`` has for each package its script, the options, the number of cases, and every error
by stage, kernel and target with the number of cases that have it. A difference is a failure either way: an error that
is gone is taken out of the file as one that has come is looked at. ``--write`` writes what was found.

Exit status: 0 nothing differs, 1 something does, 2 the input cannot be used.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kernel_matrix.store.load import collect

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "launches"
EXPECTED = EXAMPLES / "expected.yaml"
INPUT_CANNOT_BE_USED = 2
_HEADER = """\
# What the launches of published packages do, written by `ci/nox -s worked-examples -- --write`. `errors` are the cases
# of each kernel on each target that fail, by stage. ci/worked_examples.py compares a new run with this file.
"""

Found = dict[str, Any]


def main(words: Sequence[str]) -> int:
    """Run the packages that are named, or all, and return the exit status."""
    options = _options(words)
    kept = _yaml().load(EXPECTED.read_text(encoding="utf-8"))
    unknown = [name for name in options.packages if name not in kept]
    if unknown:
        print(f"{', '.join(unknown)}: {EXPECTED} does not have this. It has {', '.join(kept)}.", file=sys.stderr)
        return INPUT_CANNOT_BE_USED
    differences = []
    for name in options.packages or list(kept):
        if not options.read:
            _run(options.python, kept[name], options.build / name)
        found = found_in(options.build / name / "launches" / "results")
        differences += [f"{name}: {sentence}" for sentence in compare(kept[name], found)]
        kept[name].update(found)
    if options.write:
        _write(EXPECTED, kept)
    print("\n".join(differences) or "every kernel does on every target what it is expected to do")
    return int(bool(differences) and not options.write)


def _write(path: Path, kept: Mapping[str, Any]) -> None:
    """Write the file. Entries that were read from it have its header already, as the comment before the first one."""
    text = io.StringIO()
    _yaml().dump(kept, text)
    path.write_text(_HEADER + text.getvalue().removeprefix(_HEADER), encoding="utf-8")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the launches of published packages with what is kept.")
    parser.add_argument("packages", nargs="*", help="these only")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the packages")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "worked-examples", help="where results are")
    parser.add_argument("--write", action="store_true", help="write what was found")
    parser.add_argument("--read", action="store_true", help="compare the results that are there, and run nothing")
    return parser.parse_args(words)


def _run(python: str, entry: Mapping[str, Any], build: Path) -> None:
    """Run the command of the documentation. Its exit status says that something is red, which is compared here."""
    shutil.rmtree(build / "launches", ignore_errors=True)  # a run that ends early must not leave former results
    command = [sys.executable, "-m", "kernel_matrix", "launches", "--build", str(build), *map(str, entry["options"])]
    subprocess.run([*command, "--", python, str(EXAMPLES / entry["script"])], check=False)


def found_in(folder: Path) -> Found:
    """Return the number of cases in a folder of results, and the errors among them.

    A folder without results has none: the program ended before its first launch.
    """
    records = collect([folder]).records if folder.exists() else ()
    counts: Counter[tuple[str, str, str]] = Counter()
    for record in records:
        if record.outcome != "pass":
            _, target, _, op, _ = record.case.split("/", 4)
            counts[record.stage or record.outcome, op.partition(".")[0], target] += 1
    errors: dict[str, dict[str, dict[str, int]]] = {}
    for (stage, op, target), count in sorted(counts.items()):
        errors.setdefault(stage, {}).setdefault(op, {})[target] = count
    return {"cases": len(records), "errors": errors}


def compare(kept: Mapping[str, Any], found: Found) -> Iterator[str]:
    """Yield a sentence for each number that is another one now."""
    if kept["cases"] != found["cases"]:
        yield f"{found['cases']} cases were compiled, and {kept['cases']} are expected"
    before, now = dict(_flat(kept["errors"])), dict(_flat(found["errors"]))
    for key in sorted({*before, *now}):
        if before.get(key, 0) != now.get(key, 0):
            stage, op, target = key
            yield f"{op} on {target}: {now.get(key, 0)} errors in stage {stage}, and {before.get(key, 0)} are expected"


def _flat(errors: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], int]]:
    for stage, ops in errors.items():
        for op, targets in ops.items():
            for target, count in targets.items():
                yield (stage, op, target), count


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.width = 120
    return yaml


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
