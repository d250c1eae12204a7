"""A person's results come as one signed file, stand as their word, and change nothing that the project says itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from common import copy_doubles, harness, write_results
from judges import audited
from together import first_are_quick

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project
from kernel_matrix.send import account, sending
from kernel_matrix.store import journal, signed_file, signing, told_results
from kernel_matrix.store.load import collect
from kernel_matrix.store.pack import pack
from kernel_matrix.store.record import TOLD_BY, Record, identity
from kernel_matrix.store.signed_file import Signed
from kernel_matrix.store.validation import Bounds
from kernel_matrix.vendors.machine import detect

COMMIT = "0123456789ab"
pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="apt-get install openssh-client")


class Sent(NamedTuple):
    """The folder with the doubles, and in ``folder`` the keys of alice and eve and the file that alice has sent."""

    root: Path
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "sent.txt"

    @property
    def keys(self) -> Path:
        return self.folder / "alice.pub"


@pytest.fixture(scope="module")
def sent(tmp_path_factory, bytecode) -> Sent:
    """Let alice run a kernel that is right and one that is wrong, with a Python that has no DuckDB and no pyarrow."""
    folder = tmp_path_factory.mktemp("sent")
    doubles = copy_doubles(folder / "doubles", bytecode)
    doubles.edit("case: 15,", "case: 60,")
    doubles.edit("targets: [any]", f"targets: [{detect().devices[0].targets[-1]}]")
    for name in ("alice", "eve"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    words = ("--matrix", str(doubles.root / "matrix.yaml"), "--platform", "here", "--executor", "current")
    chosen = ("--toolchain", "good", "--toolchain", "wrong", "--key", str(folder / "alice"), "--to")
    bare = "import sys; sys.modules |= {'pyarrow': None, 'duckdb': None}; from kernel_matrix import cli; cli.main()"
    command = [sys.executable, "-c", bare, "send", "--as", "alice", *words, *chosen, str(folder / "sent.txt")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "KERNEL_MATRIX_COMMIT": COMMIT}
    )
    assert "1 fail, 5 pass, signed with SHA256:" in done.stdout, done.stdout + done.stderr
    shutil.rmtree(doubles.root / "build")
    return Sent(doubles.root, folder)


@pytest.fixture
def project(sent, tmp_path) -> Project:
    shutil.copytree(sent.root, tmp_path / "copy", symlinks=True)
    shutil.copy(sent.file, tmp_path / "sent.txt")
    return pipeline.load(tmp_path / "copy" / "matrix.yaml")


def taken(project: Project, sent: Sent, *words: str, by: str = "alice", file: Path | None = None):
    where = ("--matrix", str(project.file), "--keys", str(sent.keys))
    return harness("take", "--from", str(file or sent.file), "--by", by, *where, *words)


def reported(project: Project) -> tuple[dict[str, object], list[str]]:
    """Return the report of this machine's results, and what the audit says of it."""
    planned = pipeline.plan(project, "quick")
    with judging.judged(project, planned, [project.results]) as judged:
        write_dashboard(project, judged)
    return json.loads((project.site / "compat.json").read_text()), audited(project, planned)


def of_alice(project: Project, toolchain: str) -> list[Record]:
    """Return alice's records of a kernel."""
    [path] = project.results.glob(f"told/*/journals/here.{toolchain}-*.jsonl")
    return journal.read(path, Bounds())


def own_results(project: Project, toolchain: str, *records: Record) -> None:
    """Write results of the project's own machine, with the facts of alice's job."""
    job = of_alice(project, toolchain)[0].job
    facts = {name: value for name, value in job.items() if not name.startswith("told.")}
    write_results(project.results, [replace(record, job=facts) for record in records])


def states(project: Project, toolchain: str) -> list[str]:
    with judging.judged(project, pipeline.plan(project, "quick"), [project.results]) as judged:
        return [one.state for one in judged.verdicts() if one.case.cell.toolchain == toolchain]


