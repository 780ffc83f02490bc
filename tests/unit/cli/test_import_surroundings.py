"""Imported commands get a folder and variables: `--dir` and `--env` of an import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tickwise.cli.failures import Exit
from tickwise.cli.main import main

CRONTAB = "TZ=UTC\n0 6 * * * /opt/report\n0 7 * * * /opt/other\n@reboot /opt/never\n"


def test_each_imported_command_gets_its_folder_and_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a server; an entry that is refused stays refused."""
    file = tmp_path / "crontab"
    file.write_text(CRONTAB)
    words = ["import", "crontab", str(file), "--json", "--dir", "/srv/app", "--env", "DAY=today", "--env", "A=b=c"]
    assert Exit.OK == main(words)
    entries = json.loads(capsys.readouterr().out)["entries"]
    tasks = [each["job"]["task"] for each in entries if each.get("job")]
    assert len(tasks) == 2
    env = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "DAY": "today", "A": "b=c"}
    assert all((task["directory"], task["env"]) == ("/srv/app", env) for task in tasks)


@pytest.mark.parametrize(
    ("option", "said"), [(["--dir", "app"], "the whole path"), (["--env", "secret-without-a-name"], "NAME=VALUE")]
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, option: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path of this folder means nothing on an executor; and no value is repeated that may be a secret."""
    file = tmp_path / "crontab"
    file.write_text(CRONTAB)
    assert Exit.USAGE == main(["import", "crontab", str(file), *option])
    told = capsys.readouterr().err
    assert said in told
    assert "secret-without-a-name" not in told


def test_a_celery_schedule_has_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its jobs are functions."""
    assert Exit.USAGE == main(["import", "celery", str(tmp_path / "celery.py"), "--dir", "/srv"])
    assert "--dir" in capsys.readouterr().err
