"""`tickwise audit …` against a whole Tickwise on a PostgreSQL: the list, the export, and the check of the chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.support.local_up import Local, Ran, local_up
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def anchors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of anchors."""
    return tmp_path_factory.mktemp("outside") / "anchors"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, database_url: str, anchors: Path) -> Iterator[Local]:
    """All roles on a database that is read by `verify` as well."""
    folder = tmp_path_factory.mktemp("up")
    with local_up(folder, "--database", database_url, TICKWISE_AUDIT_ANCHOR_FILE=str(anchors)) as up:
        yield up


def a_key(local: Local) -> str:
    """A key that was just made: its id. Its name is its own."""
    ran = local.tickwise("keys", "create", f"ci-{uuid4()}", "--role", "viewer", "--json")
    assert 0 == ran.code, ran.err
    return str(ran.json["key_id"])


def verify(local: Local, database_url: str, *arguments: str | Path) -> Ran:
    return local.tickwise("audit", "verify", "--database", database_url, *arguments)


async def sealed(local: Local, database_url: str) -> dict[str, Any]:
    """The result of a check once all entries are sealed."""
    connection = await asyncpg.connect(database_url)

    async def is_sealed() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM tickwise.audit_unsealed")

    await eventually(is_sealed, what="a scheduler seals what is there")
    await connection.close()
    found: dict[str, Any] = (await checked(local, database_url, "--json")).json
    return found


async def checked(local: Local, database_url: str, *arguments: str | Path) -> Ran:
    """`verify`, beside the loop of the test."""
    return await asyncio.to_thread(verify, local, database_url, *arguments)


def test_the_list_shows_who_did_what_and_filters_narrow_it(local: Local) -> None:
    """As a table for people and as JSON; the newest first."""
    first, second = a_key(local), a_key(local)
    both = local.tickwise("audit", "list", "--action", "key.made", "--since", "1h", "--limit", "2", "--json")
    assert [second, first] == [each["target"] for each in both.json]
    [one] = local.tickwise("audit", "list", "--target", first, "--action", "key.made", "--json").json
    assert ("key.made", first) == (one["action"], one["target"])
    table = local.tickwise("audit", "list", "--target", first)
    assert ["AT", "NAMESPACE", "ACTION", "BY", "ABOUT", "CHANGED", "FROM"] == table.out.splitlines()[0].split()
    assert f"key {first}" in table.out
    assert one["caller"]["name"] in table.out
    assert "No entries." in local.tickwise("audit", "list", "--until", "2001-01-01").err
    wrong = local.tickwise("audit", "list", "--since", "the other day")
    assert (2, True) == (wrong.code, "--since" in wrong.err)
    refused = local.tickwise("audit", "list", "--action", "job.eaten")
    assert 4 == refused.code


def test_the_export_has_each_entry_as_a_line_and_is_an_entry(local: Local, tmp_path: Path) -> None:
    """Into a file, whose count is told on the other stream, or to standard output; the oldest first."""
    keys = [a_key(local) for _ in range(3)]
    path = tmp_path / "audit.ndjson"
    ran = local.tickwise("audit", "export", "--action", "key.made", "--output", path)
    assert (0, "") == (ran.code, ran.out)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert keys == [line["target"] for line in lines][-3:]
    assert f"{len(lines)} entries were written." in ran.err
    assert [line["entry"] for line in lines] == sorted(line["entry"] for line in lines)
    printed = local.tickwise_with("audit", "export", "--target", keys[0])
    assert [keys[0]] == [json.loads(line)["target"] for line in printed.out.splitlines()]
    exports = local.tickwise("audit", "list", "--action", "audit.exported", "--json").json
    assert keys[0] == exports[0]["detail"]["target"]


async def test_verify_says_that_all_is_well_and_with_anchors_that_nothing_was_cut(
    local: Local, database_url: str, anchors: Path
) -> None:
    """Exit code 0; without anchors it says what it cannot tell."""
    await asyncio.to_thread(a_key, local)
    report = await sealed(local, database_url)
    assert (True, 0, []) == (report["valid"], report["found"], report["findings"])
    assert report["entries"] > 0
    plain = await checked(local, database_url)
    assert (0, True, True) == (plain.code, "are as they were written" in plain.out, "--anchors" in plain.err)

    async def is_noted() -> bool:
        return anchors.exists()

    await eventually(is_noted, what="the heads are noted outside")
    held = await checked(local, database_url, "--anchors", anchors)
    assert (0, "") == (held.code, held.err)
    assert "anchors agree" in held.out


async def test_verify_names_what_was_changed_and_ends_with_1(local: Local, database_url: str) -> None:
    """In words, and as JSON; the rest of the log is as it was. With the entry as it was, all is well again."""
    key_id = await asyncio.to_thread(a_key, local)
    await sealed(local, database_url)
    owner = await asyncpg.connect(database_url)
    number, caller = await owner.fetchrow(
        "SELECT entry, caller FROM tickwise.audit WHERE target = $1 AND action = 'key.made'", key_id
    )
    await write_caller(owner, number, "eve")
    harmed = await checked(local, database_url)
    assert 1 == harmed.code
    assert f"entry {number}: the entry is not as it was sealed" in harmed.out
    assert "1 violations in" in harmed.out
    as_json = await checked(local, database_url, "--json")
    assert (1, False) == (as_json.code, as_json.json["valid"])
    assert [("edited", number)] == [(each["kind"], each["entry"]) for each in as_json.json["findings"]]
    await write_caller(owner, number, caller)
    assert 0 == (await checked(local, database_url)).code
    await owner.close()


async def write_caller(owner: asyncpg.Connection, number: int, caller: str) -> None:
    """Change an entry as somebody with all rights can."""
    async with owner.transaction():
        await owner.execute("ALTER TABLE tickwise.audit DISABLE TRIGGER USER")
        await owner.execute("UPDATE tickwise.audit SET caller = $2 WHERE entry = $1", number, caller)
        await owner.execute("ALTER TABLE tickwise.audit ENABLE TRIGGER USER")


def test_verify_needs_a_database_and_readable_anchors(local: Local, database_url: str, tmp_path: Path) -> None:
    """And says which one it asks for."""
    memory = local.tickwise("audit", "verify", "--database", "memory://")
    assert (6, True) == (memory.code, "there is no database to read" in memory.err)
    assert 2 == verify(local, database_url, "--anchors", tmp_path / "missing").code
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    unreadable = verify(local, database_url, "--anchors", tmp_path / "binary")
    assert (6, True) == (unreadable.code, "cannot be read" in unreadable.err)
