"""What a task leaves in its work folder is kept within limits, and no task gets out what is not its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.test_runner_process import Shop
from tickwise.adapters.blobs import OutputBlobs, open_blobs
from tickwise.adapters.runner.artefacts import MAX_ENTRIES
from tickwise.adapters.runner.settings import ArtefactLimits
from tickwise.control.runs.artefacts import artefact_download, artefacts_of, index_of
from tickwise.control.runs.downloads import Download
from tickwise.documents.log_origin import read_own
from tickwise.domain.errors import Unavailable
from tickwise.ports.runner import Assignment, TaskLimits, Verdict
from tickwise.testing.contracts.runner import assignment, log_of

USUAL = ArtefactLimits()
LIMITED = TaskLimits(1 << 20, cpu_seconds=60.0)


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"


async def left(shop: Shop, given: Assignment) -> dict[str, bytes]:
    """The artefacts of an attempt."""
    found = await artefacts_of(shop.blobs, given.run_id, given.attempt)
    content = {}
    for each in found:
        file = await artefact_download(shop.blobs, given.run_id, given.attempt, each.name)
        assert isinstance(file, Download)
        content[each.name] = await file.read(0, file.size)
    return content


async def ran(shop: Shop, source: str, **fields: Any) -> tuple[dict[str, bytes], str]:
    """The artefacts and the log of a script that ends well."""
    given = assignment({"kind": "python", "source": source, **fields})
    shop.runner.launch([given])
    ending = await shop.ending(given)
    assert ending.verdict is Verdict.OK, ending
    return await left(shop, given), await log_of(shop.blobs, given)


@pytest.mark.parametrize("limits", [TaskLimits(1 << 20), LIMITED])
async def test_files_are_kept_and_named_in_the_log(shop: Shop, limits: TaskLimits) -> None:
    """In folders too; after a failure as after a success. The output stays as it is."""
    for end in ("exit 0", "exit 1"):
        given = shop.shell(f"echo said; mkdir out; echo a > out/ü.csv; : > empty; {end}", limits=limits)
        await shop.ending(given)
        assert await left(shop, given) == {"empty": b"", "out/ü.csv": b"a\n"}
        assert await log_of(shop.blobs, given) == "said\n[kept as artefacts: empty (0 bytes), out/ü.csv (2 bytes)]\n"


async def test_a_task_that_leaves_nothing_says_nothing(shop: Shop) -> None:
    """No log is made for it."""
    assert await ran(shop, "pass") == ({}, "")


async def test_a_line_of_output_without_its_end_gets_one(shop: Shop) -> None:
    """The note stands on a line of its own."""
    _, log = await ran(shop, "print('50 %', end=''); open('a', 'w').close()")
    assert log == "50 %\n[kept as artefacts: a (0 bytes)]\n"


async def test_a_task_cannot_print_a_line_of_ours(shop: Shop) -> None:
    """The same text twice: the place of the real one is on record beside the log."""
    line = "[kept as artefacts: a (0 bytes)]"
    given = shop.shell(f"echo '{line}'; : > a")
    await shop.ending(given)
    log = await log_of(shop.blobs, given)
    assert f"{line}\n{line}\n" == log
    assert ((len(line) + 1, len(log)),) == await read_own(shop.blobs, given.run_id, given.attempt)


async def test_what_the_task_was_given_is_no_artefact_until_it_changes(shop: Shop) -> None:
    """Its script and the modules that it imports lie in the same folder."""
    files = {"helpers.py": "A = 1\n", "state": "old"}
    found, _ = await ran(shop, "import helpers\nopen('state', 'w').write('new')", files=files)
    assert found == {"state": b"new"}


async def test_of_ten_thousand_files_some_are_kept_and_the_run_ends_well(shop: Shop) -> None:
    """The log says how many are not, and each reason."""
    found, log = await ran(
        shop, "import os\nfor number in range(10_000): open(f'{number:05}', 'w').close()\nos.symlink('00000', 'link')"
    )
    assert sorted(found) == [f"{number:05}" for number in range(USUAL.count)]
    assert f"and {10_000 - USUAL.count - 3} more" in log
    assert "link (it is a link)" in log
    assert len(log) < 2_000


async def test_a_file_of_five_gigabytes_is_not_read(shop: Shop) -> None:
    """Nor is any other one beyond the size of an artefact; those beside them are kept."""
    source = f"""
for name, size in (("huge", 5 << 30), ("large", {USUAL.file_bytes + 1}), ("just", {USUAL.file_bytes})):
    with open(name, "wb") as file:
        file.truncate(size)
"""
    found, log = await ran(shop, source)
    assert {name: len(content) for name, content in found.items()} == {"just": USUAL.file_bytes}
    assert f"huge (it has {5 << 30} bytes, more than {USUAL.file_bytes})" in log


async def test_all_together_have_a_limit(shop: Shop) -> None:
    """Smaller files behind it still have room."""
    count = USUAL.attempt_bytes // USUAL.file_bytes
    source = f"""
