"""Each fault of a matrix.yaml is one line: where it is, what it is, and what to do."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from common import END, ROOT, Doubles

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.load import load, load_and_plan, schema
from kernel_matrix.config.model import Exclusion
from kernel_matrix.config.plan import plan


def test_a_lock_that_can_be_made_is_answered_with_the_command_that_makes_it(doubles: Doubles):
    doubles.edit("backend: good, lock: lock.txt", "backend: good, lock: locks.txt")
    (doubles.root / "locks.in").write_text("numpy\n")
    with pytest.raises(UserError, match=r"does not exist\. Make it: `kernel-matrix lock locks`"):
        load(doubles.root / "matrix.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    runner:", "    runnner:", "matrix.yaml:27: platforms.here.runnner: unknown key 'runnner'. Did you mean 'runner'?"),
        ("targets: [any]", "targets: [any, any]", "platforms.here.targets[1]: 'any' is here twice, so its cells would be too"),
        ("toolchains: [good,", "toolchains: [good, good,", "'good' is here twice for any, so its cells would be too"),
        ("toolchains: [good,", "toolchains: [goood,", "unknown toolchain 'goood'. Did you mean 'good'?"),
        ("tokens: [1, 2, 3]", "tokens: [1, 2, 2]", "the case 'tokens2' is here twice"),
        ("axes: [tokens]", "axes: [tokens]\n    outputs: { forward: [out] }\n    sums: [outt]", "ops.double.sums[0]: unknown output 'outt'. Did you mean 'out'?"),
        ("axes: [tokens]", "axes: [tokens]\n    sums: [out, out]", "ops.double.sums"),
        ("tokens: [1, 2, 3]", "tokns: [1, 2, 3]", "unknown axis 'tokns'. Did you mean 'tokens'?"),
        ("backend: good, lock: lock.txt", "backend: good, lock: lokc.txt", "toolchains.good.lock: the lock file 'lokc.txt' does not exist. Did you mean 'lock.txt'?"),
        ("toolchains: [good,", "toolchains: [{ toolchain: good, lock: lokc.txt },", "platforms.here.toolchains[0].lock: the lock file 'lokc.txt' does not exist. Did you mean 'lock.txt'?"),
        ("backend: good, lock: lock.txt", "backend: good, uses: [wrnog], lock: lock.txt", "toolchains.good.uses[0]: unknown backend 'wrnog'. Did you mean 'wrong'?"),
        ("backend: good, lock: lock.txt", "backend: good, kernel: 'doubles:{opp}', lock: lock.txt", "toolchains.good.kernel: unknown word 'opp'. Did you mean 'op'?"),
        ("backend: good, lock: lock.txt", "backend: good, kernel: 'doubles:f{', lock: lock.txt", "toolchains.good.kernel: a brace stands alone."),
        ("backend: good, lock: lock.txt", "backend: good, ops: [double.forwards], lock: lock.txt", "unknown op 'double.forwards'. Did you mean 'double.forward'?"),
        ("factor: { limit: 4", "factor: { limit: four", "matrix.yaml:4: accuracy.factor.limit: this should be a valid number"),
        ("factor: { limit: 4", "factor: { limit: 0.5", "accuracy.factor.limit: this should be greater than or equal to 1"),
        ("device: cpu", "device: gpu", "this should be 'cpu', 'google', "),
        ("source: src", "source: source", "package.source: the folder 'source' does not exist"),
        ("requires: [numpy]", "requires: ['numpy>>1']", "'numpy>>1' is not a requirement"),
        ("requires: [numpy]", "python: 'of today'", "Invalid specifier: 'of today'. Write '>=3.11,<3.13'"),
        ("directions: [forward]", "directions: [backward]", "accuracy.caps has no cap for 'backward'"),
        ("directions: [forward]\n", "directions: [forwards]\n", "ops.double.directions[0]: unknown direction 'forwards'. Did you mean 'forward'?"),
        ("ops:", "ops:\nops:", 'found duplicate key "ops"'),
        ("device: cpu", "device: cpu\n    driver: new", "platforms.here.driver: String should match pattern"),
        ("suite: suite", "suite: suite, preflight: ill.py", "package.preflight: the script 'ill.py' does not exist"),
        ("suite: suite", "suite: suite, rules: none.yaml", "package.rules: the file 'none.yaml' does not exist"),
        *(
            ("limits:", f"expectations: [{{ where: {{ tokens: 2 }}, outcome: fail, match: '{pattern}', reason: a reason of some length, {{END}} }}]\nlimits:", f"this is not a regular expression: '{part}' is nothing that RE2 has")
            for pattern, part in (("(?=ab)abcdef", "(?="), ("(?<!ab)cdef", "(?<!"), (r"(ab)cd\1", r"\1"), ("abcd++", "++"))
        ),
        ("limits:", "container: { memory: 0 }\nlimits:", "container.memory: this should be greater than 0"),
        ("package: {", "package: [", "Correct the YAML at this line"),
        ("limits:", "exclusions: [{ where: { toolchain: goood }, reason: a reason of some length, {END} }]\nlimits:", "unknown toolchain 'goood'. Did you mean 'good'?"),
        ("limits:", "expectations: [{ where: { tokens: 2 }, outcome: error, match: launch, reason: a reason of some length, {END} }]\nlimits:", "an error names its stage"),
        ("limits:", "expectations: [{ where: { tokens: 2 }, outcome: fail, match: '(((((', reason: a reason of some length, {END} }]\nlimits:", "this is not a regular expression"),
        ("factor: { limit: 4, source: chosen for the tests of the harness }", "factor: { limit: 4 }", "accuracy.factor: 'source' is missing. Add it."),
        ("forward: { limit: 1.0e-2, source: chosen for the tests of the harness }", "forward: 1.0e-2", "accuracy.caps.forward"),
        ("source: chosen for the tests of the harness }", "source: measured }", "accuracy.factor.source: String should have at least 20 characters"),
        *(
            ("limits:", "exclusions: [{ where: { tokens: 2 }, reason: a reason of some length, " + rest + " }]\nlimits:", message)
            for rest, message in (
                ("link: lock.txt, until: 2027-11-22", "exclusions[0]: 'owner' is missing. Add it."),
                ("owner: tests, until: 2027-11-22", "exclusions[0]: 'link' is missing. Add it."),
                ("owner: tests, link: lock.txt", "exclusions[0]: 'until' is missing. Add it."),
                ("owner: tests, link: lock.txt, until: never", "exclusions[0].until: this should be a date such as 2027-11-22, or a version that ends it such as 'name>=1.2', and it is 'never'"),
                ("owner: tests, link: lock.txt, until: '2027-02-30'", "exclusions[0].until: this should be a date"),
                ("owner: tests, link: lock.txt, until: numpy", "exclusions[0].until: this should be a date"),
                ("owner: tests, link: nowhere.md, until: 2027-11-22", "exclusions[0].link: the file 'nowhere.md' does not exist"),
                ("owner: tests, link: lock.txt, until: nunpy>=3", "exclusions[0].until: 'nunpy>=3' could never end it: 'nunpy' is in the lock of none of its toolchains"),
            )
        ),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_line(doubles: Doubles, old, new, message):
    doubles.edit(old, new.replace("{END}", END))
    with pytest.raises(UserError) as caught:
        load(doubles.root / "matrix.yaml")
    assert message in str(caught.value)
    assert all(line.startswith("matrix.yaml:") for line in str(caught.value).splitlines())


def aliases(lines: int) -> str:
    """Return a list of ten, and lists that name the list before ten times each."""
    first = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n"
    return first + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, lines))


SERIES = f"[{', '.join(map(str, range(300)))}]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("limits:", "# \udce9\nlimits:", "matrix.yaml:2: this is no text in UTF-8. Save the file in UTF-8."),
        ("limits:", "\0limits:", "matrix.yaml:2: special characters are not allowed. Take them out."),
        ("limits:", "x: " + "[" * 10_000 + "\nlimits:", "matrix.yaml:2: there are more than 40 levels. "),
        ("limits:", "x: " + "x" * 2**20 + "\nlimits:", "bytes, and 1048576 is the most. Take some out."),
        ("limit: 4,", f"limit: {'9' * 5000},", "matrix.yaml:4: Exceeds the limit (4300 digits) for integer"),
        ("tokens: [1, 2, 3]", f"tokens: [{'9' * 400}]", "this number has more than 64 bits. Correct the YAML at this"),
        ("limits:", "x: 2001-99-99\nlimits:", "matrix.yaml:2: month must be in 1..12"),
        ("ops:\n", "ops: &o\n  <<: *o\n", "matrix.yaml:32: this alias stands inside of the value that it names. Correct"),
        ("[any]", "&a [*a]", "this alias stands inside of the value that it names."),
        ("limits:", f"{aliases(10)}limits:", "there are more than 100000 values, each alias counted."),
        ("limit: 4,", "limit: .inf,", "accuracy.factor.limit: this should be a finite number, and it is inf"),
        (
            "axes: [tokens]",
            f"axes: [tokens, a, b]\n    defaults: {{ a: 1, b: 1 }}\n    timed: [{{ tokens: {SERIES}, a: {SERIES}, b: {SERIES} }}]",
            "ops.double.cases: its cases in all cells are up to",
        ),
    ],
)  # fmt: skip
def test_a_hostile_matrix_is_one_sentence_in_a_second(doubles: Doubles, old, new, message):
    path = doubles.root / "matrix.yaml"
    text = path.read_text()
    assert old in text
    path.write_bytes(text.replace(old, new, 1).encode(errors="surrogateescape"))
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        load(path)
    assert time.process_time() - began < 2
    [line] = str(caught.value).splitlines()
    assert line.startswith("matrix.yaml:")
    assert message in line


def expecting(doubles: Doubles, toolchain: str, version: str) -> None:
    """Expect a failure of a toolchain that has a version."""
    where = f"where: {{ toolchain: {toolchain} }}, outcome: fail, match: launch, reason: a reason of some length, {END}"
    doubles.edit("limits:", f"expectations: [{{ {where}, versions: ['{version}'] }}]\nlimits:")


@pytest.mark.parametrize(
    ("requires", "version", "message"),
    [
        ("numpy", "nunpy<3", "'nunpy<3' could never hold: 'nunpy' is in the lock of none of its toolchains (good). Did you mean 'numpy'?"),
        ("numpy==2.4.6", "numpy<2", "'numpy<2' could never hold: good has 2.4.6, and 'requires' allows no other"),
    ],
)  # fmt: skip
def test_versions_that_no_environment_can_have_are_a_fault(doubles: Doubles, requires, version, message):
    doubles.edit(
        "{ backend: good, lock: lock.txt, requires: [numpy]",
        f"{{ backend: good, lock: lock.txt, requires: ['{requires}']",
    )
    expecting(doubles, "good", version)
    with pytest.raises(UserError) as caught:
        load(doubles.root / "matrix.yaml")
    assert f"expectations[0].versions[0]: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("requires", "version"),
    [
        ("numpy==2.4.6", "numpy<3"),  # the version in the lock
        ("numpy", "numpy<2"),  # a provisioned interpreter may have it
        ("numpy==2.*", "numpy<2.2"),
        ("numpy", "Ml_Dtypes<1"),  # the lock writes ml-dtypes
    ],
)
def test_versions_that_some_environment_can_have_are_none(doubles: Doubles, requires, version):
    doubles.edit(
        "{ backend: good, lock: lock.txt, requires: [numpy]",
        f"{{ backend: good, lock: lock.txt, requires: ['{requires}']",
    )
    expecting(doubles, "good", version)
    assert load(doubles.root / "matrix.yaml").expectations[0].versions == [version]


def test_the_checked_plan_is_kept(doubles: Doubles):
    checked = load_and_plan(doubles.root / "matrix.yaml")
    assert checked.full == plan(checked.matrix, "full")


def test_a_project_takes_the_checked_plan_for_its_own_matrix_alone(doubles: Doubles):
    project = pipeline.load(doubles.root / "matrix.yaml")
    assert pipeline.plan(project, "full") is pipeline.plan(project, "full")
    exclusion = Exclusion(
        where={"tokens": 2}, reason="a reason of some length", owner="the tests", link="lock.txt", until="numpy>=99"
    )
    other = replace(project, matrix=project.matrix.model_copy(update={"exclusions": [exclusion]}))
    assert any(case.exclusion for case in pipeline.plan(other, "full").cases)


def test_a_platform_makes_its_long_form_once(doubles: Doubles):
    platform = doubles.matrix.platforms["here"]
    assert platform.entries is platform.entries
    assert platform.by_toolchain["hang"].toolchain == "hang"


def test_one_misspelt_key_is_one_line(doubles: Doubles):
    doubles.edit("    runner:", "    runnner:")
    with pytest.raises(UserError) as caught:
        load(doubles.root / "matrix.yaml")
    assert len(str(caught.value).splitlines()) == 1


def test_a_matrix_that_is_not_there_is_said_so(tmp_path: Path):
    with pytest.raises(UserError, match="there is no such file"):
        load(tmp_path / "matrix.yaml")


def test_the_published_schema_is_the_model_s():
    published = (ROOT / "matrix.schema.json").read_text()
    assert published == schema(), "write it anew: ci/kernel-matrix check --schema > matrix.schema.json"
    assert json.loads(published)["additionalProperties"] is False


def test_a_target_that_no_entry_uses_is_named(doubles: Doubles):
    doubles.edit("targets: [any]", "targets: [any, other]")
    load(doubles.root / "matrix.yaml")
    path = doubles.root / "matrix.yaml"
    text = path.read_text()
    names = text.partition("toolchains: [")[2].partition("]")[0].replace("\n", " ").split(",")
    entries = ", ".join(f"{{ toolchain: {name.strip()}, targets: [any] }}" for name in names)
    begin, _, rest = text.partition("    toolchains: [good")
    path.write_text(f"{begin}    toolchains: [{entries}]\n{rest.partition(']')[2].lstrip()}")
    with pytest.raises(UserError, match=r"targets\[1\]: no entry of 'toolchains' uses 'other', so it has no cell"):
        load(path)
