"""The description of the API: sound, complete, and in forms that generators of clients read."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar

import jsonschema_rs
import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.described import Schema, description
from tests.support.kinds import builtin_kinds
from tickwise.api.examples import ANSWERS, BODIES
from tickwise.api.openapi import document
from tickwise.api.resources import RESOURCES
from tickwise.api.schemas import OTHER_TASK, SHARED
from tickwise.api.wire import encode

SAID: Schema = description().said
SCHEMAS: dict[str, Schema] = SAID["components"]["schemas"]


def parts(place: str, schema: Any) -> Iterator[tuple[str, Schema]]:
    """Every schema within one, with the place where it stands."""
    if isinstance(schema, dict):
        yield place, schema
        for name, below in schema.items():
            if name not in ("enum", "default", "examples", "mapping"):
                yield from parts(f"{place}/{name}", below)
    elif isinstance(schema, list):
        for number, below in enumerate(schema):
            yield from parts(f"{place}/{number}", below)


def operations() -> Iterator[tuple[str, str, Schema]]:
    for path, methods in SAID["paths"].items():
        for method, said in methods.items():
            yield path, method, said


ALL_PARTS = [*parts("", SAID["components"]), *parts("", SAID["paths"])]


@pytest_asyncio.fixture(loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world() as found:
        yield found


def test_every_schema_is_a_json_schema() -> None:
    """Each component is valid by the meta-schema of JSON Schema 2020-12."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    assert [] == [
        name for name, schema in SCHEMAS.items() if not jsonschema_rs.meta.is_valid({"$schema": draft, **schema})
    ]


def test_every_array_says_of_what() -> None:
    """An `array` without `items` takes the whole schema, and every error with it, out of a client."""
    assert [] == [place for place, part in ALL_PARTS if part.get("type") == "array" and "items" not in part]


def test_a_default_is_a_plain_value_and_stands_beside_no_reference() -> None:
    """Generators write defaults into their language, and most know only how to write texts, numbers and truth."""
    kinds = [(place, part) for place, part in ALL_PARTS if "default" in part and not place.endswith("/properties")]
    assert [] == [place for place, part in kinds if isinstance(part["default"], dict | list | None)]


def test_no_choice_holds_a_schema_of_everything() -> None:
    """`anyOf: [{}, null]` says nothing, and generators make a class of it."""
    assert [] == [place for place, part in ALL_PARTS if {} in part.get("anyOf", ())]


def test_an_enumeration_has_a_type() -> None:
    """Without one a client gets a value of any type."""
    properties = ("/properties", "/mapping")
    assert [] == [
        place for place, part in ALL_PARTS if "enum" in part and "type" not in part and not place.endswith(properties)
    ]


def test_no_value_stands_in_two_enumerations_with_names() -> None:
    """A client in Go has one room for the constants of all of them."""
    named = {name: schema["enum"] for name, schema in SCHEMAS.items() if "enum" in schema}
    assert SHARED == named.keys()
    counts = Counter(value.upper() for values in named.values() for value in values)
    assert [] == [value for value, times in counts.items() if times > 1]


def test_operations_have_a_name_of_their_own_a_description_and_a_tag_that_is_explained() -> None:
    """Generators make methods, their documentation and classes of these."""
    names = [said["operationId"] for _, _, said in operations()]
    assert sorted(set(names)) == sorted(names)
    assert [] == [said["operationId"] for _, _, said in operations() if not said["description"]]
    tags = [tag["name"] for tag in SAID["tags"]]
    assert sorted(set(tags)) == sorted(tags)
    assert {tag for _, _, said in operations() for tag in said["tags"]} <= set(tags)


def test_every_time_and_every_id_says_its_format() -> None:
    """A client reads `date-time` as a time and `uuid` as an id; without a format both are texts."""
    texts = ("string", ["string", "null"])
    wanted = [
        (place, part.get("format"), "uuid" if name.endswith("_id") else "date-time")
        for place, part in ALL_PARTS
        if part.get("type") in texts
        for name in [place.rpartition("/")[2]]
        if name.endswith(("_at", "_time", "_id"))
        and name not in ("executor_id", "task_id", "request_id", "trace_id", "client_id")
    ]
    assert len(wanted) > 60
    assert [] == [place for place, found, right in wanted if found != right]


