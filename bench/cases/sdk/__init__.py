"""The cost of the SDK in its user's program: processor time of a submit in a batch, and of the import.

A batch is bound (arguments converted and checked), written as JSON, sent to a server that answers at once, and its
answer read. The server is a thread's socket with the answer ready, and what that thread takes is taken off; the
product's own cost of a submit is T3's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime
from typing import ClassVar
from uuid import UUID

from bench.harness import Case, Check, Rig, Round
from tickwise_sdk import Client, submit_many, task

BATCH = 1_000
BATCHES = 30
IMPORTS = 9
DAY = date(2026, 1, 31)


@task("bench.sdk")
def exported(day: date, region: str = "eu", rows: int = 0) -> int:
    """Never called: it is submitted."""
    return day.day + len(region) + rows


class _Answering(BaseHTTPRequestHandler):
    """Answers each request with as many jobs as a batch has."""

    protocol_version = "HTTP/1.1"
    answer: ClassVar[bytes] = json.dumps(
        {
            "created": BATCH,
            "refused": 0,
            "results": [{"status": 201, "job_id": str(UUID(int=at))} for at in range(BATCH)],
        }
    ).encode()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the library
        """Say nothing."""


@contextmanager
def answering() -> Iterator[str]:
    """The address of the server."""
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def microseconds_a_submit(client: Client, batches: int) -> float:
    """Processor time of this thread alone, which is the client's."""
    begin = clock_gettime(CLOCK_THREAD_CPUTIME_ID)
    for _ in range(batches):
        submit_many([exported.bind(DAY, region="us", rows=at) for at in range(BATCH)], client=client)
    return (clock_gettime(CLOCK_THREAD_CPUTIME_ID) - begin) / (batches * BATCH) * 1e6


def milliseconds_to_import(statement: str) -> float:
    """Processor time of a statement in a fresh interpreter; the least of several."""
    program = f"import time; began = time.process_time(); {statement}; print(time.process_time() - began)"
    took = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(IMPORTS)
    ]
    return round(min(took) * 1e3, 1)


async def product(_: Rig) -> Round:
    """Batches of a thousand, and the imports of a worker and of a client."""
    with answering() as url, Client(url, "key") as client:
        microseconds_a_submit(client, 2)
        value = microseconds_a_submit(client, BATCHES)
    return Round(
        round(value, 2),
        {
            "import, ms": milliseconds_to_import("import tickwise_sdk; from tickwise_sdk import Context, task"),
            "import with a client, ms": milliseconds_to_import("from tickwise_sdk import Client"),
        },
    )


async def bare_json(_: Rig) -> Round:
    """The limit: the standard library writes the same bodies, and nothing else is done."""
    bodies = [exported.bind(DAY, region="us", rows=at).body() for at in range(BATCH)]
    begin = clock_gettime(CLOCK_THREAD_CPUTIME_ID)
    for _ in range(BATCHES):
        json.dumps(bodies, ensure_ascii=False).encode()
    return Round(round((clock_gettime(CLOCK_THREAD_CPUTIME_ID) - begin) / (BATCHES * BATCH) * 1e6, 2))


CASE = Case(
    "SDK",
    "µs of processor a submit",
    60.0,
    False,
    product,
    bare_json,
    "the same bodies written by json alone",
    checks=(Check("the import of tickwise_sdk takes at most 60 ms of processor", "import, ms", 60.0),),
)
