"""A run that wrote very much: its page, a search over all of it and the download cost no memory.

A gigabyte with `LONG=1`, as in `make chaos`: the run takes a minute to write it. Else a fifth of that, which is four
times the memory that may be used.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.local_up import Local, local_up
from tests.support.process_tree import family
from tickwise.sdk.client import Client

FIRST = 100_000_000
LAST = 199_999_999 if os.environ.get("LONG") else 119_999_999
LINE = 10
"""Bytes of each line: nine digits and a newline."""
SIZE = (LAST - FIRST + 1) * LINE
GROWTH_MAX = 48 << 20
"""Of the process that serves: some parts of 1 MiB, the threads that read them, and what the allocator keeps."""
NEEDLE = str(LAST - 999_999)
PAGE_SECONDS = 2.0
"""On a machine beside other work; the page of a short output takes as long."""
TRIES = 5
"""The best of so many counts."""

pytestmark = pytest.mark.takes_up_to(400)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with local_up(tmp_path_factory.mktemp("long") / "data") as up:
        yield up


@pytest.fixture(scope="module")
def run(here: Local) -> str:
    """The run, once it has written all of it."""
    with Client(here.url, here.key) as client:
        job: dict[str, Any] = {
            "name": "writes very much", "schedule_type": "ON_DEMAND", "limits": {"output_bytes": 1 << 30},
            "task": {"kind": "shell", "command": f"seq {FIRST} {LAST}"},
        }  # fmt: skip
        job_id = client.job_create(job)["job_id"]
        run_id = str(client.request("POST", f"/jobs/{job_id}/runNow", body={}).body["run_id"])
        pause = threading.Event()
        while (found := client.run_get(run_id))["status"] not in ("SUCCESS", "FAILED"):
            pause.wait(0.5)
        assert "SUCCESS" == found["status"], found
        return run_id


class Visitor:
    """A browser without a window."""

    def __init__(self, here: Local) -> None:
        self._address = urlsplit(here.url)
        with Client(here.url, here.key) as client:
            link = str(client.session_link()["link"])
        self._cookie = ""
        response, _ = self.get(link)
        self._cookie = str(response.getheader("set-cookie")).partition(";")[0]

    def get(self, path: str, *, keep: bool = True) -> tuple[Any, int | str]:
        """The answer, and its text; or how long it is."""
        with closing(HTTPConnection(str(self._address.hostname), self._address.port, timeout=120)) as connection:
            connection.request("GET", path, headers={"Cookie": self._cookie})
            response = connection.getresponse()
            if keep:
                return response, response.read().decode()
            length = 0
            while part := response.read(1 << 20):
                length += len(part)
            return response, length


def _bytes_of(pid: int, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0


def test_a_long_output_is_read_searched_and_downloaded_in_constant_memory(here: Local, run: str) -> None:
    """No process of the installation grows by more than some parts, whichever it serves."""
    visitor = Visitor(here)
    visitor.get(f"/runs/{run}")
    processes = family(here.pid)
    before = {}
    for pid in processes:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        before[pid] = _bytes_of(pid, "VmRSS")
    seconds: dict[str, float] = {}

    def timed(name: str, path: str, *, keep: bool = True) -> tuple[Any, int | str]:
        for _ in range(TRIES if keep else 1):  # the machine may stand still in one
            began = time.perf_counter()
            found = visitor.get(path, keep=keep)
            seconds[name] = min(seconds.get(name, math.inf), time.perf_counter() - began)
            if seconds[name] < PAGE_SECONDS:
                break
        return found

    _, page = timed("page", f"/runs/{run}")
    assert str(LAST) in str(page)
    middle = SIZE // 2
    _, page = timed("middle", f"/runs/{run}?at={middle}")
    assert f'id="b{middle}"' in str(page)
    offset = (int(NEEDLE) - FIRST) * LINE
    where, looked = f"/runs/{run}/log/find?find={NEEDLE}", 0
    while True:
        response, _ = timed(f"find {looked}", where)
        location = response.getheader("location")
        stopped = re.search(r"searched=(\d+)", location)
        if stopped is None:
            break
        looked += 1
        where = f"/runs/{run}/log/find?find={NEEDLE}&from={stopped[1]}"
    assert location.endswith(f"at={offset}#b{offset}")
    _, page = timed("hit", location.partition("#")[0])
    assert f"<mark>{NEEDLE}</mark>" in str(page)
    response, _ = timed("back", f"/runs/{run}/log/find?find={LAST // 1_000}&back=1")
    assert f"at={SIZE - LINE}" in response.getheader("location")
    _, length = timed("download", f"/runs/{run}/log?attempt=1", keep=False)
    assert SIZE == length
    growth = {pid: _bytes_of(pid, "VmHWM") - before[pid] for pid in processes}
    logging.getLogger(__name__).info("seconds %s, bytes %s", seconds, growth)
    assert max(growth.values()) < GROWTH_MAX, growth
    assert max(seconds[name] for name in ("page", "middle", "hit")) < PAGE_SECONDS, seconds
