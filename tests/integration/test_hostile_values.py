"""Numbers, times, ids and addresses that no caller should send, in each parameter, field and header of each route: they
are refused, and no answer is an error of the server.

    WebPage.query, names that views ask of a form ──┐
    Endpoint.query, .body, .headers ────────────────┴──► one request for each name and value ──► below 500

`HOSTILE=all` sends each value for each name, in six minutes; else a share of them. On PostgreSQL: what a page lets
through must be a value that the database takes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import SAME_ORIGIN, Browser, Rig, pages
from tests.support.people import signing_key
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres.schema import upgrade
from tickwise.adapters.store.postgres.store import PostgresStore
from tickwise.api.endpoint import Endpoint, cursor_of
from tickwise.api.examples import BODIES
from tickwise.api.resources import RESOURCES
from tickwise.web import app as web_app
from tickwise.web.page import WebPage
from tickwise.web.views import PAGES

pytestmark = pytest.mark.takes_up_to(240)

NUMBERS: Final = ("nan", "-inf", "1e400", "1e18", "-1", "9" * 30, "9" * 5_000)
TIMES: Final = (
    "0000-01-01T00:00", "0001-01-01T00:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59",
    "9999-12-31T23:59:59.999999-23:59", "10000-01-01T00:00:00Z",
)  # fmt: skip
CURSORS: Final = (
    "nan~1", "1e18~5", "-1e18~5", "1~99999999999999999999", "nan_019a2b3c-4d5e-8f60-9123-456789abcdef",
    "1e400_019a2b3c-4d5e-8f60-9123-456789abcdef",
)  # fmt: skip
TEXTS: Final = (
    "\0",
    "\ud800",
    "[",
    "http://[",
    "//[::1",
    "{",
    "[" * 2_000,
    "=",
    "a=\0",
    '{"a":1e999}',
    '"\\ud800"',
    "\u200b",
)
HOSTILE: Final = (*NUMBERS, *TIMES, *CURSORS, *TEXTS)
SHARE: Final = 1 if os.environ.get("HOSTILE") == "all" else 4
"""One value of so many is sent for a name, another one for the next: each value goes through a hundred names."""
SOME_ID: Final = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"
ENDINGS: Final = {"sign_out", "sign_in", "user_deactivate", "namespace_remove", "namespace_close"}
"""Forms that end what the others need. Their fields are names and passwords, no numbers."""


def _values(place: int, name: str, values: tuple[str, ...] = HOSTILE) -> list[str]:
    """The values that are sent for a name: all that its reader was made for, and a share of the others."""
    made_for = {*CURSORS} if "cursor" in name else {*TIMES} if _IS_TIME.search(name) else set()
    return [each for number, each in enumerate(values) if each in made_for or (number + place) % SHARE == 0]


_IS_TIME: Final = re.compile(r"(^|[._])(at|from|to|since|until|begin|end|after|before|time|anchor|dates|periods)$")


def _raw(text: str) -> str:
    """A text for an address or a form, a lone surrogate as the three bytes that it would have."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@dataclass(slots=True)
class Site:
    """Pages and the API on one database, and the ids of what is there."""

    rig: Rig
    browser: Browser
    ids: dict[str, str]
    asked: set[str] = field(default_factory=set)
    """The names that the last view asked of its form."""


class _Recorder(dict[str, str]):
    """A form that notes which fields are asked for."""

    asked: set[str]

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


@pytest_asyncio.fixture(scope="module")
async def site(database_url: str) -> AsyncIterator[Site]:
    """A job, a run, a stop, a calendar, a window, a key, a person and a namespace; an administrator looks at them."""
    await upgrade(database_url)
    read = web_app._form
    async with pages(store=PostgresStore(database_url, clock=SystemClock()), late_limit_seconds=1e9) as rig:
        await rig.here.control.bearers.sign_with(signing_key())
        found = Site(rig, await rig.signed_in("asker", ("admin", "*")), await _things(rig))

        async def recorded(request: Any) -> Mapping[str, str]:
            form = _Recorder(await read(request))
            form.asked = found.asked
            return form

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(web_app, "_form", recorded)
            yield found


