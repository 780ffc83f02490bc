"""Renews the identity token of a task that goes on, in the folder of its attempt."""

from __future__ import annotations

import logging

from tickwise.adapters.runner.identity_file import replace_token
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.slots import Attempt

_logger = logging.getLogger(__name__)


def renew_in_folder(attempt: Attempt, token: str, user: TaskUser | None) -> None:
    """In a thread. A folder that is not there yet, or no more, is no error: the attempt begins with this token, or has
    ended."""
    if attempt.folder is None:
        return
    try:
        replace_token(attempt.folder, token, None if user is None else (user.uid, user.gid))
    except OSError as error:
        _logger.warning("the identity token of run %s is not renewed: %s", attempt.assignment.run_id, error)
