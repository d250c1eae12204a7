"""Print the JSON Schema of the page's data."""

from __future__ import annotations

import json

from kernel_matrix.report.page_data import PageData

print(json.dumps(PageData.model_json_schema(mode="serialization"), indent=2))  # noqa: T201
