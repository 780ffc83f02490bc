"""Imported Python commands get an interpreter or packages: `--python`, `--requirements` and `--lock` of an import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tickwise.cli.failures import Exit
from tickwise.cli.main import main

SHOW = "import os, sys; print(sys.executable, os.environ['DAY'], *sys.argv[1:]); sys.exit(3)"


def imported(file: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The entries of the report."""
    assert Exit.OK == main(["import", "crontab", str(file), "--json", "--timezone", "UTC", *options])
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["entries"]
    return entries


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """A command that shows its Python, and one that has none."""
    (tmp_path / "show.py").write_text(SHOW)
    file = tmp_path / "crontab"
    file.write_text(f"DAY=today\n0 6 * * * cd {tmp_path} && python3 show.py 'a b' 2>&1\n0 7 * * * /opt/backup\n")
    return file


def test_a_named_python_runs_the_command(crontab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of the command is as it was; what starts no Python is as it was too, and the report says so."""
    python, other = imported(crontab, "--python", sys.executable, capsys=capsys)
    assert ("changed", [f"{sys.executable} (--python) runs it, and not python3"]) == (
        python["verdict"], python["changes"],
    )  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", "-c", python["job"]["task"]["command"]], capture_output=True, text=True, check=False
    )
    assert (3, f"{sys.executable} today a b\n") == (done.returncode, done.stdout)
    assert ("same", "/opt/backup") == (other["verdict"], other["job"]["task"]["command"].split("\n")[-1])
    assert any("starts no Python itself" in note for note in other["notes"])


def test_a_folder_of_a_virtual_environment_stands_for_its_python(
    crontab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is on this machine; a path of another machine is a program."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    for given, wanted in ((tmp_path, f"{tmp_path}/bin/python show.py"), ("/far/python", "/far/python show.py")):
        python, _ = imported(crontab, "--python", str(given), capsys=capsys)
        assert wanted in python["job"]["task"]["command"]


@pytest.mark.parametrize("option", ["--requirements", "--lock"])
def test_packages_go_along_with_the_command(
    crontab: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of a Python task, whose script hands over to the command: exit code and output are the command's."""
    (tmp_path / "packages").write_text("six==1.16.0\n")
    python, other = imported(crontab, option, str(tmp_path / "packages"), capsys=capsys)
    task = python["job"]["task"]
    assert ("python", "six==1.16.0\n") == (task["kind"], task[option.removeprefix("--")])
    assert [f"the environment of {option} runs it, and not python3"] == python["changes"]
    done = subprocess.run([sys.executable, "-c", task["source"]], capture_output=True, text=True, check=False)
    assert (3, f"{sys.prefix}/bin/python today a b\n") == (done.returncode, done.stdout)
    assert "shell" == other["job"]["task"]["kind"]


def test_a_folder_and_variables_go_along_too(crontab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dir` and `--env` beside it."""
    python, _ = imported(crontab, "--python", "/p", "--env", "A=b", "--dir", "/srv", capsys=capsys)
    task = python["job"]["task"]
    assert ("/srv", "b", "/usr/bin:/bin") == (task["directory"], task["env"]["A"], task["env"]["PATH"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--python", "venv"), "the whole path"),
        (("--python", "/p", "--requirements", "FILE"), "exclude each other"),
        (("--requirements", "FILE", "--lock", "FILE"), "exclude each other"),
        (("--requirements", "/not/there"), "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    crontab: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path of this folder means nothing on an executor; and a Python has the packages that it has."""
    words = [str(crontab) if word == "FILE" else word for word in options]
    assert Exit.USAGE == main(["import", "crontab", str(crontab), *words])
    assert said in " ".join(capsys.readouterr().err.split())
