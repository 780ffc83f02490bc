"""Canaries among the secrets of a whole Tickwise, said by tasks of every runner, and looked for in all that is kept."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import quote, quote_plus

import httpx2
import psutil
import pytest

from tests.security.probes import probe
from tests.services.packages import program
from tests.support.collector import Collector, collecting
from tests.support.local_up import Local, local_up

SEED: Final = random.Random(20)
WORDS: Final = [SEED.randbytes(9).hex() for _ in range(8)]
VALUES: Final[Mapping[str, bytes]] = {
    "plain": f"cnry{WORDS[0]}".encode(),
    "quotes": f"cnry'{WORDS[1]}\"\\{WORDS[1][::-1]}".encode(),
    "percent": f"cnry%41%2f&={WORDS[2]}+ %zz".encode(),
    "unicode": f"cnrÿ✓{WORDS[3]}ß".encode(),
    "lines": "".join(f"line{number}-{SEED.randbytes(24).hex()}\n" for number in range(6)).encode(),
    "file": f"cnry-{WORDS[4]}\n".encode(),
    "json": json.dumps({"type": "account", "key": f"cnry/{WORDS[5]}"}, indent=2).encode(),
    "byte": b"7",
    "large": base64.b85encode(SEED.randbytes(820_000))[: 1 << 20],
}
"""Of many shapes: with quotes, percent signs and line breaks, of one byte, of 1 MB."""
TOKENS: Final = (
    [word.encode() for word in WORDS[:6]]
    + [line[:30] for line in VALUES["lines"].split()]
    + [VALUES["large"][place : place + 40] for place in (0, 600, 70_000, 900_000)]
)
"""Parts of the values that nothing else on the machine holds."""
RUNNING: Final = frozenset({"QUEUED", "DISPATCHED", "RUNNING", "RETRYING"})

SAYS: Final = """
import base64, json, os, sys, time, urllib.parse
values = {name[2:].lower(): text for name, text in os.environ.items() if name.startswith("S_")}
values = {name: open(text).read() if name in ("lines", "json", "large") else text for name, text in values.items()}
def say(content):
    sys.stdout.buffer.write(content + b"\\n")
for name, value in values.items():
    raw = value.encode()
    say(raw)
    for before in range(3):
        say(base64.b64encode(b"x" * before + raw + b"z"))
        if len(raw) < 5000:
            say(base64.urlsafe_b64encode(b"x" * before + raw))
    if len(raw) < 5000:
        say(urllib.parse.quote(value, safe="").encode())
        say(urllib.parse.quote_plus(value).encode())
        say(json.dumps(value).encode())
        say(repr(value).encode())
        sys.stdout.flush()
        for place in range(len(raw)):
            os.write(1, raw[:place])
            os.write(1, raw[place:] + b" ")
sys.stdout.flush()
for name in ("plain", "quotes"):
    open("left-" + values[name], "w").write("x")
json.dump({"value": values["plain"], values["percent"]: list(values.values())[:3]},
          open(os.environ["TICKWISE_RESULT_FILE"], "w"))
print("said", flush=True)
time.sleep(float(os.environ.get("LINGER", "0")))
if os.environ.get("FAIL"):
    raise ValueError("it failed with " + values["plain"] + " and " + values["unicode"])
