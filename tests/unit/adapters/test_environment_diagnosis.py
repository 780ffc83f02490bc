"""A failed build is permanent or not by what uv says of it."""

from __future__ import annotations

import pytest

from tickwise.adapters.environments.builder_program import UnreadableLock, project_of
from tickwise.adapters.environments.diagnosis import MAX_WORDS, failure_of
from tickwise.ports.environments import ENVIRONMENT_INVALID, ENVIRONMENT_TIMEOUT, ENVIRONMENT_UNAVAILABLE


@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (1, "No solution found when resolving dependencies\n  cause: Because x was not found", ENVIRONMENT_INVALID),
        (2, "No interpreter found for Python >=3.99 in search path", ENVIRONMENT_INVALID),
        (1, "Failed to build `x`\n  cause: exit status 1", ENVIRONMENT_INVALID),
        (2, "HTTP status client error (404 Not Found) for url (https://example.org/x.whl)", ENVIRONMENT_INVALID),
        (2, "error sending request for url (https://example.org/simple/x/)", ENVIRONMENT_UNAVAILABLE),
        (2, "HTTP status server error (503 Service Unavailable) for url (https://…)", ENVIRONMENT_UNAVAILABLE),
        (2, "HTTP status client error (429 Too Many Requests) for url (https://…)", ENVIRONMENT_UNAVAILABLE),
        (2, "Failed to copy: No space left on device (os error 28)", ENVIRONMENT_UNAVAILABLE),
        (137, "", ENVIRONMENT_UNAVAILABLE),
        (-9, "Resolved 3 packages", ENVIRONMENT_UNAVAILABLE),
        (None, "Resolved 3 packages", ENVIRONMENT_TIMEOUT),
    ],
)
def test_a_failure_is_told_by_the_words_of_uv(status: int | None, log: str, reason: str) -> None:
    """The words are part of the error, as far as there is room; our own lines of the log are not."""
    found = failure_of(
        status, f"tickwise: building\nUsing Python 3.11.7 environment at: venv\n{log}\n".encode(), seconds=5.0
    )
    assert (reason, reason == ENVIRONMENT_INVALID) == (found.reason, found.is_permanent)
    assert log in found.detail
    assert "building" not in found.detail
    assert "Using" not in found.detail
    assert len(failure_of(status, b"x" * 100_000, seconds=5.0).detail) < MAX_WORDS + 200


def test_the_signal_of_a_build_is_named() -> None:
    """Of the builder itself, and of uv below it."""
    assert "signal 9" in failure_of(-9, b"", seconds=5.0).detail
    assert "signal 15" in failure_of(143, b"", seconds=5.0).detail


@pytest.mark.parametrize(
    "lock",
    [{}, {"package": 3}, {"package": [3, {"source": 3}, {"source": {"virtual": "."}}]}, {"package": [{"name": "a"}]}],
)
def test_a_lock_of_no_project_is_unreadable(lock: dict[str, object]) -> None:
    """Also one whose parts have other types."""
    with pytest.raises(UnreadableLock):
        project_of(lock)
