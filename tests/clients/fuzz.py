"""`make fuzz-api`: requests that schemathesis draws from the description, against a real API, for a time.

Every answer must be one that the description names: its status, its media type, its headers, its body. What violates
the description must be refused, no request may be answered with an error of the server's own, and a deleted thing must
be gone. Ids that were answered are used in later requests. One judgement is left out: that everything that fits the
schema is accepted. Rules between fields and inside texts (a zone that exists, a line of cron) are no matter of a JSON
Schema.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.clients.server import RunningApi, running_api
from tests.style.tree import ROOT

PLACE: Final = ROOT / ".clients" / "fuzz"
SETTINGS: Final = """\
[checks.positive_data_acceptance]
enabled = false

[checks.negative_data_rejection]
# A precondition may be judged before the body is looked at (RFC 9110, section 13.2.1).
expected-statuses = [400, 401, 403, 404, 406, 409, 412, 413, 415, 422, 429]

# It says so itself where no executor is active, as here.
[[operations]]
include-operation-id = "ready"
checks.not_a_server_error.enabled = false

# Of a batch each job is judged by itself: an answer of 200 tells what is wrong with which.
[[operations]]
include-operation-id = "createJobs"
checks.negative_data_rejection.enabled = false
"""


def fuzz(api: RunningApi, *, seconds: int, seed: int | None) -> int:
    """The exit code of schemathesis."""
    (PLACE / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
    (PLACE / "openapi.json").write_text(json.dumps(api.get("/openapi.json")), encoding="utf-8")
    program = Path(sys.executable).parent / "st"
    command = [
        program, "--config-file", PLACE / "schemathesis.toml", "--no-color", "run", PLACE / "openapi.json",
        "--url", api.url, "--header", f"Authorization: Bearer {api.key}", "--max-time", seconds, "--workers", 1,
        "--continue-on-failure", "--suppress-health-check", "all",
    ]  # fmt: skip
    if seed is not None:
        command += ["--seed", seed]
    return subprocess.run([str(part) for part in command], cwd=PLACE, stdin=subprocess.DEVNULL, check=False).returncode


async def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make fuzz-api", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int)
    said = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    async with running_api(PLACE / "api.log") as api:
        return await asyncio.to_thread(fuzz, api, seconds=int(said.minutes * 60), seed=said.seed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
