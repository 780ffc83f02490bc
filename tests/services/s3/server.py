"""An S3 server with its buckets in a folder.

    s3rver       from npm, within seconds: the requests of S3, multipart, batches; it checks no signature. `make test`
                 has it
    versitygw    one Go program, built once in minutes: signatures and their times, whole multipart: `make test-s3`

`TICKWISE_TEST_S3=versitygw` chooses the second one for every test.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.services.packages import ATTEMPT_SECONDS, Missing, attempted, cache, locked
from tests.services.server import Server

CHOICE: Final = "TICKWISE_TEST_S3"
VERSITYGW: Final = "v1.8.0"
BUILD_SECONDS: Final = 1_500.0
LOCK_FILE: Final = Path(__file__).with_name("package-lock.json")
BUCKETS: Final = ("outputs", "other")


class S3(Server):
    """`url` is the endpoint; the buckets of `BUCKETS` are there."""

    name = "s3"

    def __init__(self, folder: Path | None = None, *, port: int | None = None) -> None:
        super().__init__(folder, port=port)
        whole = self.is_whole()
        self.access_key_id, self.secret_access_key = ("tick", "tick-secret") if whole else ("S3RVER", "S3RVER")

    @staticmethod
    def is_whole() -> bool:
        """Check whether the tests have versitygw."""
        return os.environ.get(CHOICE) == "versitygw"

    @property
    def url(self) -> str:
        """Of its endpoint."""
        return f"http://{self.address}"

    def blobs_url(self, prefix: str, *, bucket: str = BUCKETS[0], endpoint: str | None = None) -> str:
        """The setting for a prefix of one of its buckets, through another endpoint if one is given."""
        return f"s3://{bucket}/{prefix}?endpoint={quote(endpoint or self.url, safe='')}&region=us-east-1"

    def settings(self) -> Mapping[str, str]:
        """The variables with the credentials of its owner."""
        return {
            "TICKWISE_BLOBS_ACCESS_KEY_ID": self.access_key_id,
            "TICKWISE_BLOBS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    async def prepare(self) -> Sequence[str]:
        data = self.folder / "data"
        for bucket in BUCKETS:
            (data / bucket).mkdir(parents=True, exist_ok=True)
        if self.is_whole():
            program = await asyncio.to_thread(_versitygw)
            return [str(program), "--port", self.address, "posix", str(data)]
        program = await asyncio.to_thread(_s3rver)
        buckets = [word for bucket in BUCKETS for word in ("--configure-bucket", bucket)]
        return [str(program), "--directory", str(data), "--address", "127.0.0.1", "--port", str(self.port), *buckets]

    def environment(self) -> Mapping[str, str]:
        return {"ROOT_ACCESS_KEY": self.access_key_id, "ROOT_SECRET_KEY": self.secret_access_key}

    def answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: s3\r\nConnection: close\r\n\r\n")
            return connection.recv(16).startswith(b"HTTP/1.1")


def _s3rver() -> Path:
    """The program, with exactly the packages of the lock file."""
    home = cache() / "s3rver"
    program = home / "node_modules" / ".bin" / "s3rver"
    home.mkdir(exist_ok=True)
    with locked(home / "lock"):
        wanted = LOCK_FILE.read_bytes()
        stamp = home / "package-lock.json"
        if program.exists() and stamp.exists() and stamp.read_bytes() == wanted:
            return program
        npm = shutil.which("npm")
        if npm is None:
            raise Missing("npm is not on this machine. Install it (apt-get install npm): the tests of S3 need it.")
        for file in ("package.json", LOCK_FILE.name):
            shutil.copy(LOCK_FILE.with_name(file), home)
        command = [npm, "ci", "--prefix", str(home), "--ignore-scripts", "--no-audit", "--no-fund"]
        said = attempted([command], dict(os.environ), before_again=[])
        if not program.exists():
            raise Missing(f"s3rver could not be fetched by npm within {ATTEMPT_SECONDS:.0f} s:\n{said[-2_000:]}")
        return program


def _versitygw() -> Path:
    """The program, built from the Go module proxy."""
    program = cache() / f"versitygw-{VERSITYGW}"
    with locked(cache() / "versitygw.lock"):
        if not program.exists():
            go = shutil.which("go")
            if go is None:
                raise Missing("go is not on this machine, and versitygw is built by it (Go 1.24 or newer).")
            building = cache() / "versitygw-build"
            shutil.rmtree(building, ignore_errors=True)
            said = attempted(
                [
                    [
                        go,
                        "install",
                        "-trimpath",
                        "-ldflags=-s -w",
                        f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}",
                    ]
                ],
                {**os.environ, "GOBIN": str(building), "CGO_ENABLED": "0", "GOFLAGS": ""},
                before_again=[],
                seconds=BUILD_SECONDS,
            )
            if not (building / "versitygw").exists():
                raise Missing(f"versitygw could not be built:\n{said[-2_000:]}")
            (building / "versitygw").rename(program)
    return program