@pytest.mark.slow
def test_a_run_that_passed_elsewhere_is_told_and_counts_in_no_figure_of_the_project(project, sent):
    done = taken(project, sent)
    assert done.returncode == 0, done.stdout + done.stderr
    shown, differences = reported(project)
    assert differences == []
    cells = {cell["toolchain"]: cell for cell in shown["cells"]}
    good, wrong = cells["good"], cells["wrong"]
    assert (good["state"], good["evidence"], good["noise"], good["canaries"]) == ("told", "told", {}, None)
    fingerprint = signing.fingerprint_of(sent.keys)
    assert good["reason"].startswith("alice says that it ran and passed on ")
    assert fingerprint in good["reason"]
    assert f"at commit {COMMIT}, " in good["reason"]
    assert wrong["cases"] == {"missing": 1, "told": 2}, (
        "nobody's word makes the project red or says that its kernel is wrong"
    )
    assert shown["run"]["devices"] == shown["run"]["commits"] == []
    assert "ran" not in shown["run"]["cells_by_evidence"]
    assert not shown["jobs"]
    assert not any(shown["agreement"].values())
    assert json.loads((project.site / "badges" / f"here.{good['target']}.good.json").read_text())["color"] == "#6e7781"
    assert collect([project.results], {}).broken == (), "no plan of the project asks for it, and none refuses it"
    [note] = [note for note in shown["notes"] if note.startswith("alice")]
    assert f"key {fingerprint}" in note
    assert "sent 6 cases" in note
    assert ": 1 fail, 5 pass. This word stands in 5 of them" in note


@pytest.mark.slow
def test_a_word_hides_nothing_red_and_no_run_of_the_project(project, sent):
    assert taken(project, sent).returncode == 0
    first, second, third = (record.case for record in of_alice(project, "good"))
    artifact = {"metrics": {"artifact.bytes": 9.0}, "facts": {"artifact.kind": "cubin"}}
    own_results(
        project,
        "good",
        Record(first, "unavailable", message="no device"),
        Record(second, "pass", "compile", **artifact),
        Record(third, "error", "compile", "compile", "it does not compile"),
    )
    assert reported(project)[1] == []
    assert states(project, "good") == ["told", "told", "error"]
    shutil.rmtree(project.results / "jobs")
    own_results(
        project, "good", *(Record(case, "missing", message="the machine died") for case in (first, second, third))
    )
    assert states(project, "good") == ["missing"] * 3


@pytest.mark.slow
def test_where_the_project_ran_a_case_a_word_changes_nothing(project, sent):
    assert taken(project, sent).returncode == 0
    for toolchain in ("good", "wrong"):
        own_results(project, toolchain, *of_alice(project, toolchain))
    (project.results / "told").rename(project.root / "told")
    without, _ = reported(project)
    (project.root / "told").rename(project.results / "told")
    shown, differences = reported(project)
    assert differences == []
    assert {cell["state"] for cell in shown["cells"] if cell["toolchain"] == "good"} == {"pass"}
    assert shown.pop("notes") != without.pop("notes")
    for report in (shown, without):
        report["run"].pop("created")
        report["silent"] = [{**lane, "silent_since": ""} for lane in report["silent"]]
        report["lanes"] = [{**lane, "history": ""} for lane in report["lanes"]]
    assert shown == without


@pytest.mark.slow
def test_a_word_about_other_code_is_stale(project, sent):
    assert taken(project, sent).returncode == 0
    suite = next((project.root / "suite").glob("test_*.py"))
    suite.write_text(f"{suite.read_text()}\nMORE = 1\n")
    shown, differences = reported(project)
    assert differences == []
    [good] = [cell for cell in shown["cells"] if cell["toolchain"] == "good"]
    assert (good["state"], good["stale_cases"]) == ("told", 3)


