"""The columns of the tables: the name, the type and the meaning of each.

Columns are flat, apart from maps and lists, so that the same SQL works in every engine that reads Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

# What a change of columns costs, and what it takes: docs/how-to/harness.md.
VERSION = 1  # of the tables that are written
OLDEST = 1  # the oldest version that can be read
VERSION_KEY = b"kernel_matrix.schema_version"  # in the metadata of each file, where it is read before any row
DESCRIPTION = b"description"

_TEXTS = pa.map_(pa.string(), pa.string())
_NUMBERS = pa.map_(pa.string(), pa.float64())


def _owed(name: str, kind: pa.DataType, text: str) -> pa.Field:
    """Return a column that every row has a value of."""
    return pa.field(name, kind, nullable=False, metadata={DESCRIPTION: text.encode()})


def _optional(name: str, kind: pa.DataType, text: str) -> pa.Field:
    """Return a column that some rows have no value of."""
    return pa.field(name, kind, nullable=True, metadata={DESCRIPTION: text.encode()})


_RUN = _owed("run", pa.string(), "The identity of the run: the same in all tables, and at the end of the file's name.")
_CASE = _owed("case", pa.string(), "The id of the case: `PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION/NAME`.")
_OUTPUT = _owed("output", pa.string(), "The output; `OUTPUT@VARIANT` for another variant of the kernel.")

# The facts that have a column of their own, by its name.
FACTS_OF_JOB = {
    **{name: name for name in ("job", "platform", "toolchain", "device", "driver", "executor", "commit")},
    "lock_sha256": "lock.sha256",
}
FACTS_OF_CASE = {"inputs_sha256": "inputs.sha256", "artifact_kind": "artifact.kind"}
JOBS = (
    _RUN,
    _owed("job", pa.string(), "The name of the job, such as `cpu-llvm.reference`."),
    _owed("platform", pa.string(), "The platform. Like the columns below, it is empty where the job does not say it."),
    _owed("toolchain", pa.string(), "The toolchain; of probes the environment."),
    _owed("device", pa.string(), "The device that it ran on, or `none`."),
    _owed("driver", pa.string(), "The version of the device's driver."),
    _owed("executor", pa.string(), "Where its processes ran: `container`, `venv`, `current`."),
    _owed("commit", pa.string(), "The commit that was measured; with `+changes` if files were changed since."),
    _optional("started", pa.timestamp("us"), "When it started, in UTC. Null if its time cannot be read."),
    _optional("seconds", pa.float64(), "How long it took."),
    _owed(
        "lock_sha256",
        pa.string(),
        "The digest of the lock that its environment was made from; empty if it was there before.",
    ),
    _owed("facts", _TEXTS, "All facts of the job, with those above; `version.NAME` are the versions of distributions."),
    _owed("schema_version", pa.int32(), f"The version of these tables: {VERSION}."),
)
CASES = (
    _RUN,
    _CASE,
    _owed("platform", pa.string(), "The first part of the id; empty, like the parts below, if the id has other parts."),
    _owed("target", pa.string(), "The architecture, such as `sm_90`."),
    _owed("toolchain", pa.string(), "The toolchain."),
    _owed("op", pa.string(), "The operator."),
    _owed("direction", pa.string(), "`forward` or `backward`."),
    _owed("name", pa.string(), "The name of the case within its cell."),
    _owed("outcome", pa.string(), "`pass`, `fail`, `error`, `unavailable`, `excluded` or `missing`."),
    _owed("action", pa.string(), "What was done: `run`, `emulate`, `compile`, or nothing."),
    _owed("stage", pa.string(), "Where an error stopped: `import`, `lower`, `compile`, `launch`, and so on."),
    _owed("message", pa.string(), "The message of a failure or an error, or the reason why the case was not tried."),
    _owed("detail", pa.string(), "The traceback, or the output of the process."),
    _owed("seconds", pa.float64(), "How long the case took."),
    _owed("attempts", pa.list_(pa.string()), "The outcomes of the earlier tries, the oldest first."),
    _owed("inputs_sha256", pa.string(), "The digest of the inputs; empty if the case did not run."),
    _owed("artifact_kind", pa.string(), "What a compiler made, such as `cubin`; empty without one."),
    _owed("facts", _TEXTS, "All facts of the case, with those above."),
    _owed(
        "figures", _NUMBERS, "All figures that are not of an output: `elements`, `artifact.*`, `time.*`, `canary.*`."
    ),
)
# What is known of each output, in the order in which a job measures it.
FIGURES: Mapping[str, str] = {
    "elements": "How many elements it has.",
    "nan": "How many of them are NaN.",
    "inf": "How many of them are infinite.",
    "max_abs": "The largest error.",
    "mean_abs": "The mean error.",
    "rel_fro": "The Frobenius norm of the error over the norm of the golden.",
    "ulp_median": "The median error in ULP.",
    "ulp_p99": "The error in ULP that 99 of 100 elements do not exceed.",
    "ulp_max": "The largest error in ULP.",
    "cosine": "One minus the cosine of the angle between output and golden.",
    "misrounded": "The share of the elements that are not the correctly rounded golden.",
    "limit_max_abs": "The limit of `max_abs` that the job used. `report` computes it again.",
    "limit_rel_fro": "The limit of `rel_fro` that the job used.",
    "floor_max_abs": "The largest error of the baseline in the same dtype.",
    "floor_rel_fro": "The `rel_fro` of the baseline.",
    "floor_misrounded": "The `misrounded` of the baseline.",
    "conditioning_max_abs": "How far the golden moves when every input is off by one rounding error.",
    "conditioning_rel_fro": "The same as a relative Frobenius norm.",
    "unit": "The unit that the cap of the limit is a multiple of.",
    "steps": "How many rounded operations lie one after the other.",
    "largest": "The largest absolute value of the golden.",
    "itemsize": "The bytes of an element.",
    "noise_ratio": "`rel_fro` over `floor_rel_fro`.",
    "growth": "The power of the number of tokens with which the error grows, in cases that measure it.",
    "limit_growth": "The limit of `growth`.",
}
OUTPUTS = (
    _RUN,
    _CASE,
    _OUTPUT,
    *(_optional(name, pa.float64(), text) for name, text in FIGURES.items()),
    _owed("others", _NUMBERS, "Figures of the output that have no column."),
)
SAMPLES = (
    _RUN,
    _CASE,
    _OUTPUT,
    _owed("dtype", pa.string(), "`fp64`, `fp32`, `fp16` or `bf16`."),
    _owed("shape", pa.list_(pa.int64()), "The shape of the whole output."),
    _owed("sha256", pa.string(), "16 hexadecimal digits of the digest of the whole output."),
    _owed("bits", pa.binary(), "The bits of up to 128 elements, at positions that follow from the case's name."),
)
# What only earlier versions have, by table. A figure of an output among them is read into `others`.
WITHDRAWN: Mapping[str, tuple[pa.Field, ...]] = {"jobs": (), "cases": (), "outputs": (), "samples": ()}
# The figures among these that version 1 has in `others`, if at all.
LATER: tuple[str, ...] = ()
# The tables that an earlier version lacks, with the version that brought them.
ADDED: Mapping[str, int] = {}
SCHEMAS: Mapping[str, pa.Schema] = {
    table: pa.schema(columns, metadata={VERSION_KEY: str(VERSION).encode()})
    for table, columns in {"jobs": JOBS, "cases": CASES, "outputs": OUTPUTS, "samples": SAMPLES}.items()
}


def description(column: pa.Field) -> str:
    """Return what a column means."""
    return bytes(column.metadata[DESCRIPTION]).decode()
