"""Permissions that hold for jobs with certain labels: every route, every role, in and out of the labels and the
namespace. The requests are generated from the routes that are served."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from itertools import product
from typing import Any, Final, cast
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio

from tests.security.label_routes import (
    ABOUT,
    BODIES,
    BY_LABELS,
    CALLER,
    JOB,
    JOBS,
    NEW_JOB,
    NO_JOB,
    NOW,
    OPEN,
    OPERATION,
    QUERIES,
    RUN,
    WHOLE_JOB,
)
from tests.security.label_things import SECRET, Things, made, rows_of
from tests.security.probes import probe
from tests.support.app import World, world
from tickwise.adapters.clock import VirtualClock
from tickwise.api.endpoint import Endpoint
from tickwise.api.resources import RESOURCES
from tickwise.control.bulk.pages import OperationPages
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.model import Principal
from tickwise.domain.permissions import EVERYTHING, ROLES, closed
from tickwise.domain.selectors import Labels, labels_from
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.identity import NewKey
from tickwise.ports.store import OperationStep
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.takes_up_to(120)

INSIDE: Final = {"team": "billing", "env": "prod"}
SELECTOR: Final = {"team": "billing"}
OUTSIDE: Final = {"team": "ops", "env": "prod"}
OTHER: Final = "other"
NOT_THERE: Final = Things(
    job_id="01a1fd81-8cdc-82e9-be4e-34f9a5bd159d",
    key="a-key-of-no-job",
    failed="01a1fd81-8cdc-82e9-be4e-34f9a5bd159e",
    queued="01a1fd81-8cdc-82e9-be4e-34f9a5bd159e",
    operation_id="01a1fd81-8cdc-82e9-be4e-34f9a5bd159f",
)
CUSTOM: Final = {
    "rerunner": frozenset({"jobs:read", "runs:read", "runs:write"}),
    "submitter": frozenset({"jobs:write"}),
    "librarian": frozenset({"tasks:write", "calendars:write", "windows:write"}),
}
ALL_ROLES: Final = {**ROLES, **CUSTOM}
OF_RUNS: Final = {"getOperation": {"runs:read", "runs:write"}, "cancelOperation": {"runs:write"}}
"""The probed operations are about runs, and need a permission for runs."""
FILTERS: Final[dict[str, Any]] = {
    "resumeJobs": {"status": ["SCHEDULED"]},
    "redriveDeadLetters": {"status": ["held"]},
    "discardDeadLetters": {"status": ["held"]},
}
"""Filters that find what was made here; where none is named, everything."""
MATRIX: Final = tuple(each for each in RESOURCES if ABOUT[each.name] in BY_LABELS)
OF_HEALTH: Final = ("describe", "metrics", "healthDetails")
WITH_IDS: Final = tuple(each for each in RESOURCES if ABOUT[each.name] in (JOB, RUN, OPERATION))


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(NOW)) as made_world:
        await made_world.key("the-key-of-the-other", EVERYTHING, namespace=OTHER)
        yield made_world


async def key_of(here: World, name: str, permissions: Iterable[str], *selectors: dict[str, str]) -> str:
    """A key of the namespace `default` with these permissions, for jobs with these labels."""
    secret = f"key of {name} for {json.dumps(selectors)}"
    labels: Labels = labels_from(selectors[0]) if selectors else ()
    principal = Principal(name, "default", frozenset(permissions))
    identifier = Factory(NOW, seed=secret).identifier()
    await here.store.keys.add(
        NewKey(key_id=identifier, digest=secret_digest(secret.encode()), principal=principal, labels=labels)
    )
    return secret


async def asked(
    here: World, endpoint: Endpoint, key: str, things: Things, namespace: str | None = None, **more: Any
) -> httpx2.Response:
    """The answer to a good request to this route, about these things."""
    headers = {"Authorization": f"Bearer {key}"}
    if namespace is not None:
        headers["Tickwise-Namespace"] = namespace
    body = more.get("body", BODIES.get(endpoint.name))
    if endpoint.method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    content = None if body is None else json.dumps(body).encode()
    path = re.sub(r"\{\w+\}", "some-name", things.path(endpoint.path, endpoint.name))
    path += QUERIES.get(endpoint.name, "")
    # The head of an answer that does not end; its content is in `tests/unit/api/test_live_events.py`.
    method = "HEAD" if endpoint.endless else endpoint.method
    return await here.client.request(method, path, headers=headers, content=content)


def is_granted(permissions: Iterable[str], needed: Iterable[str]) -> bool:
    held = closed(permissions)
    return EVERYTHING in held or not held.isdisjoint(needed)


def expected(endpoint: Endpoint, permissions: Iterable[str], place: str, *, restricted: bool) -> int:
    """The status of the answer to a good request about a thing in this place; 2 for success."""
    about = ABOUT[endpoint.name]
    if not is_granted(permissions, endpoint.permissions) or (restricted and about not in BY_LABELS):
        return 403
    if about == NEW_JOB:
        return 403 if restricted and place == "outside" else 2
    if about not in (JOB, RUN, OPERATION):
        return 2
    if place == "another namespace" or (restricted and place == "outside"):
        return 409 if endpoint.name == "upsertJob" else 404
    # Which permission an operation needs is seen when it is found.
    if not is_granted(permissions, OF_RUNS.get(endpoint.name, endpoint.permissions)):
        return 404 if restricted else 403
    return 2


def body_with(endpoint: Endpoint, labels: dict[str, str]) -> Any:
    """The body of the route, for a job with these labels where it makes one."""
    body: Any = BODIES.get(endpoint.name)
    if ABOUT[endpoint.name] != NEW_JOB:
        return body
    return [{**each, "labels": labels} for each in body] if isinstance(body, list) else {**body, "labels": labels}


def status_of(answer: httpx2.Response) -> int:
    """The status of an answer; of a batch of one, that of its job."""
    if answer.status_code == 200 and answer.request.url.path.endswith("jobs:batch"):
        status: int = answer.json()["results"][0]["status"]
        return status
    return answer.status_code


@probe(10, stopped_by="a method heeds labels only if it says so, and each route is classified")
async def test_a_route_that_nobody_classified_lets_no_labels_in(here: World) -> None:
    """A new route is served, about which nobody said what labels mean for it."""
    described = (await here.client.get("/openapi.json")).json()["paths"].values()
    served = {each["operationId"]: each for path in described for each in path.values()}
    assert set(served) == set(ABOUT)
    by_labels = {name for name, about in ABOUT.items() if about in BY_LABELS}
    assert by_labels == {name for name, each in served.items() if each.get("x-by-labels")}
    assert by_labels == {each.name for each in RESOURCES if each.by_labels}
    assert {each.name: " or ".join(each.permissions) for each in RESOURCES if each.permissions} == {
        name: each["x-scope"] for name, each in served.items() if "x-scope" in each and name not in OF_HEALTH
    }
    assert {each.name for each in RESOURCES if each.is_open} == {
        name for name, about in ABOUT.items() if about == OPEN
    } - {"live", "ready", "health"}
    assert {each.name for each in RESOURCES if each.signed_in} == {
        name for name, about in ABOUT.items() if about == CALLER
    }
    for endpoint in RESOURCES:
        has_id = {"{job_id}", "{run_id}", "{operation_id}", "{key}"} & set(re.findall(r"\{\w+\}", endpoint.path))
        assert bool(has_id) == (ABOUT[endpoint.name] in (JOB, RUN, OPERATION, WHOLE_JOB)), endpoint.name


@probe(10, stopped_by="the permission of the method that a route calls, bound to the labels of the grant")
@pytest.mark.parametrize("role", ALL_ROLES)
async def test_every_route_by_every_role_in_and_out_of_its_labels(here: World, role: str) -> None:
    """Each role, with and without labels, asks each route about a job in its labels, out of them, and elsewhere."""
    permissions = ALL_ROLES[role]
    keys = {
        False: await key_of(here, f"whole {role}", permissions),
        True: await key_of(here, f"restricted {role}", permissions, SELECTOR),
    }
    elsewhere = {"outside": ("default", OUTSIDE), "another namespace": (OTHER, INSIDE)}
    there = {place: await made(here, *where) for place, where in elsewhere.items()}
    before = {place: await rows_of(here, elsewhere[place][0], things) for place, things in there.items()}
    wrong: list[tuple[Any, ...]] = []
    for endpoint, restricted, place in product(MATRIX, (False, True), ("inside", *elsewhere)):
        wanted = expected(endpoint, permissions, place, restricted=restricted)
        if place != "inside" and (wanted == 2 or endpoint.name == "upsertJob"):
            continue  # the other cases are about what must not be reached
        things = there.get(place) or await made(here, "default", INSIDE)
        body = body_with(endpoint, OUTSIDE if place == "outside" else INSIDE)
        found = status_of(await asked(here, endpoint, keys[restricted], things, body=body))
        if wanted != (2 if found // 100 == 2 else found):
            wrong.append((endpoint.name, restricted, place, wanted, found))
    assert [] == wrong
    assert before == {place: await rows_of(here, elsewhere[place][0], things) for place, things in there.items()}


@probe(10, stopped_by="what has no labels is for unrestricted permissions")
@pytest.mark.parametrize("role", ALL_ROLES)
async def test_labels_open_nothing_that_has_no_labels(here: World, role: str) -> None:
    """Each role with labels asks for queues, tasks, calendars, keys, people, counts and all else that is no job."""
    key = await key_of(here, f"restricted {role}", ALL_ROLES[role], SELECTOR)
    others = [endpoint for endpoint in RESOURCES if ABOUT[endpoint.name] in (NO_JOB, WHOLE_JOB)]
    assert len(others) > 40
    for endpoint in others:
        assert 403 == (await asked(here, endpoint, key, NOT_THERE)).status_code, endpoint.name
    headers = {"Authorization": f"Bearer {key}"}
    for path in ("/metrics", "/openapi.json"):
        assert 403 == (await here.client.get(path, headers=headers)).status_code
    me = (await here.client.get("/api/v1/auth/me", headers=headers)).json()
    assert ([], [SELECTOR]) == (me["permissions"], [each["labels"] for each in me["restricted"]])


@probe(10, stopped_by="a request becomes one principal, by the grants that hold in its namespace")
@pytest.mark.parametrize("role", ALL_ROLES)
async def test_no_role_reaches_another_namespace(here: World, role: str) -> None:
    """Each role, with and without labels, names a namespace that it has no grant in, on every route."""
    things = await made(here, OTHER, INSIDE)
    for selectors in ((), (SELECTOR,)):
        key = await key_of(here, f"elsewhere {role}", ALL_ROLES[role], *selectors)
        for endpoint in RESOURCES:
            if not endpoint.is_open:
                answer = await asked(here, endpoint, key, things, namespace=OTHER)
                assert 403 == answer.status_code, endpoint.name


@probe(10, stopped_by="a thing out of the labels or of the namespace is looked up as one that is not there")
@pytest.mark.parametrize("place", ["of another namespace", "out of the labels"])
@pytest.mark.parametrize("endpoint", WITH_IDS, ids=lambda each: each.name)
async def test_an_id_that_was_guessed_tells_nothing(here: World, endpoint: Endpoint, place: str) -> None:
    """A developer with labels sends ids of jobs, runs, letters and operations of others, by every route and method."""
    key = await key_of(here, "prober", ROLES["developer"], SELECTOR)
    namespace, labels = (OTHER, INSIDE) if place == "of another namespace" else ("default", OUTSIDE)
    things = await made(here, namespace, labels)
    before = await rows_of(here, namespace, things)
    probed = await asked(here, endpoint, key, things)
    missing = await asked(here, endpoint, key, NOT_THERE)
    if endpoint.name == "upsertJob":
        assert (403, 403) == (probed.status_code, missing.status_code) or 409 == probed.status_code
    else:
        assert (404, 404) == (probed.status_code, missing.status_code)
        assert told(probed, things) == told(missing, NOT_THERE)
    assert SECRET not in probed.text.replace(things.key, "")
    assert before == await rows_of(here, namespace, things)


def told(answer: httpx2.Response, things: Things) -> Any:
    """What a refusal says, without the id that was sent."""
    if answer.request.method == "HEAD":
        return len(answer.content), answer.headers["content-type"]
    problem = answer.json()
    problem.pop("request_id", None)
    text = json.dumps(problem)
    for value in (things.job_id, things.key, things.failed, things.queued, things.operation_id):
        text = text.replace(value, "ID")
    return text


@probe(10, stopped_by="the labels are a condition of the search itself")
@pytest.mark.parametrize(
    "endpoint",
    [each for each in RESOURCES if ABOUT[each.name] == JOBS and not each.endless],
    ids=lambda each: each.name,
)
async def test_a_search_finds_nothing_out_of_the_labels(here: World, endpoint: Endpoint) -> None:
    """A developer with labels lists and filters everything there is, by each route that finds jobs, runs or letters."""
    label = {"team": f"search-{endpoint.name.lower()}"}
    key = await key_of(here, "searcher", ROLES["developer"], label)
    mine, other = await made(here, "default", label), await made(here, "default", OUTSIDE)
    for things in (mine, other):
        place = log_chunk_key(UUID(things.failed), 1, 0, last=True)
        await here.control.context.blobs.put(place, b"a needle\n")
    await cast(VirtualClock, here.clock).advance(1.0)  # what is due now is yet to come for an analysis
    body = None if endpoint.method == "GET" else {"filter": FILTERS.get(endpoint.name, {"all": True}), "dry_run": True}
    answer = await asked(here, endpoint, key, mine, body=body)
    assert 200 == answer.status_code, answer.text
    found = answer.json()
    named = "key" if endpoint.name == "analyseRuns" else "job_id"
    assert {mine.job_id} == set(re.findall(rf'"{named}": ?"([^"]+)"', json.dumps(found)))
    if endpoint.method == "POST":
        assert found["matches"] == len(found["sample"]) > 0
    for value in (other.job_id, other.key, other.failed, other.queued):
        assert value not in answer.text


@probe(10, stopped_by="the labels are stored with the operation, and heeded at each of its effects")
async def test_an_operation_on_everything_keeps_to_the_labels(here: World) -> None:
    """A developer with labels asks to cancel all jobs and all runs, and schedulers carry it out."""
    key = await key_of(here, "wrecker", ROLES["developer"], {"team": "wrecked"})
    mine, other = await made(here, "default", {"team": "wrecked"}), await made(here, "default", OUTSIDE)
    before = await rows_of(here, "default", other)
    for endpoint in (each for each in RESOURCES if ABOUT[each.name] == JOBS and each.method == "POST"):
        answer = await asked(here, endpoint, key, mine, body={"filter": {"all": True}})
        assert 202 == answer.status_code, answer.text
        while (operation := await here.store.operations.take(60.0)) is not None:
            page = await OperationPages(here.control.context).page(operation, 50)
            assert page.cursor is None
            step = OperationStep(
                operation_id=operation.operation_id, expected_step=operation.step, cursor=None,
                done=page.done, refused=page.refused, problems=page.problems,
            )  # fmt: skip
            await here.store.operations.step(step)
    after = await rows_of(here, "default", mine)
    assert ("CANCELLED", "CANCELLED") == (after[0].status, after[2].state)
    assert before == await rows_of(here, "default", other)