async def _things(rig: Rig) -> dict[str, str]:
    client = rig.here.client

    async def made(method: str, path: str, body: Any) -> Any:
        answer = await client.request(method, f"{API}{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    task = {"kind": "shell", "command": "true"}
    job = (await made("POST", "/jobs", {"name": "there", "key": "there", "every": "1h", "task": task}))["job_id"]
    run = (await made("POST", f"/jobs/{job}/runNow", {}))["run_id"]
    stop = (await made("POST", "/stops", {"queue": "q", "reason": "r"}))["stop"]["stop_id"]
    await made("PUT", "/calendars/there", BODIES["CalendarBody"])
    await made("PUT", "/windows/there", BODIES["WindowBody"])
    key = (await made("POST", "/keys", BODIES["KeyBody"]))["key_id"]
    user = (await made("POST", "/users", BODIES["UserBody"]))["user_id"]
    await made("POST", "/namespaces", {"name": "there"})
    await made("POST", "/tasks", {"taskId": "there", "script": "print(1)"})
    operation = (await made("POST", "/runs:retry", {"filter": {"all": True}}))["operation_id"]
    return {
        "job_id": job, "run_id": run, "stop_id": stop, "key_id": key, "user_id": user, "operation_id": operation,
        "queue": "default", "name": "there", "key": "there", "task_id": "there", "date": "2026-12-25",
    }  # fmt: skip


def _path(site: Site, path: str) -> str:
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: site.ids.get(found[1], SOME_ID), path)


# ------------------------------------------------------------------------------------------ pages


@pytest.mark.parametrize("page", [each for each in PAGES if each.query], ids=lambda page: f"{page.method} {page.path}")
async def test_no_parameter_of_a_page_is_an_error_of_ours(site: Site, page: WebPage) -> None:
    """Of those that it declares."""
    method = "HEAD" if page.is_stream else page.method  # a stream would not end
    wrong = []
    for place, name in enumerate((*page.query, "namespace")):
        for value in _values(place, name):
            address = f"{_path(site, page.path)}?{name}={_raw(value)}"
            answer = await site.browser.client.request(
                method, address, headers={"Cookie": site.browser.cookie or "", **SAME_ORIGIN}
            )
            if answer.status_code >= 500:
                wrong.append((name, value[:60], answer.status_code))
    assert not wrong


def _forms() -> list[WebPage]:
    return [page for page in PAGES if page.method == "POST" and page.name not in ENDINGS]


@pytest.mark.parametrize("page", _forms(), ids=lambda page: page.path)
async def test_no_field_of_a_form_is_an_error_of_ours(site: Site, page: WebPage) -> None:
    """Of those that its view asks for: each alone wrong, the others as a browser would send them."""
    site.asked.clear()
    await _send(site, page, {})
    base = FORMS.get(page.name, {})
    await _send(site, page, base)
    wrong = []
    for place, name in enumerate(sorted(site.asked | base.keys())):
        for value in _values(place, name):
            status = await _send(site, page, {**base, name: value})
            if status >= 500:
                wrong.append((name, value[:60], status))
    assert not wrong


async def _send(site: Site, page: WebPage, form: Mapping[str, str]) -> int:
    content = "&".join(f"{_raw(name)}={_raw(value)}" for name, value in form.items())
    answer = await site.browser.client.post(
        _path(site, page.path),
        content=content,
        headers={
            "Cookie": site.browser.cookie or "",
            "Content-Type": "application/x-www-form-urlencoded",
            **SAME_ORIGIN,
        },
    )
    return answer.status_code


FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "job_create": {
        "name": "a", "kind": "shell", "task.command": "true", "schedule_type": "CRON", "cron": "0 0 * * *",
        "timezone": "UTC", "payload": "{}", "action": "preview",
    },
    "stop_add": {"what": "queue", "which": "q", "reason": "r", "for": "15", "meanwhile": "hold"},
    "job_pause": {"reason": "r"},
    "calendar_add": {"name": "new", "timezone": "UTC", "dates": "2026-12-25", "preview": "1"},
    "window_add": {"name": "new", "timezone": "UTC", "dates": "2026-12-25", "preview": "1"},
    "calendar_change": {"timezone": "UTC", "dates": "2026-12-25", "preview": "1"},
    "window_change": {"timezone": "UTC", "dates": "2026-12-25", "preview": "1"},
}  # fmt: skip
"""Forms whose fields are read one after the other: the first fault would hide those after it."""


@pytest.mark.parametrize("part", ["when", "task", "timezone", "retry", "labels", "queue", "payload", "start_at"])
async def test_a_forged_base_of_an_edit_is_no_error_of_ours(site: Site, part: str) -> None:
    """The hidden field with the job as it was is from the visitor, too."""
    job = _path(site, "/jobs/{job_id}/edit")
    page = await site.browser.get(job)
    fields = dict(_FIELD.findall(page.text))
    base = json.loads(_unescaped(re.search(r'name="base" value="([^"]*)"', page.text)[1]))  # type: ignore[index]  # the page has it
    assert part in base, sorted(base)
    assert "version" in fields
    for value in FORGED:
        for version in ("1", "999"):
            form = {"version": version, "action": "review", "name": "other", "kind": "shell", "task.command": "x",
                    "schedule_type": "CRON", "cron": "1 1 * * *", "timezone": "UTC",
                    "base": json.dumps({**base, part: value})}  # fmt: skip
            answer = await site.browser.post(job, form)
            assert answer.status_code < 500, (part, value, version)


_FIELD: Final = re.compile(r'name="([^"]*)" value="([^"]*)"')
FORGED: Final[tuple[Any, ...]] = (
    None, 1, 1e300, "x", "\ud800", [], [1], {}, {"a": "b"}, {"schedule_type": "CRON"}, {"schedule_type": 1},
    {"schedule_type": "INTERVAL", "interval_seconds": "x"}, {"schedule_type": "INTERVAL", "interval_seconds": 1e300},
    {"schedule_type": "FUTURE", "schedule_time": "9999-12-31T23:59:59-23:59"}, {"kind": "nothing"}, {"kind": []},
)  # fmt: skip


def _unescaped(text: str) -> str:
    import html

    return html.unescape(text)


@pytest.mark.parametrize(
    "name", ["origin", "host", "referer", "sec-fetch-site", "last-event-id", "cookie", "accept-encoding"]
)
async def test_no_header_of_a_browser_is_an_error_of_ours(site: Site, name: str) -> None:
    """Origin and Host are addresses, or what somebody wrote in their place."""
    for value in (
        "[",
        "http://[",
        "http://[::1",
        "a:99999999",
        "\xe9",
        "nan",
        "x" * 5_000,
        ",",
    ):
        for method, path in (
            ("GET", "/login"),
            ("POST", "/login"),
            ("GET", "/jobs"),
            ("POST", "/jobs/new"),
            ("HEAD", "/live"),
        ):
            headers = {b"cookie": (site.browser.cookie or "").encode(), name.encode(): value.encode("latin-1")}
            answer = await site.browser.client.request(method, path, headers=headers)
            assert answer.status_code < 500, (name, value[:60], method, path)


# ------------------------------------------------------------------------------------------ the API


def _with(kind: str) -> list[Endpoint]:
    return [each for each in RESOURCES if getattr(each, kind)]


def _lists() -> list[Endpoint]:
    """Routes with parameters whose answer ends. An export reads those of the list."""
    return [each for each in _with("query") if not each.endless and each.name != "exportAudit"]


