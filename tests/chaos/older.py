"""The release before this one, as a program: its sources out of the repository's history, run by the same Python."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.chaos.server import SQL, Server
from tests.support.local_up import ROOT, environment
from tickwise.adapters.store.postgres import schema_status

OLDER: Final = "3d8deae4071fe8a11360c35d51ba63a812801715"
"""There is no release yet: the last state of the program with the schema before this one's. From the first release on,
the tag of the one before."""


def sources() -> Path:
    """A folder with them, for the caller to remove. Raises `NotImplementedError` where the history does not go back so
    far (a source archive, a shallow clone)."""
    if shutil.which("git") is None:
        raise NotImplementedError("the release before this one lies in the history, and there is no git")
    there = subprocess.run(["git", "cat-file", "-e", f"{OLDER}:src"], cwd=ROOT, capture_output=True, check=False)
    if there.returncode != 0:
        raise NotImplementedError(f"this copy has no history with the release before this one, {OLDER[:7]}")
    archive = subprocess.run(["git", "archive", OLDER, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    folder = Path(tempfile.mkdtemp(prefix="tickwise-older-"))
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    # Workers of executors may run as somebody else.
    folder.chmod(0o755)
    return folder


class OlderServer(Server):
    """A database with the schema of the release before, made by its own program."""

    def __init__(self) -> None:
        """Raises `NotImplementedError` where that release is not at hand."""
        self.sources = sources()
        super().__init__()

    async def prepare(self) -> None:
        """See `Server`."""
        await self.start()
        self._run("-m", "tickwise", "db", "upgrade")
        found, wanted = await schema_status(self.url)
        if found is None or found.version == wanted:
            raise AssertionError(
                f"the release before makes the schema {found}, and this one wants {wanted}: no upgrade"
            )
        if not self._run("-c", "import tickwise; print(tickwise.__file__)").startswith(str(self.sources)):
            raise AssertionError("what was started is not the release before")
        async with self.session() as connection:
            await connection.execute(SQL["journal"])

    @property
    def path(self) -> Mapping[str, str]:
        """What makes a role one of that release."""
        return {"PYTHONPATH": os.pathsep.join([str(self.sources / "src"), str(ROOT)])}

    def _run(self, *words: str) -> str:
        told = environment(TICKWISE_DATABASE_URL=self.url, **self.path)
        done = subprocess.run(
            [sys.executable, *words],
            env=told,
            cwd=self.sources,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"the release before ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    async def stop(self) -> None:
        """See `Server`."""
        try:
            await super().stop()
        finally:
            shutil.rmtree(self.sources, ignore_errors=True)


def older_server(server: Any) -> OlderServer:
    """The server of a scene that was given one."""
    assert isinstance(server, OlderServer)
    return server
