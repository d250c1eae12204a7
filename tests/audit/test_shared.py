"""The audit has in common with what it checks what one list says; everything else it counts by code of its own."""

from __future__ import annotations

import ast

from common import ROOT
from loops import at_least

AUDIT = ROOT / "src" / "kernel_matrix" / "audit"
# By the name that is imported: what it says, and why a second one would say nothing more.
SHARED = {
    "base.errors.UserError": "the class of errors for users",
    "base.git": "what git says of a commit",
    "base.patterns.is_found": "whether RE2 finds a pattern",
    "base.versions.satisfies": "whether versions are in a specifier, as packaging says",
    "config.model.ASSERTED": "a word of matrix.yaml",
    "config.model.Matrix": "matrix.yaml as it was read",
    "config.reads.Checkout": "staleness: which files and which parts of matrix.yaml a job reads, and their hashes",
    "job.ahead.targets.SCHEDULERS": "occupancy: published figures",
    "job.ahead.targets.TARGETS": "occupancy: the table of published figures, and no formula",
    "vendors.builds.kinds": "the names of the kinds of builds",
    "vendors.registry.vendor_named": "what a vendor's file says",
}


def imported() -> dict[str, set[str]]:
    """Return the names that the audit's modules import from the harness, each with the modules."""
    found: dict[str, set[str]] = {}
    for path in sorted(at_least(13, AUDIT.glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: an import from a folder would not be seen here"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name.startswith("kernel_matrix.") and not name.startswith("kernel_matrix.audit"):
                    found.setdefault(name.removeprefix("kernel_matrix."), set()).add(path.name)
    return found


def test_what_the_audit_shares_with_what_it_checks_is_this_list():
    found = imported()
    assert found.keys() - SHARED.keys() == set(), "count it again in the audit, or say here why that would say nothing"
    assert SHARED.keys() - found.keys() == set(), "the audit shares it no longer"
    assert found["job.ahead.targets.TARGETS"] == {"occupancy.py"}, "the limits of a launch are not the audit's figures"
    assert found["config.reads.Checkout"] <= {"__init__.py", "states.py"}
