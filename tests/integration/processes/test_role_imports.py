"""A role loads the libraries that it uses, and none of those that only another role uses."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import pytest

PROGRAM: Final = """
import sys
from pathlib import Path
from tickwise.config import Settings
from tickwise.wiring import processes

role, data_dir, health_port = sys.argv[1:]
run = getattr(processes, f"run_{role}")
run(Settings(
    database_url="memory://", data_dir=Path(data_dir), port=0, log_format="json",
    health_port=int(health_port) if health_port else None,
))
print(*sys.modules)
"""
WEB: Final = frozenset({"starlette", "uvicorn", "tickwise.wiring.serving"})
API: Final = frozenset({"tickwise.api.app", "tickwise.wiring.api_port"})
HTTP_TASKS: Final = frozenset({"aiohttp", "tickwise.adapters.outgoing.client"})
HEAVY: Final = WEB | API | HTTP_TASKS


@pytest.mark.parametrize(
    ("role", "health_port", "expected"),
    [
        ("scheduler", "", frozenset[str]()),
        ("scheduler", "0", WEB),
        ("executor", "", HTTP_TASKS),
        ("api", "", WEB | API),
        ("up", "", HEAVY),
    ],
)
async def test_a_role_loads_no_library_of_another_role(
    role: str, health_port: str, expected: frozenset[str], tmp_path: Path
) -> None:
    """From its start over its work to its orderly end. A health port needs the web server, in each role."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, role, str(tmp_path), health_port,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        said = await _until_up(process)
        process.terminate()
        loaded, rest = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said + rest
    assert expected == HEAVY & {*loaded.decode().split()}


async def _until_up(process: asyncio.subprocess.Process) -> bytes:
    """The log lines until the role is at work."""
    assert process.stderr is not None
    said = b""
    async for line in process.stderr:
        said += line
        if line.startswith(b"{") and json.loads(line).get("event") == "up":
            return said
    raise AssertionError(f"it ended before it was at work: {said.decode()}")
