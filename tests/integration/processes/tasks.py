"""The tasks of these tests: each leaves a line in a file outside of the system, so that its word is not all we have."""

import os
import time
from typing import Any

from tickwise.sdk import Context, task


@task("tests.witness")
async def witness(context: Context, payload: dict[str, Any]) -> None:
    """Append what was run and when it began. One `write` to an O_APPEND file is whole."""
    now = time.time()
    line = f"{context.run_id} {context.job_id} {context.fencing_token} {now!r} {context.due_time.timestamp()!r}\n"
    file = os.open(payload["witness"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
