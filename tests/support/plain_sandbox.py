"""A runner of an ordinary user with one task in a sandbox: `python -m tests.support.plain_sandbox FOLDER SECRET`.

It prints the ending and the output of the task, and what is left of its processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil

from tests.support.sandboxes import SandboxShop

COMMAND = """
id -u
test -e {secret} || echo hidden
(setsid env -i sh -c 'sleep 600; :' >/dev/null 2>&1 </dev/null &)
(: > /usr/new) 2>/dev/null || echo read-only
echo '{{"a": 1}}' > "$TICKWISE_RESULT_FILE"
exit 0
"""


async def main(folder: Path, secret: Path) -> None:
    """Once."""
    shop = SandboxShop(folder / "work")
    await shop.open()
    ending, said = await shop.shell(COMMAND.format(secret=secret))
    left = [
        each.name() for each in psutil.Process().children(recursive=True) if each.name() in ("bwrap", "sh", "sleep")
    ]
    await shop.close()
    print(json.dumps([ending.verdict, ending.result, said.split(), left]))  # noqa: T201  # this is how the test knows


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
