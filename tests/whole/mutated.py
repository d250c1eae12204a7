"""Make a matrix whose toolchains have known faults, to see what its page says of them.

    PYTHONPATH=src python tests/whole/mutated.py FOLDER

The folder gets a copy of the kernel package and of its suite. Each fault is one edit: in a backend that is otherwise
the reference's equations, or in the comparison of one backend. ``matrix.yaml`` is the project's with a few small cases,
and with these toolchains in addition to the right ones.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
RIGHT = ("reference", "tvm-0.27")  # of the project, as they are
PARTS = (
    "src/mhc",
    "tests/mhc",
    "ci/locks",
    "ci/preflight.py",
    "probes/diagnosis.yaml",
    "probes/makers.yaml",
)


@dataclass(frozen=True)
class Edit:
    """``old``, which stands once in a file, becomes ``new``."""

    file: str
    old: str
    new: str

    def make(self, folder: Path) -> None:
        """Edit the file in the folder.

        Raises:
            ValueError: the text does not stand there exactly once.
        """
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, and not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


# By toolchain: what is edited in its backend, a copy of the reference.
FAULTS = {
    "no-gamma": Edit("mhc_pre.py", "product(weighted(v, gamma), phi.T", "product(v, phi.T"),
    "extra-inv-rms2": Edit("read.py", "r.square() / v.shape[1]", "r.square() ** 2 / v.shape[1]"),
    # Parts of every product are added in another order each time, as by atomic additions.
    "random-order": Edit(
        "read.py",
        "    return a @ b\n",
        "    parts = [left @ right for left, right in zip(a.tensor_split(8, dim=1), b.tensor_split(8), strict=True)]\n"
        "    generator = torch.Generator()\n"
        "    generator.seed()\n"
        "    return sum(parts[place] for place in torch.randperm(8, generator=generator).tolist())\n",
    ),
}
# The kernel of this toolchain is right. Its comparison finds no fault in any numbers.
BLIND = "blind"
BLINDED = Edit(
    "tests/mhc/test_operators.py",
    '    """Return the checks of the kit that a case has not, with the reasons."""\n',
    '    """Return the checks of the kit that a case has not, with the reasons."""\n'
    '    if case.backend == "blind":\n'
    "        from kernel_matrix.job import accuracy\n\n"
    "        accuracy.Budget.faults = lambda self, errors: []\n",
)
WRONG = (*FAULTS, BLIND)
EQUATIONS = 'WITH_EQUATIONS = ("reference", "inductor")'

MAPPING = {"tokens": 7, "streams": 4, "hidden": 200}
CASES = {
    "mhc_pre": [{**MAPPING, "dtype": ["fp32", "bf16"], "scale": [1, 0.1]}],
    "sinkhorn": [{"tokens": 7, "streams": 4}],
}


def backend_of(toolchain: str) -> str:
    """Return the name of the folder of a toolchain with a fault."""
    return toolchain.replace("-", "_")


def make(folder: Path) -> None:
    """Make the matrix and a git repository of it, so that its results have a commit."""
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    for toolchain in WRONG:
        make_backend(folder / "src" / "mhc" / "backends", toolchain)
    names = ", ".join(f'"{backend_of(toolchain)}"' for toolchain in WRONG)
    for edit in (BLINDED, Edit("tests/mhc/constants.py", EQUATIONS, f"{EQUATIONS[:-1]}, {names})")):
        edit.make(folder)
    with (folder / "matrix.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(matrix(), file)
    (folder / ".gitignore").write_text("build/\n__pycache__/\n")
    author = ("-c", "user.name=tests", "-c", "user.email=tests@example.org")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "Toolchains with faults")):
        subprocess.run(["git", *command], cwd=folder, check=True)


def make_backend(backends: Path, toolchain: str) -> None:
    """Copy the reference under the name of the toolchain, and put its fault in if its kernel has one."""
    name = backend_of(toolchain)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(backends / "reference", backends / name, ignore=ignore)
    for path in (backends / name).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("mhc.backends.reference", f"mhc.backends.{name}"), encoding="utf-8")
    if fault := FAULTS.get(toolchain):
        fault.make(backends / name)


def matrix() -> dict[str, Any]:
    """Return the project's configuration for one platform and few cases, and add the wrong toolchains."""
    whole = YAML(typ="safe").load((ROOT / "matrix.yaml").read_text(encoding="utf-8"))
    package = {key: value for key, value in whole["package"].items() if key not in ("probes", "sweeps")}
    of_torch = {key: whole["toolchains"]["reference"][key] for key in ("lock", "requires")}
    toolchains = {name: dict(whole["toolchains"][name]) for name in RIGHT}
    for toolchain in toolchains.values():
        if "ops" in toolchain:
            toolchain["ops"] = [op for op in toolchain["ops"] if op in CASES]
    platform = dict(whole["platforms"]["cpu-llvm"])
    del platform["container"]
    entries = [entry if isinstance(entry, dict) else {"toolchain": entry} for entry in platform["toolchains"]]
    platform["targets"] = platform["machines"]  # no target that is emulated
    platform["toolchains"] = [
        entry for entry in entries
        if entry["toolchain"] in RIGHT and set(entry.get("targets", platform["targets"])) & set(platform["targets"])
    ]  # fmt: skip
    for name in WRONG:
        toolchains[name] = {"backend": backend_of(name), **of_torch}
        platform["toolchains"].append({"toolchain": name})
    ops = {}
    for op, cases in CASES.items():
        ops[op] = {key: value for key, value in whole["ops"][op].items() if key != "timed"}
        ops[op]["cases"] = {"quick": cases, "full": []}
    kept = ("limits", "accuracy")
    return {
        **{key: whole[key] for key in kept},
        "package": package,
        "toolchains": toolchains,
        "platforms": {"cpu-llvm": platform},
        "ops": ops,
    }


if __name__ == "__main__":
    make(Path(sys.argv[1]))
