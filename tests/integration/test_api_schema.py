"""What the API says of itself is true: requests made from its own description find no disagreement."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    unsupported_method,
)

from tests.support.app import ADMIN_KEY, API, world
from tests.support.described import description
from tests.support.people import signing_key

OF_THE_PROCESS = {"GET /healthz", "GET /healthz/details", "GET /livez", "GET /metrics", "GET /readyz"}
SAY_503 = {"GET /healthz", "GET /readyz"}
"""What they say of an installation in which runs wait for an executor, as they do here after a minute."""
BESIDE_IDS = {"POST /api/v1/users/register", "POST /api/v1/users/links", "POST /api/v1/users/password"}
"""Their last word could be an id: another method is about a user that is not there."""
DRAWN = settings(max_examples=8, suppress_health_check=list(HealthCheck))
HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}


@dataclass(slots=True)
class Served:
    """An API on a port of its own, and things that exist in it."""

    url: str
    ids: dict[str, list[str]] = field(default_factory=dict)


class Server(threading.Thread):
    """The API on a loop of its own, because the requests are made from the test's thread."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        # From here on a connection waits in the backlog until the server takes it.
        self.socket.listen(128)
        self.served = Served(f"http://127.0.0.1:{self.socket.getsockname()[1]}")
        self.ready = threading.Event()
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with world(late_limit_seconds=1e9) as here:
            self.served.ids = await _things(here.client)
            await here.control.bearers.sign_with(signing_key())
            config = uvicorn.Config(here.app, lifespan="off", log_level="critical", http="httptools")
            self.server = uvicorn.Server(config)
            self.ready.set()
            await self.server.serve(sockets=[self.socket])


async def _things(client: Any) -> dict[str, list[str]]:
    """A job of each kind, a run that waits and one that has ended, a stored task: so that ids lead somewhere."""
    jobs = []
    for when in ({"schedule_type": "IMMEDIATE"}, {"cron": "*/5 * * * *"}, {"every": "1h"}):
        body = {"name": "there", "task": {"kind": "shell", "command": "date"}, **when}
        jobs.append((await client.post(f"{API}/jobs", json=body)).json()["job_id"])
    runs = [(await client.post(f"{API}/jobs/{jobs[1]}/runNow")).json()["run_id"] for _ in range(2)]
    await client.post(f"{API}/runs/{runs[1]}/cancel")
    await client.post(f"{API}/tasks", json={"taskId": "there", "script": "print(1)"})
    await client.put(f"{API}/jobs/by-key/there", json={"name": "keyed", "every": "1h"})
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:10:00Z"}
    backfill = (await client.post(f"{API}/jobs/{jobs[1]}/backfill", json=span)).json()["backfill_id"]
    operation = (await client.post(f"{API}/runs:retry", json={"filter": {"all": True}})).json()["operation_id"]
    return {
        "job_id": jobs,
        "run_id": runs,
        "task_id": ["there"],
        "key": ["there"],
        "backfill_id": [backfill],
        "operation_id": [operation],
        "queue": ["default"],
    }


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A running API."""
    thread = Server()
    thread.start()
    assert thread.ready.wait(90)
    yield thread.served
    assert thread.server is not None
    thread.server.should_exit = True
    thread.join(90)
    thread.socket.close()


@schemathesis.serializer("application/x-ndjson", "application/ndjson", "application/jsonl")
def _lines(_context: Any, value: Any) -> bytes:
    """Bodies of lines are described as text; anything else is sent as one line of JSON."""
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@pytest.fixture(scope="module")
def described(served: Served) -> schemathesis.BaseSchema:
    """The API as it describes itself."""
    api = schemathesis.openapi.from_url(f"{served.url}/openapi.json", headers=HEADERS)
    # A precondition may be judged before the body is looked at (RFC 9110, section 13.2.1), and a request that is too
    # large is refused before it is read: 412, 413, 414 and 431 refuse as well as 422.
    rejection = api.config.checks.negative_data_rejection
    rejection.expected_statuses = [*rejection.expected_statuses, "412", "413", "414", "431"]

    @api.hook
    def map_path_parameters(_context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        """Paths with well-formed ids lead to something that exists, mostly; malformed ones are left as they are."""
        for name, known in served.ids.items():
            value = (path_parameters or {}).get(name)
            if path_parameters and isinstance(value, str) and _well_formed(name, value):
                path_parameters[name] = known[sum(value.encode(errors="replace")) % len(known)]
        return path_parameters

    return api


def _well_formed(name: str, value: str) -> bool:
    if not name.endswith("_id") or name == "task_id":
        return 0 < len(value) <= 200
    try:
        return sum(UUID(value).bytes) % 4 != 0
    except ValueError:
        return False


def check_events(text: str) -> None:
    """A stream of events: fields that the standard knows, and data in JSON."""
    for line in text.splitlines():
        field, _, value = line.partition(":")
        assert field in ("", "event", "data", "id", "retry"), line
        if field == "data":
            json.loads(value)


def test_events_are_checked() -> None:
    """What is no event is found."""
    check_events(': kept open\nretry: 2000\nevent: end\ndata: {"reason":"complete"}\n\n')
    for wrong in ("data: {\n", "dat: {}\n", "Internal Server Error\n"):
        with pytest.raises((AssertionError, ValueError)):
            check_events(wrong)


def _labels(said: Mapping[str, Any]) -> list[str]:
    return sorted(f"{method.upper()} {path}" for path, methods in said["paths"].items() for method in methods)


# Named here, and not by schemathesis, which makes all requests of all operations while pytest collects, 5 s in each of
# its processes; and they would have one name together, of which pytest-xdist runs one.
OPERATIONS = sorted([*_labels(description().said), *OF_THE_PROCESS])


def test_every_operation_is_asked(described: schemathesis.BaseSchema) -> None:
    """All that the description names."""
    assert OPERATIONS == _labels(described.raw_schema)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_as_described(operation: str, described: schemathesis.BaseSchema, served: Served) -> None:
    """Statuses, media types, headers and bodies are those of the description; what violates it is refused.

    One check is left out: that everything that fits the schema is accepted. Rules between fields (a cron line and
    a time contradict each other) and inside texts (a zone that exists, a script that compiles) are no matter of a
    JSON Schema; they are answered with 422 and a pointer. And of a batch each job is judged by itself: an answer of 200
    tells what is wrong with which.
    """
    judged_apart = operation.endswith("/jobs:batch")
    excluded: list[Any] = [positive_data_acceptance, *([negative_data_rejection] if judged_apart else [])]
    if operation in SAY_503:
        excluded += [not_a_server_error]
    if operation in BESIDE_IDS:
        excluded += [unsupported_method, allow_header_conformance]

    def answered(case: Any) -> None:
        # In a namespace that is not there everything is 404.
        case.headers.pop("Tickwise-Namespace", None)
        answer = case.call(base_url=served.url, headers=HEADERS, **patience)
        is_stream = "text/event-stream" in str(answer.headers.get("content-type"))
        # Its schema is that of the text; schemathesis compares each event of it.
        apart = [response_schema_conformance] if is_stream else []
        case.validate_response(answer, excluded_checks=[*excluded, *apart])
        if is_stream:
            check_events(answer.content.decode())

    found = described.find_operation_by_label(operation)
    assert found is not None
    # A stream is read for as long as a request may take, which is 10 s unless more is said.
    patience = {} if "text/event-stream" in str(found.definition.raw) else {"timeout": 60.0}
    how = HypothesisTestConfig(project=described.config, modes=list(HypothesisTestMode), explicit_settings=DRAWN)
    create_test(operation=found, test_func=answered, config=how)()
