"""A failed build is permanent or not by what uv says of it."""

from __future__ import annotations

import pytest

from tickwise.adapters.environments.builder_program import UnreadableLock, project_of
from tickwise.adapters.environments.diagnosis import MAX_WORDS, BuildLimits, failure_of, too_large
from tickwise.ports.environments import ENVIRONMENT_INVALID, ENVIRONMENT_TIMEOUT, ENVIRONMENT_UNAVAILABLE, BuildLimit

LIMITS = BuildLimits(seconds=5.0, memory_bytes=1 << 20, disk_bytes=1 << 30)


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
        (BuildLimit.TIME, "Resolved 3 packages", ENVIRONMENT_TIMEOUT),
        (BuildLimit.MEMORY, "Resolved 3 packages", ENVIRONMENT_INVALID),
    ],
)
def test_a_failure_is_told_by_the_words_of_uv(status: int | BuildLimit, log: str, reason: str) -> None:
    """The words are part of the error, as far as there is room; our own lines of the log are not."""
    found = failure_of(
        status, f"tickwise: building\nUsing Python 3.11.7 environment at: venv\n{log}\n".encode(), LIMITS
    )
    assert (reason, reason == ENVIRONMENT_INVALID) == (found.reason, found.is_permanent)
    assert log in found.detail
    assert "building" not in found.detail
    assert "Using" not in found.detail
    assert len(failure_of(status, b"x" * 100_000, LIMITS).detail) < MAX_WORDS + 200


def test_the_signal_of_a_build_is_named() -> None:
    """Of the builder itself, and of uv below it."""
    assert "signal 9" in failure_of(-9, b"", LIMITS).detail
    assert "signal 15" in failure_of(143, b"", LIMITS).detail


def test_a_limit_is_told_with_its_setting() -> None:
    """The number, and what to change. Only a full disk is the machine's fault."""
    memory, disk = failure_of(BuildLimit.MEMORY, b"", LIMITS), too_large(LIMITS)
    assert "1048576 bytes of memory" in memory.detail
    assert "TICKWISE_ENVIRONMENT_BUILD_MEMORY_BYTES" in memory.detail
    assert "TICKWISE_ENVIRONMENT_BUILD_BYTES" in disk.detail
    full = failure_of(2, b"No space left on device", LIMITS)
    assert [False, False, True] == [each.is_of_machine for each in (memory, disk, full)]


@pytest.mark.parametrize(
    "lock",
    [{}, {"package": 3}, {"package": [3, {"source": 3}, {"source": {"virtual": "."}}]}, {"package": [{"name": "a"}]}],
)
def test_a_lock_of_no_project_is_unreadable(lock: dict[str, object]) -> None:
    """Also one whose parts have other types."""
    with pytest.raises(UnreadableLock):
        project_of(lock)
