"""The commands that a page offers to copy work as they stand, on the machine of the server."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.local_up import Local, local_up
from tickwise.sdk.client import Client

SCRIPT = "from tickwise.cli.main import main; main()"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A local `up` in a folder of its own, at a port of its own."""
    with local_up(tmp_path_factory.mktemp("copies of commands") / "data") as made:
        yield made


def commands(page: str) -> list[list[str]]:
    """The commands of the command line that stand on a page, as a shell reads them."""
    found = re.findall(r"tickwise [a-z][^<\"]*--namespace \w+", html.unescape(page))
    return [shlex.split(each) for each in dict.fromkeys(found)]


def test_copied_commands_find_the_server_they_were_copied_from(up: Local, tmp_path: Path) -> None:
    """A shell of the same user that knows nothing of it: neither an address, nor a key, nor a folder."""
    with Client(up.url, up.key) as client:
        job = client.job_create({"name": "a", "every": "1h", "task": {"kind": "shell", "command": "true"}})["job_id"]
        link = str(client.session_link()["link"])
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with httpx2.Client(base_url=up.url) as browser:
        # A browser keeps a Secure cookie on loopback; this client does not.
        cookie = {"Cookie": browser.get(link).headers["set-cookie"].partition(";")[0]}
        for path in ("/jobs", f"/jobs/{job}"):
            found = commands(browser.get(path, headers=cookie).text)
            assert found, path
            ran = subprocess.run(
                [sys.executable, "-c", SCRIPT, *found[0][1:]], env=environ, capture_output=True, text=True, check=False
            )  # fmt: skip
            assert (ran.returncode, "a" in ran.stdout.split()) == (0, True), (found[0], ran.stderr)
            assert str(up.data_dir.absolute()) in found[0], found[0]
