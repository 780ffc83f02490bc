"""Secrets in real processes: the task has them, and nothing else on the machine does; what it says is masked."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.support.runners import OWN_USER
from tests.support.sandboxes import SANDBOX, SandboxShop
from tests.support.waiting import eventually
from tickwise.documents.artefacts import index_key
from tickwise.domain.rules.confinement import PLAIN
from tickwise.ports.blobs import log_prefix
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict

TOKEN, PEM = b"canary-4711/x+y", b'-----BEGIN "KEY"-----\nc4n4ry\tline two %41\n-----END-----\n'
SECRETS = {"secret:token": TOKEN, "secret-file:pem": PEM, "secret:vault:app#db": "wört-✓-canary".encode()}
ENV = {"TOKEN": "secret:token", "PEM_FILE": "secret-file:pem", "DB": "secret:vault:app#db", "PLAIN": "secret of none"}
LIMITS = TaskLimits(1 << 20, memory_bytes=1 << 30)
TELLS = """
import hashlib, json, os
pem = open(os.environ["PEM_FILE"], "rb").read()
mode, uid = os.stat(os.environ["PEM_FILE"]).st_mode & 0o777, os.stat(os.environ["PEM_FILE"]).st_uid == os.getuid()
told = [os.environb[name] for name in (b"TOKEN", b"DB", b"PLAIN")] + [pem]
result = [hashlib.sha256(one).hexdigest() for one in told] + [mode, uid]
json.dump(result, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
LARGE = base64.b85encode(random.Random(3).randbytes(840_000))[: 1 << 20]
USERS = [pytest.param(OWN_USER, id="the executor's own user")]
if os.geteuid() == 0:
    USERS.append(pytest.param(None, id="a user of the namespace"))


@pytest_asyncio.fixture(params=USERS)
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SandboxShop]:
    made = SandboxShop(tmp_path / "work", run_tasks_as=request.param, isolation="auto")
    await made.open()
    yield made
    await made.close()


def task(source: str, **more: Any) -> dict[str, Any]:
    """A script with the variables."""
    return {"kind": "python", "source": source, "env": ENV, **more}


async def run(shop: SandboxShop, said: dict[str, Any], **changes: Any) -> tuple[Ending, str]:
    """The ending of a task with the secrets, and its output."""
    return await shop.run(said, secrets=SECRETS, **{"confinement": PLAIN, **changes})


async def hash_of(content: bytes) -> str:
    """As the script tells it."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


WAYS = [
    pytest.param({"start": "cold"}, {}, id="cold"),
    pytest.param({"start": "warm"}, {}, id="warm"),
    pytest.param({}, {"limits": LIMITS}, id="with limits"),
    pytest.param({}, {"confinement": SANDBOX}, id="sandbox"),
]


@pytest.mark.parametrize(("fields", "changes"), WAYS)
async def test_a_task_has_its_secrets(shop: SandboxShop, fields: dict[str, Any], changes: dict[str, Any]) -> None:
    """As variables and as a file of its own that nobody else may read, by each way to start."""
    for _ in range(3):
        ending, _ = await run(shop, task(TELLS, **fields), **changes)
        assert ending.verdict is Verdict.OK, ending
        wanted = [TOKEN, SECRETS["secret:vault:app#db"], b"secret of none", PEM]
        assert [*[await hash_of(each) for each in wanted], 0o400, True] == json.loads(ending.result or "null")


@pytest.mark.parametrize("confinement", [PLAIN, SANDBOX], ids=["process", "prepared sandbox"])
async def test_short_tasks_have_their_variables(shop: SandboxShop, confinement: Any) -> None:
    """Those that a parent starts, and those of a prepared sandbox: without a file nothing is in their way."""
    command = {"kind": "shell", "command": 'printf %s "$TOKEN" | base64; printf %s "${#TOKEN}"', "env": ENV}
    given = {"secret:token": TOKEN, "secret:vault:app#db": b"another-one"}
    variables = {name: text for name, text in ENV.items() if text != "secret-file:pem"}
    for _ in range(8):
        ending, said = await shop.run({**command, "env": variables}, secrets=given, confinement=confinement)
        assert ending.verdict is Verdict.OK, ending
        assert f"***\n{len(TOKEN)}" in said


SAYS = """
import base64, json, os, sys, urllib.parse
token, pem = os.environ["TOKEN"], open(os.environ["PEM_FILE"]).read()
for value in (token, pem, os.environ["DB"]):
    print("plain", value)
    print("repr", repr(value), "json", json.dumps(value), "quoted", urllib.parse.quote(value, safe=""))
    for before in ("", "x", "xy"):
        print(base64.b64encode((before + value).encode()).decode())
        print(base64.urlsafe_b64encode((before + value).encode()).decode())