def test_an_object_that_is_answered_may_gain_members() -> None:
    """A client that was made yesterday reads the answers of tomorrow."""
    answers = [name for name in SCHEMAS if name.endswith("View") or name in ANSWERS]
    assert len(answers) > 30
    assert [] == [name for name in answers if SCHEMAS[name].get("additionalProperties") is not True]


def test_a_new_job_must_have_a_name_and_a_change_need_not() -> None:
    assert ["name"] == SCHEMAS["JobBody"]["required"]
    assert "required" not in SCHEMAS["JobChangeBody"]
    assert SCHEMAS["JobBody"]["properties"].keys() == SCHEMAS["JobChangeBody"]["properties"].keys()


def test_every_kind_of_task_has_a_schema_by_which_its_kind_is_told() -> None:
    """`kind` alone decides which schema a task goes by."""
    task = SCHEMAS["Task"]
    names = [kind.name for kind in builtin_kinds()]
    assert sorted(names) == sorted(task["discriminator"]["mapping"])
    for kind, reference in task["discriminator"]["mapping"].items():
        assert [kind] == SCHEMAS[reference.rpartition("/")[2]]["properties"]["kind"]["enum"]
    examples: dict[str, Schema] = {
        "function": {"name": "f"}, "python": {"source": "1"}, "shell": {"command": "date"}, "http": {"url": "http://a/"},
    }  # fmt: skip
    for kind, fields in [*examples.items(), ("of a plugin", {"anything": 1})]:
        assert [] == list(description().errors("/components/schemas/Task", {"kind": kind, **fields}))
    assert [] != list(description().errors("/components/schemas/Task", {"kind": "shell", "source": "1"}))
    assert [] != list(description().errors("/components/schemas/Task", {"command": "date"}))


def test_an_optional_array_that_must_not_be_empty_may_be_null() -> None:
    """Clients in Java send an empty array for every array that was not set, unless it may be null."""
    found = [
        (f"{name}/{field}", said["type"])
        for name, schema in SCHEMAS.items()
        if name.endswith(("Body", "Task"))
        for field, said in schema.get("properties", {}).items()
        if said.get("minItems") and field not in schema.get("required", ())
    ]
    assert {"HttpTask/expect", "RetryBody/delays_seconds", "ShellTask/argv"} <= {place for place, _ in found}
    assert [] == [place for place, kind in found if "null" not in kind]


async def test_an_array_that_may_be_null_may_be_left_out_so(here: World) -> None:
    """null means that it was not sent."""
    for task in (
        {"kind": "shell", "command": "date", "argv": None},
        {"kind": "http", "url": "https://example.com/", "expect": None},
    ):
        body = {"name": "a", "every": "1h", "task": task, "retry": {"delays_seconds": None}}
        answer = await here.client.post(f"{API}/jobs", json=body)
        assert 201 == answer.status_code, answer.text


class PluginKind:
    """A kind as a plugin brings it."""

    name: ClassVar[str] = "spark-job"
    limits: ClassVar[tuple[str, ...]] = ()
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"kind": {"const": "spark-job"}, "jar": {"type": "string"}},
        "required": ["kind", "jar"],
    }

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        return task


def test_the_kind_of_a_plugin_is_described_by_its_own_schema() -> None:
    """The server that has the plugin names it beside its own kinds."""
    said = msgspec.json.decode(encode(document(RESOURCES, [*builtin_kinds(), PluginKind()])))
    schemas = said["components"]["schemas"]
    assert "#/components/schemas/SparkJobTask" == schemas["Task"]["discriminator"]["mapping"]["spark-job"]
    assert {"type": "string"} == schemas["SparkJobTask"]["properties"]["jar"]
    assert {"$ref": f"#/components/schemas/{OTHER_TASK}"} == schemas["Task"]["oneOf"][-1]


@pytest.mark.parametrize("name", sorted({**BODIES, **ANSWERS}.keys() & SCHEMAS.keys()))
def test_an_example_fits_its_schema(name: str) -> None:
    """Each example of a body or an answer is valid."""
    assert [] == list(description().errors(f"/components/schemas/{name}", SCHEMAS[name]["examples"][0]))


