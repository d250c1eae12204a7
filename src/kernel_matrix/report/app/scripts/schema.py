"""Print the JSON Schema of the page's data: one definition for each kind of data file."""

from __future__ import annotations

import json

from pydantic.json_schema import models_json_schema

from kernel_matrix.report import agreement, page_data, toolchains

FILES = (
    page_data.Overview,
    page_data.CellChunk,
    page_data.SpeedData,
    page_data.HistoryData,
    agreement.AgreementReport,
    toolchains.Toolchains,
)

_, schema = models_json_schema([(model, "serialization") for model in FILES], title="PageData")
print(json.dumps(schema, indent=2))  # noqa: T201