for character in token:
    os.write(1, character.encode())
print(flush=True)
open("report", "w").write("x")
open("kept-" + os.environ["DB"], "w").write("x")
json.dump({"token": token, token: [pem]}, open(os.environ["TICKWISE_RESULT_FILE"], "w"))
raise SystemExit(STATUS)
"""


@pytest.mark.parametrize(("fields", "changes"), WAYS)
async def test_what_a_task_says_is_masked(shop: SandboxShop, fields: dict[str, Any], changes: dict[str, Any]) -> None:
    """Its output, its result, the end of its output in the error, and the names of the files that it leaves."""
    for status in (0, 3):
        given = shop.launch(
            task(SAYS.replace("STATUS", str(status)), **fields), secrets=SECRETS, **{"confinement": PLAIN, **changes}
        )
        ending = await shop.listener.ending_of(given)
        texts = [ending.error or "", ending.result or "", *await contents(shop, given)]
        assert ending.symptoms == ((str(status),) if status else ())
        for text in texts:
            assert [] == [word for word in ("canary", "c4n4ry") if word in text], text
            for value in SECRETS.values():
                for before in range(3):
                    core = base64.b64encode(bytes(before) + value.strip())[4:-4]
                    assert core.decode() not in text
        assert any("***" in text for text in texts)
        if status == 0:
            assert json.loads(ending.result or "null").keys() == {"token", "***"}


async def said_in(shop: SandboxShop, given: Assignment, line: bytes) -> None:
    """Return when a reader can see this line of the output."""

    async def is_there() -> bool:
        chunks = await shop.blobs.list(log_prefix(given.run_id, 1))
        return any([line in await shop.blobs.get(each.key) for each in chunks])

    await eventually(is_there)


async def contents(shop: SandboxShop, given: Assignment) -> list[str]:
    """All that is kept of a run."""
    listed = [each.key for prefix in ("logs/", "artefacts/") for each in await shop.blobs.list(prefix)]
    found = [key for key in listed if str(given.run_id) in key]
    index = index_key(given.run_id, given.attempt)
    assert index in found
    return [*found, *[(await shop.blobs.get(key)).decode(errors="replace") for key in found]]


WAITS = 'import time\nprint("up", flush=True)\ntime.sleep(600)'


@pytest.mark.parametrize(("fields", "changes"), WAYS)
async def test_no_other_process_shows_a_value(
    shop: SandboxShop, fields: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Neither in its arguments nor in its environment; of the task's own no argument has one."""
    given = shop.launch(task(WAITS, **fields), secrets=SECRETS, **{"confinement": PLAIN, **changes})
    await shop.listener.until_begun(given)
    await said_in(shop, given, b"up\n")
    below = {each.pid for each in psutil.Process().children(recursive=True)}
    assert below
    for process in psutil.process_iter():
        try:
            assert not any("canary" in word for word in process.cmdline()), process
        except psutil.NoSuchProcess:
            continue
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    await shop.listener.ending_of(given)
    # The zygotes, holders and parents that were there go on: none of them has kept a value where it can be read.
    for pid in [os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))]:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has ended since it was listed
            assert b"canary" not in await asyncio.to_thread(Path(f"/proc/{pid}/environ").read_bytes)