@pytest.mark.parametrize("route", _lists(), ids=lambda route: route.name)
async def test_no_parameter_of_a_route_is_an_error_of_ours(site: Site, route: Endpoint) -> None:
    """Of those that it declares; cursors as they are, and in the form that ours have."""
    assert route.query is not None
    wrong = []
    for place, name in enumerate(route.query.__struct_encode_fields__):
        values = _values(place, name)
        ours = [cursor_of(each.replace("~", " ")) for each in values if "\ud800" not in each]
        for value in (*values, *ours) if name == "cursor" else values:
            address = f"{_path(site, route.path)}?{name}={_raw(value)}"
            answer = await site.rig.here.client.request(route.method, address)
            if answer.status_code >= 500:
                wrong.append((name, value[:60], answer.status_code))
    assert not wrong


_MARK: Final = "a value of these tests"
_JSON: Final = (
    "1e400", "-1e400", "1e18", "-1", "0", "1e300", "9" * 30, "null", "[]", "{}", "true",
    '"\\u0000"', '"\\ud800"', '"1e400"',
    '"nan"', "[[]]", '{"a":1e18}', "\"\u200b\"", *(f'"{time}"' for time in TIMES), '"9999-12-31T23:59:59Z"',
    '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59-23:59"', '"PT9999999999H"', '"999999999d"', f'"{"9" * 5_000}s"',
)  # fmt: skip


def _places(body: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    """The names of the fields of a body, also of those that it does not have, each with a copy that has the mark in
    its place."""
    for name in kind.__struct_encode_fields__:
        yield name, {**body, name: _MARK}
        inner = body.get(name)
        if isinstance(inner, dict):
            for each in inner:
                yield each, {**body, name: {**inner, each: _MARK}}
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            for each in inner[0]:
                yield each, {**body, name: [{**inner[0], each: _MARK}]}


@pytest.mark.parametrize("route", _with("body"), ids=lambda route: route.name)
async def test_no_field_of_a_body_is_an_error_of_ours(site: Site, route: Endpoint) -> None:
    """Of those that it declares: each alone wrong, in the example of the description."""
    assert route.body is not None
    kinds = [each for each in (route.body, *get_args(route.body)) if hasattr(each, "__struct_encode_fields__")]
    wrong = []
    for kind in kinds:
        for place, (name, body) in enumerate(_places(BODIES.get(kind.__name__, {}), kind)):
            text = json.dumps(body)
            for value in _values(place, name, _JSON):
                answer = await site.rig.here.client.request(
                    route.method, _path(site, route.path), content=text.replace(f'"{_MARK}"', value).encode(),
                    headers={"Content-Type": "application/json"},
                )  # fmt: skip
                if answer.status_code >= 500:
                    wrong.append((text[:200], value[:60], answer.status_code, answer.text[:100]))
    assert not wrong


HEADERS: Final = (
    "tickwise-namespace", "idempotency-key", "if-match", "if-none-match", "accept", "accept-encoding",
    "accept-language", "content-type", "host", "origin", "prefer", "authorization", "last-event-id",
)  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
async def test_no_header_of_a_request_is_an_error_of_ours(site: Site, name: str) -> None:
    """On a thing and a write."""
    job = f"{API}/jobs/{site.ids['job_id']}"
    for value in (
        *NUMBERS,
        "[",
        "http://[",
        '"',
        'W/"',
        '"x',
        ";q=nan",
        "*/*;q=1e400",
        "a/b;q=9999999999",
        ",",
        "\xff",
        "*",
    ):
        for method, path in (("GET", job), ("POST", f"{API}/jobs")):
            answer = await site.rig.here.client.request(
                method,
                path,
                headers={name.encode(): value.encode("latin-1")},
                content=b"{}" if method in ("PATCH", "POST") else None,
            )
            assert answer.status_code < 500, (name, value[:60], method, path)
