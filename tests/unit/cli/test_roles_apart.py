"""The roles' commands: what they refuse before they start anything."""

from __future__ import annotations

import pytest

from tickwise.cli.failures import Exit
from tickwise.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["api", "--serve", "jobs,pages"],
            "api_serve is 'jobs,pages', and must be one or more of jobs, search,",
        ),
        (["recorder", "--serve", "jobs"], "recorder_serve is 'jobs', and must be one or more of requests, results."),
        (["recorder"], "set TICKWISE_BROKER_URL"),
    ],
)
def test_a_role_that_cannot_be_is_refused_with_what_can(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the exit code of a wrong set-up, before any port is opened or database asked."""
    monkeypatch.setenv("TICKWISE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
    monkeypatch.delenv("TICKWISE_BROKER_URL", raising=False)
    assert Exit.MISCONFIGURED == main(words)
    assert said in capsys.readouterr().err
