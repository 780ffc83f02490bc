"""A look at the environments to build reads a bounded number of rows, however many are declared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import asyncpg

from tickwise.adapters.store.postgres import upgrade
from tickwise.adapters.store.postgres.statements import statement
from tickwise.ports.store.environments import MAX_LOOKED_AT

FILL = """
INSERT INTO tickwise.timers (due, job_id)
SELECT now() + n * interval '1 second', lpad(to_hex(n), 32, '0')::uuid FROM generate_series(1, 20000) n;
INSERT INTO tickwise.environments (declared_at, job_id, namespace, digest, queue, requires, declaration)
SELECT now() - n * interval '1 second', lpad(to_hex(n), 32, '0')::uuid, 'n' || n % 500, to_hex(n), 'q' || n % 4,
       '{}', '{}'
FROM generate_series(1, 40000) n;
ANALYZE tickwise.timers, tickwise.environments;
"""


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan and all below it."""
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


async def test_a_look_reads_the_newest_of_its_queues_alone(database_url: str) -> None:
    """By the index of queues, and the timers of those rows by their ids."""
    await upgrade(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute(FILL)
    await connection.execute(f"PREPARE look AS {statement('environments_wanted')}")
    asked = f"EXECUTE look('{{q1,q2}}', '{{}}', NULL, 50, {MAX_LOOKED_AT})"
    assert 50 == len(await connection.fetch(asked))
    [row] = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked}")
    await connection.close()
    plan = list(nodes(json.loads(row[0])[0]["Plan"]))
    assert {"environments_of_queue", "timers_pkey"} <= {node.get("Index Name") for node in plan}
    assert "Seq Scan" not in {node["Node Type"] for node in plan}
    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if "Index Name" in node)
    assert read <= 2 * 2 * MAX_LOOKED_AT
