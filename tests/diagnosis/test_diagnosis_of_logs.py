"""A log of a tool has the cause that its last error has, whichever CI printed it; what no rule knows has none."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from common import ROOT
from ruamel.yaml import YAML

from kernel_matrix.cli import main
from kernel_matrix.config.load import load_unchecked
from kernel_matrix.diagnosis import Rule, diagnose, diagnose_all, rules_of
from kernel_matrix.diagnosis.rule import harness_rules

# By who printed it: the rule of the error, and its log.
PRINTED = {
    "github": (
        "debian-package-unknown",
        "2026-01-05T10:11:13.1234567Z E: Unable to locate package hipcc-9\n2026-01-05T10:11:13.2Z ##[error]exit 100",
    ),
    "github's command line": (
        "debian-package-unknown",
        "build\tInstall\t2026-01-05T10:11:13.1234567Z E: Unable to locate package hipcc-9",
    ),
    "gitlab": ("debian-package-unknown", "2026-01-05T10:11:13.123456Z 01O E: Unable to locate package hipcc-9"),
    "jenkins": ("debian-version-gone", "[2026-01-05T10:11:13.123Z] E: Version '7.0.2*' for 'hipcc' was not found"),
    "buildkite": ("debian-package-unknown", "\x1b_bk;t=1767607873123\x07E: Unable to locate package hipcc-9"),
    "buildkit": ("debian-package-unknown", "#12 2.101 E: Unable to locate package hipcc-9\n#12 ERROR: exit code: 100"),
    "the end of buildkit": (
        "debian-package-unknown",
        " > [2/3] RUN apt-get install:\n2.101 E: Unable to locate package hipcc-9\n------",
    ),
    "colours": (
        "no-kernel-image",
        "\x1b[31mError\x1b[0m: no kernel image is \x1b[1;31mavailable\x1b[0m for execution on the device",
    ),
    "colours of a record": (
        "no-kernel-image",
        "�[31mRuntimeError�[0m: no kernel image is �[31mavailable�[0m for execution on the device",
    ),
    "colours in JUnit XML": (
        "no-kernel-image",
        "#x1B[31mError#x1B[0m: no kernel image is #x1B[31mavailable#x1B[0m for execution on the device",
    ),
    "a wrapped line": ("no-kernel-image", "no kernel image is\navailable for execution on the device"),
    "ends of lines of Windows": (
        "debian-package-unknown",
        "Building dependency tree...\r\nE: Unable to locate package hipcc-9\r",
    ),
    "a bar of progress": ("debian-package-unknown", "Reading 10%\rReading 100%\rE: Unable to locate package hipcc-9"),
    "pytest": ("tvm-thread-bound-code-on-cpu", "E       tvm.error.InternalError: not implemented"),
    "torchrun": ("tvm-thread-bound-code-on-cpu", "[rank0]: tvm.error.InternalError: not implemented"),
    "a mark of the encoding": (
        "debian-package-unknown",
        "\ufeff2026-01-05T10:11:13Z E: Unable to locate package hipcc-9",
    ),
}


def rules_of_logs(logs: Iterable[str], rules: tuple[Rule, ...]) -> list[str]:
    """Return the name of the rule that knows each log, or an empty text."""
    return [one.rule if one else "" for one in diagnose_all([(log, "", ()) for log in logs], rules)]


def test_a_log_has_the_cause_of_its_last_error_for_an_adopter_and_for_this_project():
    ends = YAML(typ="safe").load((Path(__file__).parent / "logs.yaml").read_text())
    for rules in (harness_rules(), rules_of(load_unchecked(ROOT / "matrix.yaml"), ROOT)):
        assert rules_of_logs([end["log"] for end in ends], rules) == [end["rule"] for end in ends]


def test_what_a_printer_puts_around_a_line_hides_no_error():
    found = rules_of_logs([log for _, log in PRINTED.values()], harness_rules())
    assert dict(zip(PRINTED, found, strict=True)) == {printer: rule for printer, (rule, _) in PRINTED.items()}


def test_of_two_errors_the_last_decides_and_not_the_first_rule():
    errors = {rule.name: rule.example for rule in harness_rules() if rule.name in ("disk-full", "device-assert")}
    orders = (("disk-full", "device-assert"), ("device-assert", "disk-full"))
    logs = [f"{errors[other]}\nagain\n{errors[last]}\n" for last, other in orders]
    assert rules_of_logs(logs, harness_rules()) == [last for last, _ in orders]


def test_of_rules_for_one_line_the_first_counts():
    doubled = "E: Unable to locate package a: No space left on device"
    found = [diagnose(doubled, rules=rules).rule for rules in (harness_rules(), harness_rules()[::-1])]
    assert found == ["disk-full", "debian-package-unknown"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize("piped", [True, False])
def test_the_command_reads_what_powershell_writes(encoding, piped, tmp_path, monkeypatch, capsys):
    log = "RuntimeError: CUDA error: no kernel image is available for execution on the device\r\n".encode(encoding)
    file = tmp_path / "error.txt"
    file.write_bytes(log)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(log)))
    assert main(["diagnose", *([] if piped else [str(file)])]) == 0
    assert "[no-kernel-image]" in capsys.readouterr().out
