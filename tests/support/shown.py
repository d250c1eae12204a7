"""Read what a site shows: its files of data, with every index replaced by what it stands for."""

from __future__ import annotations

import base64
import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from kernel_matrix.audit import page
from kernel_matrix.report.cells import number

SCRIPT = re.compile(r'kernelMatrix\.put\("([\w/]+)",(.*)\);\n', re.DOTALL)


Chunk = dict[str, Any]
MAPS = {"facts": pa.string(), "artifact": pa.float64()}


class Page:
    """The page of a site, as it is shown."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def value(self, name: str) -> Any:
        """Return the value of a file of data."""
        match = SCRIPT.fullmatch((self.site / "data" / f"{name}.js").read_text())
        assert match
        assert match[1] == name
        return json.loads(match[2])

    @cached_property
    def overview(self) -> dict[str, Any]:
        return self.value("overview")

    @cached_property
    def chunks(self) -> list[dict[str, Any]]:
        numbers = sorted(int(path.stem) for path in (self.site / "data" / "cells").glob("*.js"))
        return [page.with_rows(self.value(f"cells/{number}")) for number in numbers]

    @cached_property
    def cells(self) -> dict[str, dict[str, Any]]:
        """Return the cells by their ids, each with its cases under ``results`` by their names."""
        cells = {}
        for chunk in self.chunks:
            for name, detail in chunk["cells"].items():
                results = {r["name"]: _as_shown(r) for r in page.of_cell(name, chunk, self.overview)}
                assert name not in cells
                cells[name] = {**detail["cell"], "results": results}
        return cells

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of the overview by the cells' ids, with names and texts instead of indices."""
        columns, texts = self.overview["cells"], self.overview["texts"]
        letters = {state["letter"]: state["name"] for state in self.overview["states"]}
        rows = {}
        for place in range(len(columns["lane"])):
            row = {name: values[place] for name, values in columns.items() if isinstance(values, list) and values}
            lane, op = self.overview["lanes"][row["lane"]], self.overview["ops"][row["op"]]
            states = zip(op["cases"], row["case_states"], strict=False)
            row |= {name: texts[row[name]] for name in ("reason", "stage", "rule")}
            row["state"] = self.overview["states"][row["state"]]["name"]
            row["evidence"] = self.overview["evidence"][row["evidence"]]
            row["cases"] = {name: letters[letter] for name, letter in states if letter != "."}
            row["noise_by_dtype"] = {name: values[place] for name, values in columns["noise_by_dtype"].items()}
            row["noise_output"] = {name: texts[values[place]] for name, values in columns["noise_output"].items()}
            rows[f"{lane['platform']}/{lane['target']}/{lane['toolchain']}/{op['op']}.{op['direction']}"] = row
        return rows

    @property
    def text(self) -> str:
        """Return all texts of all files of data, one a line."""
        values = (self.value(name) for name in ("overview", *self.overview["has"]))
        return "\n".join(text for value in (*values, self.cells) for text in texts_of(value))

    def tables(self, name: str) -> Chunk:
        """Return a file of cells with its tables as rows that a test may edit."""
        chunk, tables = self.value(name), {}
        for table in ("cases", "outputs"):
            tables[table] = ipc.open_stream(base64.b64decode(chunk[table])).read_all().to_pylist()
        for row in tables["cases"]:
            row |= {key: dict(row[key]) for key in MAPS if row.get(key) is not None}
        return {**chunk, **tables}

    def put_tables(self, name: str, chunk: Chunk) -> None:
        """Write a file of cells."""
        written = dict(chunk)
        for table in ("cases", "outputs"):
            rows = pa.Table.from_pylist([{k: v for k, v in row.items() if k not in MAPS} for row in chunk[table]])
            for key in MAPS if table == "cases" else ():
                values = [list((row.get(key) or {}).items()) for row in chunk[table]]
                rows = rows.append_column(key, pa.array(values, pa.map_(pa.string(), MAPS[key])))
            sink = pa.BufferOutputStream()
            with ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            written[table] = base64.b64encode(sink.getvalue().to_pybytes()).decode()
        (self.site / "data" / f"{name}.js").write_text(f'kernelMatrix.put("{name}",{json.dumps(written)});\n')


def _as_shown(result: dict[str, Any]) -> dict[str, Any]:
    """Return a case with the digits that the page shows."""
    outputs = {
        output: {name: value if isinstance(value, str) else number(value) for name, value in figures.items()}
        for output, figures in result["outputs"].items()
    }
    return {**result, "outputs": outputs, "job": result["job"] or None}


def texts_of(value: Any) -> list[str]:
    """Return all strings of a value."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts_of(part)]