async def test_the_files_of_secrets_are_gone_with_the_task(shop: SandboxShop, tmp_path: Path) -> None:
    """Nothing below the work folder holds a value."""
    ending, said = await run(shop, {"kind": "shell", "command": 'echo "$PEM_FILE"; ls -l "$PEM_FILE"', "env": ENV})
    assert ending.verdict is Verdict.OK
    assert "-r--------" in said
    assert not Path(said.splitlines()[0]).exists()
    found = await asyncio.to_thread(subprocess.run, ["grep", "-rl", "c4n4ry", str(tmp_path)], check=False)
    assert found.returncode == 1


@pytest.mark.parametrize(
    ("value", "why"), [(b"a\0b-long", "zero byte"), (LARGE, "1048576 bytes")], ids=["a zero byte", "1 MB"]
)
async def test_a_value_that_no_variable_holds_is_refused_with_the_way_out(
    shop: SandboxShop, value: bytes, why: str
) -> None:
    """As a file it comes whole."""
    command = {"kind": "shell", "command": "cksum < $F", "env": {"F": "secret:big"}}
    ending, _ = await shop.run(command, secrets={"secret:big": value}, confinement=PLAIN)
    assert (Verdict.INVALID, "invalid") == (ending.verdict, ending.reason)
    assert ending.error is not None
    assert why in ending.error
    assert "secret-file:big" in ending.error
    as_file = {**command, "command": 'wc -c < "$F"; cat "$F"', "env": {"F": "secret-file:big"}}
    ending, said = await shop.run(as_file, secrets={"secret-file:big": value}, confinement=PLAIN)
    assert ending.verdict is Verdict.OK
    assert said.split()[0] == str(len(value))
    assert "***" in said
    assert "b-long" not in said
    assert LARGE[:600].decode() not in said


async def test_a_value_that_is_not_masked_is_told(shop: SandboxShop) -> None:
    """In the output, by its name: a person who reads on knows."""
    command = {"kind": "shell", "command": 'echo "$WORD"', "env": {"WORD": "secret:word"}}
    ending, said = await shop.run(command, secrets={"secret:word": b"true"}, confinement=PLAIN)
    assert ending.verdict is Verdict.OK
    assert ["[secret:word is not masked in this output: it is a common word]", "true"] == said.splitlines()


async def test_a_reader_sees_a_line_when_it_is_written(shop: SandboxShop) -> None:
    """While the task runs on."""
    given = shop.launch(
        {"kind": "shell", "command": 'echo "of $TOKEN"; sleep 600', "env": {"TOKEN": "secret:token"}},
        secrets=SECRETS,
        confinement=PLAIN,
    )

    await said_in(shop, given, b"of ***\n")
    shop.runner.stop(given.run_id, grace_seconds=0.1)
    await shop.listener.ending_of(given)


async def test_a_later_task_finds_no_value_of_an_earlier_one(shop: SandboxShop) -> None:
    """Neither in its variables nor in the memory that it was forked with."""
    looks = """
import re
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    needle, found = b"can" + b"ary-" + b"4711", 0
    for line in maps:
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if " rw" in line and end - begin < 1 << 28 and "[v" not in line:
            memory.seek(begin)
            try:
                found += len(re.findall(re.escape(needle) + rb"/x", memory.read(end - begin)))
            except OSError:
                continue
print("found", found)
"""
    for _ in range(4):
        await run(shop, task("import os; os.environ['TOKEN']", start="warm"))
    ending, said = await shop.run({"kind": "python", "source": looks, "start": "warm"}, confinement=PLAIN)
    assert (Verdict.OK, "found 0\n") == (ending.verdict, said)
    ending, said = await run(shop, task(looks, start="warm"))
    assert int(said.removeprefix("found ")) > 0, "the look finds what is there"


def test_this_machine_shows_what_the_tests_look_for() -> None:
    """The arguments and the environment of a process can be read: else the tests above find nothing for nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "canary"], stdin=subprocess.PIPE, env={"A": "canary"}
    ) as process:
        try:
            assert "canary" in psutil.Process(process.pid).cmdline()
            assert b"canary" in Path(f"/proc/{process.pid}/environ").read_bytes()
            assert stat.S_ISREG(os.stat(f"/proc/{process.pid}/environ").st_mode)
        finally:
            process.kill()