def test_a_file_in_which_any_bit_is_another_is_refused(project, sent, tmp_path):
    whole = sent.file.read_bytes()
    start = whole.index(b"{")
    file = tmp_path / "edited.txt"
    for at in (*range(0, start, 23), start - 2, *range(start, len(whole), len(whole) // 40), len(whole) - 1):
        for bit in (1, 32):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            done = taken(project, sent, file=file)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), (at, done.stderr)
    for other in (whole[:-1], whole + b"\n", b"", whole.replace(b"SIGNATURE-----\n", b"SIGNATURE-----\n\n", 1)):
        file.write_bytes(other)
        assert taken(project, sent, file=file).returncode == 2
    assert not (project.results / "told").exists()


def test_only_a_key_of_the_account_counts_and_a_file_is_taken_once(project, sent, monkeypatch):
    def refused(words: str, **given: str) -> None:
        done = taken(project, sent, **given)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr

    refused("alice has made it, and not eve", by="eve")
    keys = sent.keys.read_text()
    monkeypatch.setattr(Sent, "keys", project.root / "keys")
    for text, words in (
        ((sent.folder / "eve.pub").read_text(), "no key of alice has signed it"),
        (f"eve {keys}", "alice has no SSH key there"),
        ("", "alice has no SSH key there"),
    ):
        (project.root / "keys").write_text(text)
        refused(words)
    (project.root / "keys").write_text(f"# signers\neve,alice {keys}")
    assert taken(project, sent).returncode == 0
    refused("this file was taken already")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('valid-before="20200101"', "expired"),
        ('valid-after="20900101"', "not yet valid"),
        ('namespaces="git,file"', ""),
        ("cert-authority", ""),
        ('cert-authority,namespaces="kernel-matrix-results"', ""),
        ('namespaces="kernel-matrix-results",valid-before="20200101"', "expired"),
        ("no-such-option", ""),
        ('valid-before="when"', ""),
        ('valid-after="20200101",valid-before="20900101"', None),
        ('namespaces="kernel-matrix-*"', None),
        ("", None),
    ],
)
@pytest.mark.slow
def test_the_options_of_an_allowed_signers_line_hold(sent, options, reason):
    signed, key = signed_file.read(sent.file), sent.keys.read_text().strip()
    for whom in ("alice", "eve,alice", "al*", '"alice,eve"'):
        signers = list(signing.signers_in(f"# who\n{whom} {options} {key}\r\n", "alice"))
        found, why = signing.signed_by_one_of(signed.content, signed.signature, "alice", signers)
        assert (found == signed.inventory.key, bool(why)) == (reason is None, reason is not None), (whom, why)
        assert (reason or "") in why
    signers = list(signing.signers_in(f"!alice,* {options} {key}", "alice"))
    assert signing.signed_by_one_of(signed.content, signed.signature, "alice", signers)[0] == ""
    assert list(signing.signers_in(f"malice,{'*' if reason else 'bob'} {key}\n\n#alice {key}", "eve")) == (
        [f"malice,* {key}"] if reason else []
    )


