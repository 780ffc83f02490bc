"""The packages of a script on the command line, and the environments of this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
import pytest

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.folder import EnvironmentFacts, EnvironmentFolder
from tickwise.cli import work
from tickwise.cli.failures import Exit
from tickwise.cli.main import main
from tickwise.cli.session import Session

KEY = "0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentFolder:
    """That of an executor with these settings, with one environment."""
    monkeypatch.setenv("TICKWISE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TICKWISE_RUN_TASKS_AS", "root" if os.geteuid() == 0 else "")
    made = EnvironmentFolder(tmp_path / "environments")
    claim = made.claim(KEY)
    assert claim is not None
    site = made.begin(claim, "team", None)
    (site.work / "venv/bin").mkdir(parents=True)
    (site.work / "venv/bin/python").symlink_to(sys.executable)
    facts = EnvironmentFacts(KEY, "team", "tickle, rich", "3.11.7", 1_800_000_000.0, 1.25, 0)
    made.publish(site, facts, b"Resolved 2 packages\n", None)
    made.abandon(site)
    claim.release()
    return made


def test_environments_are_listed_and_shown(folder: EnvironmentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """With the packages that were declared, and the log of the build."""
    assert Exit.OK == main(["environments", "list"])
    listed = capsys.readouterr().out
    assert all(word in listed for word in (KEY[:12], "team", "tickle, rich", "LAST USED"))
    assert Exit.OK == main(["environments", "show", KEY[:4]])
    assert "Resolved 2 packages" in capsys.readouterr().out
    assert Exit.OK == main(["environments", "list", "--json"])
    assert [KEY] == [each["key"] for each in json.loads(capsys.readouterr().out)]
    assert Exit.NOT_FOUND == main(["environments", "show", "f"])


def test_what_is_not_in_use_is_removed(folder: EnvironmentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """An environment in which a script runs stays."""
    held = folder.hold(KEY, 1_800_000_000.0)
    assert held is not None
    assert Exit.OK == main(["environments", "prune", "--json"])
    assert {"removed": []} == json.loads(capsys.readouterr().out)
    held.release()
    assert Exit.OK == main(["environments", "prune", "--json"])
    assert {"removed": [KEY]} == json.loads(capsys.readouterr().out)
    assert [] == folder.stored()
    assert Exit.OK == main(["environments", "list"])


def test_what_was_not_used_for_long_is_removed(folder: EnvironmentFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """And what was used since then stays, with all downloads."""
    held = folder.hold(KEY, SystemClock().now() - 3_000.0)
    assert held is not None
    held.release()
    cache = next((folder.root / "caches").iterdir())
    assert Exit.OK == main(["environments", "prune", "--unused", "1h", "--json"])
    assert {"removed": []} == json.loads(capsys.readouterr().out)
    assert Exit.OK == main(["environments", "prune", "--unused", "40m", "--json"])
    assert {"removed": [KEY]} == json.loads(capsys.readouterr().out)
    assert cache.exists()
    assert Exit.USAGE == main(["environments", "prune", "--unused", "soon"])


def test_a_machine_without_environments_has_an_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is made there by looking."""
    monkeypatch.setenv("TICKWISE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TICKWISE_RUN_TASKS_AS", "root" if os.geteuid() == 0 else "")
    assert Exit.OK == main(["environments", "list", "--json"])
    assert [] == json.loads(capsys.readouterr().out)
    assert Exit.OK == main(["environments", "prune"])
    assert [] == [*tmp_path.iterdir()]


def test_the_packages_of_a_script_come_from_a_file(tmp_path: Path) -> None:
    """As its text, whose errors are told with that file."""
    session = Session()
    file = tmp_path / "requirements.txt"
    file.write_text("\ufeffrich\n")
    assert {"requirements": "rich\n"} == work.environment_fields(session, str(file), None)
    assert {"lock": "rich\n"} == work.environment_fields(session, None, str(file))
    assert str(file) == session.blame["/task/requirements"].option
    assert {} == work.environment_fields(session, None, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.py", "--requirements", "{none}"], "cannot be read"),
        (["a.py", "--lock", "{binary}"], "no UTF-8"),
        (["a.py", "--lock", "{text}", "--requirements", "{text}"], "exclude each other"),
        (["--shell", "date", "--requirements", "{text}"], "belongs to a Python script"),
        (["{shell}", "--requirements", "{text}"], "belongs to Python scripts"),
    ],
)
def test_packages_that_belong_to_no_script_are_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any server is asked."""
    places = {name: tmp_path / name for name in ("none", "binary", "text", "shell")}
    places["binary"].write_bytes(b"\xff\xfe\xff")
    places["text"].write_text("rich\n")
    places["shell"].write_text("#!/bin/sh\ndate\n")
    assert Exit.USAGE == main(["run", *(word.format(**places) for word in words)])
    assert said in capsys.readouterr().err


def test_a_lock_and_requirements_exclude_each_other() -> None:
    """A lock has all packages."""
    with pytest.raises(click.UsageError):
        work.environment_fields(Session(), "a", "b")
