"""The reference page of the messages that roles send through a broker: `python -m tests.style.messages_page`."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tests.style import source
from tests.style.tree import ROOT
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Lane, Outcome
from tickwise.ports.store import Ready
from tickwise.roles.shared.messages import (
    VERSION,
    Hints,
    NewJobPart,
    OutcomeTrace,
    OutcomeUsage,
    Request,
    Results,
    decode,
    encode,
)

PLACE = "docs/reference/messages.md"
SOURCES = {
    "Outcome": "src/tickwise/domain/model.py",
}
MESSAGES = "src/tickwise/roles/shared/messages.py"

JOB = UUID("019a2b3c-4d5e-8f60-9123-456789abcdef")
RUN = UUID("019a2b3c-4d5f-8a01-8123-0123456789ab")
LANE = Lane("default", 5, ("function:report", "task:function"))
OPERATION = UUID("019a2b3c-4d60-8b02-9123-0123456789ab")


class Page(NamedTuple):
    """What is said of one message."""

    kind: type[Any]
    channel: str
    key: str
    who: str
    example: Any


PAGES = (
    Page(
        Hints, "`runs.p0` … `runs.p9`, by priority", "none: spread over the partitions",
        "Claim hints for executors, published after a commit of runs. Sent without waiting: a lost hint costs latency.",
        Hints.of(LANE, [Ready(RUN, 1_800_000_000.0, LANE, "default")]),
    ),
    Page(
        Results, "`results`", "the executor's number, as text",
        "Executors tell how attempts ended (setting `results`). Sent: the executor keeps them until they are applied.",
        Results(7, 41, (Outcome(RUN, 12, CODES[RunState.SUCCESS], 1_800_000_000.0, 1_800_000_001.5),)),
    ),
    Page(
        Request, "`requests`", "the job's id, 16 bytes",
        "The API tells recorders what it answered with 202 (setting `ingest`). Sent: the answer waits for it.",
        Request(
            "create", JOB, JOB, "default", "admin", 1_800_000_000.0,
            NewJobPart(
                "report", "FUTURE", "function",
                '{"schedule_type":"FUTURE","schedule_time":1830297600.0,"task":{"kind":"function","name":"report"}}',
                "default", 5, ("function:*", "task:function"), run_id=RUN, due=1_830_297_600.0,
            ),
        ),
    ),
)  # fmt: skip
CHANGE = Request("change", OPERATION, JOB, "default", "admin", 1_800_000_000.0, body=b'{"cron":"0 3 * * *"}')
WITHIN: tuple[type[Any], ...] = (NewJobPart, Outcome, OutcomeUsage, OutcomeTrace)

HEAD = f"""\
# Messages between roles

<!-- Written from `roles/shared/messages.py` by `python -m tests.style.messages_page`; a test compares the two. -->

Roles in different processes send each other three kinds of messages through the broker (`broker_url`). You need this
page to look into a topic or to read parked messages; there is nothing to configure.