"""
ENV: Final = {
    **{f"S_{name.upper()}": f"secret:{name}" for name in ("plain", "quotes", "percent", "unicode", "file", "byte")},
    **{f"S_{name.upper()}": f"secret-file:{name}" for name in ("lines", "json", "large")},
}
SHORT: Final = {name: text for name, text in ENV.items() if not text.startswith("secret-file:")}


@dataclass
class Echo:
    """A server that answers with all that it was sent."""

    url: str = ""
    seen: list[bytes] = field(default_factory=list)


@contextlib.contextmanager
def echoing() -> Iterator[Echo]:
    """On loopback."""
    made = Echo()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            said = body + b"\n" + str(self.headers).encode("latin-1")
            made.seen.append(said)
            self.send_response(500 if "fail" in self.path else 200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@dataclass
class Scene:
    """A whole Tickwise, its secrets, and what its tasks call and trace to."""

    local: Local
    client: httpx2.Client
    echo: Echo
    collector: Collector
    runs: dict[str, str] = field(default_factory=dict)
    """The ids of the runs, by the way in which each went."""

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        return self.client.request(method, path, **more)

    def submit(self, way: str, task: Mapping[str, Any], **more: Any) -> str:
        body = {"name": way, "schedule_type": "IMMEDIATE", "task": task, "key": way, **more}
        made = self.ask("POST", "/jobs", json=body)
        assert made.status_code == 201, made.text
        return str(made.json()["job_id"])

    def run_of(self, job_id: str) -> dict[str, Any]:
        items = self.ask("GET", f"/jobs/{job_id}/runs").json()
        return dict(items[0]) if items else {"status": "QUEUED", "run_id": ""}

    def ended(self, job_id: str) -> dict[str, Any]:
        end = time.monotonic() + 120
        while (run := self.run_of(job_id))["status"] in RUNNING:
            assert time.monotonic() < end, (run, self.local.data_dir)
            Event().wait(0.1)
        return run


@contextlib.contextmanager
def core_dumps() -> Iterator[None]:
    """Programs that are started meanwhile write core dumps, as on a machine where somebody looks for a fault."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """All tasks have ended."""
    program("bwrap")
    folder = tmp_path_factory.mktemp("canaries")
    with core_dumps(), echoing() as echo, collecting() as collector:
        told = {
            "TICKWISE_ISOLATION": "auto",
            "TICKWISE_HTTP_ALLOW": "127.0.0.0/8",
            "TICKWISE_OTLP_ENDPOINT": collector.url,
            "TICKWISE_TRACE_RATIO": "1",
            "TICKWISE_LOG_LEVEL": "debug",
        }
        with local_up(folder / "data", **told) as local:
            headers = {"Authorization": f"Bearer {local.key}"}
            with httpx2.Client(base_url=f"{local.url}/api/v1", headers=headers, timeout=60) as client:
                made = Scene(local, client, echo, collector)
                for name, value in VALUES.items():
                    body = {"value": base64.b64encode(value).decode(), "encoding": "base64"}
                    stored = made.ask("PUT", f"/secrets/{name}", json=body)
                    assert stored.status_code in (200, 201), stored.text
                yield made


WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cold": {"task": {"start": "cold", "env": ENV}, "isolation": "process"},
    "warm": {"task": {"start": "warm", "env": ENV}, "isolation": "process"},
    "parent": {"task": {"env": SHORT}, "isolation": "process"},
    "limits": {"task": {"env": ENV}, "isolation": "process", "limits": {"memory_bytes": 1 << 30}},
    "sandbox": {"task": {"env": ENV}, "isolation": "sandbox"},
    "prepared": {"task": {"env": SHORT}, "isolation": "sandbox"},
}


def _submit_all(scene: Scene) -> dict[str, str]:
    """A task of each way that ends well, and one that fails; the ids of their jobs."""
    jobs = {}
    for way, said in WAYS.items():
        fields = {name: value for name, value in said.items() if name != "task"}
        for end, more in (("ok", {}), ("bad", {"FAIL": "1"})):
            task = {"kind": "python", "source": SAYS, **said["task"]}
            task["env"] = {**task["env"], **more}
            jobs[f"{way}-{end}"] = scene.submit(f"{way}-{end}", task, **fields, max_retries=0)
    for end in ("ok", "fail"):
        task = {
            "kind": "http",
            "method": "POST",
            "url": f"{scene.echo.url}/{end}",
            "headers": {"Authorization": "Bearer {{ secret.plain }}", "X-Percent": "secret:percent"},
            "body": {"quotes": "secret:quotes", "in text": "<{{ secret.lines }}>", "large": "secret:large"},
        }
        jobs[f"http-{end}"] = scene.submit(f"http-{end}", task, max_retries=0)
    return jobs


def _hits(where: str, content: bytes) -> list[str]:
    """The places of canaries in a content, in any form of theirs."""
    return [f"{where}: {needle[:16]!r}…" for needle in NEEDLES if needle in content]


def _needles() -> list[bytes]:
    found: set[bytes] = set()
    for token in TOKENS:
        text = token.decode()
        found |= {token, token.hex().encode(), quote(text, safe="").encode(), quote_plus(text).encode()}
        found.add(json.dumps(text)[1:-1].encode())
        for before, begin in enumerate((0, 2, 3)):
            core = base64.b64encode(bytes(before) + token)[begin:-4]
            found |= {core, base64.urlsafe_b64encode(bytes(before) + token)[begin:-4]}
    return sorted(found)


NEEDLES: Final = _needles()


@pytest.fixture(scope="module")
def said(scene: Scene) -> Scene:
    """Every runner has said the values."""
    jobs = _submit_all(scene)
    for way, job_id in jobs.items():
        run = scene.ended(job_id)
        wanted = "SUCCESS" if way.endswith("ok") else "FAILED"
        assert run["status"] == wanted, (way, run)
        scene.runs[way] = str(run["run_id"])
    for seen in scene.echo.seen:
        for value in (WORDS[0].encode(), VALUES["large"][:40]):
            assert value in seen, "the value came where it was sent"
    return scene


MASKED: Final = "values are found in each form and masked before anything is kept"


@probe(14, stopped_by=MASKED)
def test_no_answer_of_the_api_and_no_page_shows_a_value(said: Scene) -> None:
    """Tasks of every runner print their secrets whole, cut in two at each byte, in base64 at each alignment, quoted and
    escaped; they put them into results, names of files and exceptions. Outputs, runs, explanations, errors, audit,
    metrics and pages are read."""
    hits: list[str] = []
    paths = ["/jobs?limit=100", "/runs?limit=100", "/secrets", "/errors", "/audit?limit=100", "/dead-letters"]
    for way, run_id in said.runs.items():
        run = said.ask("GET", f"/runs/{run_id}").json()
        paths += [f"/runs/{run_id}{part}" for part in ("", "/logs", "/explain", "/artefacts")]
        paths += [f"/jobs/{run['job_id']}{part}" for part in ("", "/status", "/runs", "/explain", "/occurrences")]
        log = said.ask("GET", f"/runs/{run_id}/logs").text
        assert "***" in log, way
    for path in dict.fromkeys(paths):
        answer = said.ask("GET", path)
        hits += _hits(path, answer.content)
    root = said.local.url
    with httpx2.Client(headers=said.client.headers, timeout=60) as client:
        hits += _hits("/metrics", client.get(f"{root}/metrics").content)
        for page in ("/", "/jobs", "/runs", "/errors", *(f"/runs/{run_id}" for run_id in said.runs.values())):
            hits += _hits(page, client.get(f"{root}{page}", follow_redirects=True).content)
    assert [] == hits


@probe(14, stopped_by="values are encrypted in the store, and masked in all that is kept of a run")
def test_no_file_of_the_installation_holds_a_value(said: Scene) -> None:
    """Every file of the data folder is searched after that: tables, write-ahead log, blobs, logs of the server, and
    what tasks have left; and every row of the database is read as text."""
    hits: list[str] = []
    for place, _, names in os.walk(said.local.data_dir):
        for name in names:
            file = Path(place, name)
            with contextlib.suppress(OSError):
                if file.is_file() and not file.is_symlink():
                    hits += _hits(str(file), file.read_bytes())
    assert [] == hits
    rows = _rows(json.loads((said.local.data_dir / "client.json").read_text())["database_url"])
    assert b"secret:plain" in rows, "the search sees what there is"
    assert [] == _hits("database", rows)


def _rows(url: str) -> bytes:
    """All rows of all tables, as text."""
    import asyncio

    import asyncpg

    async def read() -> bytes:
        connection = await asyncpg.connect(url)
        try:
            found: list[str] = []
            tables = await connection.fetch(
                "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            )
            for table in tables:
                found += [row[0] for row in await connection.fetch(f"SELECT t::text FROM {table['name']} t")]
            return "\n".join(found).encode()
        finally:
            await connection.close()

    return asyncio.run(read())


@probe(14, stopped_by="no value is an argument, a name or an attribute of ours")
def test_no_trace_holds_a_value(said: Scene) -> None:
    """Every run is traced; the spans are searched."""
    assert said.collector.spans
    assert [] == _hits("spans", repr(said.collector.spans).encode())


@probe(14, stopped_by="values go through pipes and files of the task alone")
@pytest.mark.parametrize("way", WAYS)
def test_no_other_process_shows_a_value(said: Scene, way: str) -> None:
    """While a task of each runner lives, the arguments of all processes are read, and the environment of all that are
    none of its own."""
    fields = {name: value for name, value in WAYS[way].items() if name != "task"}
    task = {"kind": "python", "source": SAYS, **WAYS[way]["task"]}
    task["env"] = {**task["env"], "LINGER": "600"}
    job_id = said.submit(f"{way}-lingers", task, **fields)
    end = time.monotonic() + 60
    while "said" not in (said.ask("GET", f"/runs/{said.run_of(job_id)['run_id']}/logs").text):
        assert time.monotonic() < end
        Event().wait(0.1)
    try:
        hits, looked_at = [], 0
        for process in psutil.process_iter():
            own = re.compile(rb"TICKWISE_RUN_ID=" + said.run_of(job_id)["run_id"].encode())
            with contextlib.suppress(OSError, psutil.Error):
                hits += _hits(f"arguments of {process.pid}", Path(f"/proc/{process.pid}/cmdline").read_bytes())
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                looked_at += 1
                if not own.search(environment) and process.pid != os.getpid():
                    hits += _hits(f"environment of {process.pid}", environment)
        assert looked_at > 5
        assert [] == hits
    finally:
        said.ask("POST", f"/runs/{said.run_of(job_id)['run_id']}/cancel")
        said.ended(job_id)


CRASHES: Final = """
import os, resource
print("cores of", resource.getrlimit(resource.RLIMIT_CORE)[0], "bytes", flush=True)
os.abort()
"""


@probe(14, stopped_by="tasks have a limit of one byte for core dumps, unless they raise it themselves")
@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_crashes_leaves_no_image_of_its_memory(said: Scene, way: str) -> None:
    """A task of each runner is killed by a fault on a machine that writes core dumps. Files that a task leaves are kept
    as artefacts, for all who may read runs."""
    fields = {name: value for name, value in WAYS[way].items() if name != "task"}
    task = {"kind": "python", "source": CRASHES, **WAYS[way]["task"]}
    run = said.ended(said.submit(f"{way}-crashes", task, **fields, max_retries=0))
    assert ("FAILED", []) == (run["status"], said.ask("GET", f"/runs/{run['run_id']}/artefacts").json())
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    most = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    assert f"cores of {most} bytes" in said.ask("GET", f"/runs/{run['run_id']}/logs").text