for number in range({count + 1}):
    with open(f"{{number}}", "wb") as file:
        file.truncate({USUAL.file_bytes - 1})
open("small", "w").write("x")
"""
    found, log = await ran(shop, source)
    assert sorted(found) == [*map(str, range(count)), "small"]
    assert f"more than {USUAL.attempt_bytes} bytes" in log


async def test_nothing_outside_of_the_folder_is_kept(shop: Shop, tmp_path: Path) -> None:
    """Links of both kinds, pipes and sockets are named and never opened: a pipe would wait for ever."""
    secret = tmp_path / "secret"
    secret.write_text("of the executor")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("too")
    source = f"""
import os, socket
os.symlink({str(secret)!r}, "symbolic")
os.symlink({str(tmp_path / "folder")!r}, "folder")
os.link({str(secret)!r}, "hard")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("own", "w").write("x")
"""
    found, log = await ran(shop, source)
    assert found == {"own": b"x"}
    for name in ("symbolic (it is a link)", "folder (it is a link)", "hard (it has", "pipe (it is no", "socket (it is"):
        assert name in log


async def test_names_that_are_no_text_are_told_and_not_kept(shop: Shop) -> None:
    """On one line each, so that no name forges a line of the log."""
    source = "import os\nfor name in (b'a\\nb', b'\\xff', b'\\x1b[2J', b'x' * 255): open(name, 'w').close()"
    found, log = await ran(shop, source)
    assert list(found) == ["x" * 255]
    assert log.count("\n") == 2
    assert "\x1b" not in log


async def test_folders_in_folders_have_an_end(shop: Shop) -> None:
    """However deep a task goes."""
    source = """
import os
open("own", "w").close()
for _ in range(3_000):
    os.mkdir("d")
    os.chdir("d")
open("deep", "w").close()
"""
    found, log = await ran(shop, source)
    assert found == {"own": b""}
    assert "folders)" in log


async def test_only_so_many_entries_are_looked_at(shop: Shop) -> None:
    """Links cost a look each, too."""
    found, log = await ran(shop, f"import os\nfor n in range({MAX_ENTRIES + 1}): os.symlink('x', str(n))")
    assert found == {}
    assert f"only {MAX_ENTRIES} files" in log


class Away:
    """A blob store that takes outputs and is away for artefacts."""

    def __init__(self) -> None:
        self._blobs = open_blobs("memory://")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def put(self, key: str, content: bytes) -> None:
        if key.startswith("artefacts/"):
            raise Unavailable("no room is left")
        await self._blobs.put(key, content)


async def test_a_store_that_takes_no_artefact_costs_no_run(tmp_path: Path) -> None:
    """It did its work. The log says what is lost."""
    shop = Shop(tmp_path, Away())  # type: ignore[arg-type]  # a store like another
    await shop.runner.start(shop.listener, time.time)
    given = shop.shell("echo a > a")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await left(shop, given) == {}
    assert "not kept: no room is left" in await log_of(shop.blobs, given)
    await shop.runner.close()


async def test_an_executor_may_write_artefacts_and_no_script(tmp_path: Path) -> None:
    """Its blobs take both kinds of what tasks make, and nothing else."""
    shop = Shop(tmp_path, OutputBlobs(open_blobs("memory://")))  # type: ignore[arg-type]  # as `wiring` does
    await shop.runner.start(shop.listener, time.time)
    given = shop.shell("echo a > a")
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await left(shop, given) == {"a": b"a\n"}
    await shop.runner.close()


async def test_a_run_that_took_too_long_keeps_what_it_had(shop: Shop) -> None:
    """People want to see how far it came."""
    for seconds in (0.5, 5.0, 30.0):  # longer if it had no time to write anything
        given = shop.shell("echo half > a; sleep 600", timeout_seconds=seconds)
        assert (await shop.ending(given)).reason == "timeout"
        found = await left(shop, given)
        if found == {"a": b"half\n"}:
            break
    assert found == {"a": b"half\n"}


async def test_the_limits_are_settings(tmp_path: Path) -> None:
    """Of their number, each and all together; the log and the index say what is not kept."""
    for limits, kept, why in (
        (ArtefactLimits(count=1), ["a"], "at most 1 files are kept"),
        (ArtefactLimits(file_bytes=2), ["a", "c"], "it has 3 bytes, more than 2"),
        (ArtefactLimits(attempt_bytes=3), ["a", "c"], "all together have more than 3 bytes"),
        (ArtefactLimits(count=0), [], "at most 0 files are kept"),
    ):
        shop = Shop(tmp_path, artefacts=limits)
        await shop.runner.start(shop.listener, time.time)
        given = shop.shell("printf 1 > a; printf 333 > b; printf 1 > c")
        assert (await shop.ending(given)).verdict is Verdict.OK
        index = await index_of(shop.blobs, given.run_id, given.attempt)
        assert [each.name for each in index.artefacts] == kept
        assert index.left_count == 3 - len(kept)
        assert any(why in each for each in index.left)
        assert why in await log_of(shop.blobs, given)
        await shop.runner.close()