Every message is one [MessagePack](https://msgpack.org) map with the names of its fields as keys, so any tool shows it.
A field at its default may be left out. Ids are text in their usual form, unless a field says otherwise; times are
seconds since 1970 in UTC. A message has at most 2 MiB.

**The rule of versions.** `v` is {VERSION}. A reader ignores fields that it does not know, and a field that is added has
a default: so older and newer processes run side by side, and either may be upgraded first. Any other change, also of
the items of an array, needs a new `v`, which one release reads before the next one writes it. A reader parks a message
with a later `v` than it knows, and bytes that are no message, unchanged in `dead`, and goes on.

**A mark** is a message of `requests` with an empty value. Recorders send one to each partition every second; when it
comes back, everything before it in its partition is applied: so readers distinguish pending requests from absent ones.

## Signatures

A recorder believes a message by its signature, not by its place in a topic. Requests and results have the header
`signature`; the store checks the content of all other messages anyway.

| message | signed by | with |
| --- | --- | --- |
| request | the API that answered it | HMAC-SHA256, the first secret of `requests_keys` |
| results | the executor that ran the attempts | Ed25519, a key pair that it makes when it joins |
| mark, hint, `dead` | – | – |

Recorders verify requests with each secret of `requests_keys`, and results with the public key in the executor's row;
the private one never leaves its process. A mark carries nothing but its own place; executors claim a run that a hint
names in the store, with its fences.

Signed are these bytes, where `0` is a zero byte and numbers are decimal: `tickwise.1` 0 the name of the store
(`tickwise.cluster.cluster_id`) 0 the channel (`requests`, `results`) 0 the partition 0 the length of the key 0 the key,
the value. So a message that is copied to another cluster, channel or partition is refused there. One that is sent again
to its own place comes after the first and changes nothing; a request that is sent again more than 7 days after it was
accepted (or half of `retention_runs_days`, if that is shorter) is refused, because the store may have deleted its
outcome.

A message without a valid signature goes to `dead` with its bytes, and is counted
(`tickwise_messages_unverified_total`); the messages after it are applied. `unsigned_messages` names the messages that
need no signature: as shipped results of executors that are older than signatures, and requests while `requests_keys` is
not set. **Then a client that can write `requests` has the rights of a key with every scope**, in every namespace; a
recorder without `requests_keys` warns of that at its start.

"""

DEAD = """\
## dead

Messages that could not be read or applied: value, key and headers as they came, and added headers in UTF-8: `channel`,
`partition` and `offset` give its former place, `error` the fault, `role` the role that parked it, `time` the time. Only
people read this channel. To apply it again once the reason is gone, send value, key and the header `signature` to its
channel, within 7 days for a request. A message without room for the added headers loses its own, or its key and the
part over 2 MiB.
"""


def page() -> str:
    """The whole page."""
    sections = [_section(said) for said in PAGES] + [_part(kind) for kind in WITHIN]
    return HEAD + "".join("\n".join(section) + "\n\n" for section in sections) + DEAD


def _section(said: Page) -> Iterator[str]:
    yield from (f"## {said.kind.__name__}", "", _docstring(said.kind), "", said.who, "")
    yield from (f"Channel {said.channel} · key: {said.key}", "")
    yield from _table(said.kind)
    yield from ("", "For example:", "", _shown(said.example))
    if said.kind is Request:
        yield from ("", "and a change of it:", "", _shown(CHANGE))


def _part(kind: type[Any]) -> Iterator[str]:
    yield from (f"### {kind.__name__}", "", _docstring(kind), "")
    if kind is Outcome:
        yield from (
            "An array, in this order; what follows the last one that is not at its default may be left out.",
            "",
        )
    yield from _table(kind)


def _table(kind: type[Any]) -> Iterator[str]:
    meanings = source.fields_said(SOURCES.get(kind.__name__, MESSAGES), kind.__name__)
    yield from ("| field | type | default | meaning |", "| --- | --- | --- | --- |")
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # a Struct or a NamedTuple
        hint = typing.get_type_hints(kind)[field.name]
        default = "required" if field.required else f"`{json.dumps(_plain(field.default))}`"
        yield f"| `{field.name}` | {_type(hint)} | {default} | {meanings.get(field.name, '')} |".replace("|  |", "| |")


def _type(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(each) for each in typing.get_args(hint)))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"array of {_type(typing.get_args(hint)[0])}"
    if typing.get_origin(hint) is dict:
        return "map of texts"
    if hint in WITHIN:
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return {UUID: "id", str: "text", bytes: "bytes", float: "float", int: "int", bool: "bool"}.get(hint, "nil")


def _plain(value: Any) -> Any:
    return None if value is msgspec.NODEFAULT else value.decode() if isinstance(value, bytes) else value


def _docstring(kind: type[Any]) -> str:
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def _shown(message: Hints | Results | Request) -> str:
    """It as a tool would show it. Raises AssertionError if it is not read as it was written."""
    sent = encode(message)
    again: Any = decode(type(message), sent)  # type: ignore[type-var]  # each by its own kind
    assert again == message
    text = json.dumps(msgspec.msgpack.decode(sent), indent=1, ensure_ascii=False, default=_bytes)
    return "```json\n" + text + "\n```"


def _bytes(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return text if text.isprintable() else f"hex {value.hex()}"


def missing() -> list[str]:
    """Fields without a meaning, whose names do not say it by themselves."""
    found = []
    kinds: list[type[Any]] = [*(said.kind for said in PAGES), *WITHIN]
    for kind in kinds:
        meanings = source.fields_said(SOURCES.get(kind.__name__, MESSAGES), kind.__name__)
        names = [field.name for field in msgspec.inspect.type_info(kind).fields]  # type: ignore[attr-defined]  # as above
        found += [f"{kind.__name__}.{name}" for name in names if name not in meanings and name not in PLAIN]
    return found


PLAIN = frozenset(
    {
        "queue", "priority", "requires", "executor", "outcomes", "v", "kind", "job_id", "namespace", "run_id", "token",
        "started", "ended", "name", "schedule_type", "task_kind", "recurring", "due", "never", "named", "key", "digest",
        "labels", "owner", "calendars", "zone_data",
    }
)  # fmt: skip
"""What these are is said of the job, the run or the lane that they belong to."""

if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