def test_every_body_has_an_example() -> None:
    """People learn a body by reading one."""
    sent = {
        media["schema"]["$ref"].rpartition("/")[2]
        for _, _, said in operations()
        for media in said.get("requestBody", {}).get("content", {}).values()
        if "$ref" in media["schema"]
    }
    assert sent <= BODIES.keys()


async def test_the_examples_of_bodies_are_accepted(here: World) -> None:
    """What the description shows can be sent as it is shown."""
    job = (await here.client.post(f"{API}/jobs", json=BODIES["JobBody"])).json()["job_id"]
    routes = {
        "JobBody": ("POST", "/jobs"), "JobChangeBody": ("PUT", f"/jobs/{job}"), "JobsBody": ("POST", "/jobs:batch"),
        "RunNowBody": ("POST", f"/jobs/{job}/runNow"), "PreviewBody": ("POST", "/jobs:preview"),
        "PauseBody": ("POST", f"/jobs/{job}/pause"), "ResumeBody": ("POST", f"/jobs/{job}/resume"),
        "SkipNextBody": ("POST", f"/jobs/{job}/skipNext"), "BackfillBody": ("POST", f"/jobs/{job}/backfill"),
        "CalendarBody": ("PUT", "/calendars/holidays"), "CalendarPreviewBody": ("POST", "/calendars:preview"),
        "FederationBody": ("POST", "/federations"), "DeviceBody": ("POST", "/auth/device"),
        "KeyBody": ("POST", "/keys"), "WindowBody": ("PUT", "/windows/move"), "TaskBody": ("POST", "/tasks"),
        "RunsCancelBody": ("POST", "/runs:cancel"), "RunsRetryBody": ("POST", "/runs:retry"),
        "JobsPauseBody": ("POST", "/jobs:pause"), "JobsResumeBody": ("POST", "/jobs:resume"),
        "JobsCancelBody": ("POST", "/jobs:cancel"), "LettersRedriveBody": ("POST", "/dead-letters:redrive"),
        "LettersDiscardBody": ("POST", "/dead-letters:discard"), "QueueHoldBody": ("POST", "/queues/default/hold"),
        "QueueDrainBody": ("POST", "/queues/default/drain"), "NamespaceBody": ("POST", "/namespaces"),
        "NamespaceChangeBody": ("PATCH", "/namespaces/team-a"), "UserBody": ("POST", "/users"),
        "AlertsDecisionBody": ("POST", "/alerts:close"), "StatusPageBody": ("POST", "/status-pages"),
        "StopBody": ("POST", "/stops"), "ObjectiveBody": ("POST", "/objectives"), "ChannelBody": ("POST", "/channels"),
        "NotificationRuleBody": ("POST", "/notification-rules"), "RevokeBody": ("POST", "/auth/revoke"),
        "QuotasBody": ("PUT", "/namespaces/team-a/quotas"), "SavedViewBody": ("PUT", "/saved-views"),
        "SecretBody": ("PUT", "/secrets/db-password"), "RewrapBody": ("POST", "/secrets:rewrap"),
        "IdentityKeyRotation": ("POST", "/auth/identity-keys:rotate"),
    }  # fmt: skip
    for name, (method, path) in routes.items():
        answer = await here.client.request(method, API + path, json=BODIES[name])
        assert answer.status_code < 300, (name, answer.text)
    # What is left is about one run, one time, one key, one channel, one rule, one alert, one status page or one group
    # of failures that is not there, about a person (`test_people.py`), or takes the job elsewhere
    # (`test_job_moves.py`).
    people = {"UserChangeBody", "RegisterBody", "LinkUseBody", "PasswordBody", "TokenBody", "RolePermissionsBody"}
    people |= {"IdentityBody", "LogoutTokenBody"}
    people |= {"CodesBody", "CodeBody", "FactorChangeBody", "OwnPasswordBody"}
    others = {
        "ErrorResolveBody",
        "ErrorIgnoreBody",
        "SnoozeBody",
        "RunRetryBody",
        "RedriveBody",
        "DiscardBody",
        "DecideBody",
        "JobMoveBody",
        "KeyRotateBody",
        "ChannelChangeBody",
        "StatusPageChangeBody",
        "AnnouncementBody",
        "AnnouncementUpdateBody",
        "NotificationRuleChangeBody",
        "AlertNoteBody",
        "AlertSnoozeBody",
    }
    assert people | others == BODIES.keys() - routes.keys()
