"""A thread of the executor that starts sandboxes, and which Landlock holds: no abstract socket, no signal outside.

A network namespace hides the abstract sockets of the machine; a task that has the executor's network would find them.
Landlock holds a thread and what it starts, so the thread that starts sandboxes gives its rights up before. It stays for
as long as the process: a sandbox ends with the thread that started it (`--die-with-parent`). A starter of root's does
the same in the child that becomes bubblewrap (`task_starter_program`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tickwise.adapters.runner.process.sandbox.landlock import restrict_scope

_Result = TypeVar("_Result")
_lock = threading.Lock()
_threads: list[ThreadPoolExecutor] = []


def scoped(work: Callable[[], _Result]) -> _Result:
    """Do this in that thread. Blocking; one at a time. Raises what it raises, and `OSError` if the thread could not
    give its rights up."""
    with _lock:
        if not _threads:
            thread = ThreadPoolExecutor(1, thread_name_prefix="sandbox-starter")
            thread.submit(restrict_scope).result()
            _threads.append(thread)
    return _threads[0].submit(work).result()
