"""Renews the identity token of a task that goes on, in the folder of its attempt."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from tickwise.adapters.runner.identity_file import replace_token
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.ports.runner import Assignment

_logger = logging.getLogger(__name__)


class FolderRunner(SlotRunner):
    """Base of runners whose attempts have a folder each."""

    _threads: ThreadPoolExecutor

    def user_of(self, assignment: Assignment) -> TaskUser | None:
        """The user that the task runs as; None: the executor's own."""
        raise NotImplementedError

    def hand_over_token(self, attempt: Attempt, token: str) -> None:
        self._threads.submit(_renew, attempt, token, self.user_of(attempt.assignment))


def _renew(attempt: Attempt, token: str, user: TaskUser | None) -> None:
    """In a thread. A folder that is not there yet, or no more, is no error: the attempt begins with this token, or has
    ended."""
    if attempt.folder is None:
        return
    try:
        replace_token(attempt.folder, token, None if user is None else (user.uid, user.gid))
    except OSError as error:
        _logger.warning("the identity token of run %s is not renewed: %s", attempt.assignment.run_id, error)
