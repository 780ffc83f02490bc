"""`python -m tests.deploy.values_schema` writes the settings into the chart's `values.schema.json`; a test compares."""

from __future__ import annotations

import json

from tests.deploy.files import VALUES_SCHEMA, chart_definitions


def written() -> str:
    """The file as it must be: by hand what is the chart's, from the declarations what is Tickwise's."""
    schema = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    schema["$defs"] |= chart_definitions()
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    VALUES_SCHEMA.write_text(written(), encoding="utf-8")