def test_keys_that_cannot_be_fetched_are_one_sentence(monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", fails)
    with pytest.raises(UserError, match=r"alice\.keys: the keys cannot be read \(no route to host\)"):
        account.signers_of("alice")


@pytest.mark.parametrize("name", ["../../x-0123456789abcdef.jsonl", "/x-0123456789abcdef.jsonl", "a.parquet", ".."])
def test_a_signed_name_that_leads_elsewhere_is_refused(sent, tmp_path, name):
    signed = signed_file.read(sent.file)
    inventory = signed.inventory.model_copy(update={"files": {name: signed_file.File(bytes=1, sha256="0")}})
    content = signed_file.inventory_bytes(inventory)
    file = tmp_path / "sent.txt"
    file.write_bytes(Signed(signing.sign(content, sent.folder / "alice"), content, inventory, {name: b"x"}).bytes)
    with pytest.raises(UserError, match="a name that no account or no journal can have"):
        signed_file.read(file)


def test_signed_results_that_name_nobody_are_refused(project, sent, tmp_path):
    """Else they would stand as the project's own as soon as they lie in another folder."""
    signed = signed_file.read(sent.file)
    first = signed.journals[min(signed.journals)].replace(b'"told.by": "alice", ', b"")
    entries = [json.loads(line) for line in first.splitlines()]
    records = [journal.record_of(entry, entry["attempts"]) for entry in entries[1:]]
    name = f"here.good-{identity(entries[0]['facts'], records)}.jsonl"
    inventory = signed.inventory.model_copy(update={"files": signed_file.listed({name: first})})
    content = signed_file.inventory_bytes(inventory)
    file = tmp_path / "nobody.txt"
    file.write_bytes(Signed(signing.sign(content, sent.folder / "alice"), content, inventory, {name: first}).bytes)
    done = taken(project, sent, file=file)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "it does not say told.by as the inventory does that is signed" in done.stderr
    assert not list((project.results / "told").iterdir()), "nothing of it is left"


def test_folders_of_the_machine_are_not_sent(project, sent):
    root = str(project.root)
    job = {"job": "here.good", "note": f"{root}/lock.txt"}
    record = Record("a/b/c/d.forward/e", "error", message=root, detail=f"{root}/x.py: no", facts={"x": root}, job=job)
    made = sending.signed(project, [record], "alice", sent.folder / "alice", {root: "."})
    assert root.encode() not in made.bytes
    assert b'"./x.py: no"' in made.bytes


def by_eve(folder: Path, sent: Sent) -> None:
    """Sign the inventory with another key."""
    content = (folder / "inventory.json").read_bytes()
    (folder / told_results.SIGNATURE).write_text(signing.sign(content, sent.folder / "eve"))


def without_alice(folder: Path, sent: Sent) -> None:
    """Make alice's results look like the project's."""
    [path] = folder.glob("journals/here.good-*")
    records = journal.read(path, Bounds())
    facts = {name: value for name, value in records[0].job.items() if name != TOLD_BY}
    journal.write(folder, f"here.good-{identity(facts, records)}", facts, records)
    path.unlink()


def without_fails(folder: Path, sent: Sent) -> None:
    [path] = folder.glob("journals/here.wrong-*")
    path.unlink()


def edited(folder: Path, sent: Sent) -> None:
    path = folder / "inventory.json"
    path.write_text(path.read_text().replace('"pass": 5', '"pass": 6'))


@pytest.mark.parametrize("edit", first_are_quick(1, [by_eve, without_alice, without_fails, edited]))
def test_what_was_taken_and_changed_since_does_not_count(project, sent, edit):
    assert taken(project, sent).returncode == 0
    [folder] = (project.results / "told").iterdir()
    edit(folder, sent)
    shown, differences = reported(project)
    assert differences == []
    assert {cell["state"] for cell in shown["cells"]} == {"missing"}
    assert shown["problems"]
    assert all("refused: " in problem for problem in shown["problems"])


@pytest.mark.slow
def test_what_was_taken_is_packed_as_it_was_signed_and_its_word_stands_as_before(project, sent, tmp_path):
    assert taken(project, sent).returncode == 0
    own_results(project, "wrong", replace(of_alice(project, "wrong")[0], outcome="fail", message="too far"))
    with judging.judged(project, pipeline.plan(project, "quick"), [project.results]) as judged:
        before = [(one.case.id, one.state, one.evidence, one.reason, one.stale) for one in judged.verdicts()]
    packed = pack([project.results], tmp_path / "kept")
    [folder] = packed.told
    signed = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(signed) == 4, "the inventory, its signature and two journals"
    [first] = (project.results / "told").iterdir()
    assert signed == {path.name: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    with judging.judged(project, pipeline.plan(project, "quick"), [tmp_path / "kept"]) as judged:
        assert [(one.case.id, one.state, one.evidence, one.reason, one.stale) for one in judged.verdicts()] == before
    assert {"told", "fail"} <= {state for _, state, *_ in before}
    assert pack([project.results], tmp_path / "kept").told == packed.told
    (folder / "inventory.json").write_bytes(signed["inventory.json"] + b" ")
    with pytest.raises(UserError, match="something else of this name is there already"):
        pack([project.results], tmp_path / "kept")
    with pytest.raises(UserError, match=r"nothing was packed.*\n.*the signature of .* does not hold"):
        pack([tmp_path / "kept"], tmp_path / "other")
    assert not (tmp_path / "other").exists()
