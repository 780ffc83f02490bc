"""The unit that starts `tickwise up` with the machine: what it says, where it lies, and that it goes away again."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.local_up import Ran, call_command, environment
from tickwise.cli.failures import CommandFailure
from tickwise.cli.local.boot_service import MARK, BootService, unit_text
from tickwise.cli.local.service import install, remove
from tickwise.cli.session import Session
from tickwise.config import load

IS_ROOT = os.geteuid() == 0
HARD = "a b%c$d\"e\\f'g"
"""A folder's name that systemd could take for something else."""


def up(folder: Path, *options: str | Path, **environ: str) -> Ran:
    """`tickwise up OPTIONS`, with units in this folder."""
    return call_command(("up", *options), environment(SYSTEMD_UNIT_PATH=str(folder), HOME=str(folder), **environ))


def lines(text: str, name: str) -> list[str]:
    """The values of a key of a unit."""
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


def test_a_unit_is_written_and_taken_away(tmp_path: Path) -> None:
    """The data stays; each is said, and nothing but the unit is in the folder."""
    units, data = tmp_path / "units", tmp_path / "data"
    data.mkdir()
    ran = up(units, "--install-service", "--data-dir", data, "--port", "8471", "--json")
    assert 0 == ran.code, ran.err
    unit = Path(ran.json["unit"])
    assert ([unit], False, False) == ([*units.iterdir()], ran.json["enabled"], ran.json["started"])
    assert f"enable --now {unit.stem}" in ran.json["next"][0]
    text = unit.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "tickwise", "up", "--data-dir", str(data), "--port", "8471"]
    assert [command] == [shlex.split(value) for value in lines(text, "ExecStart")]
    assert ["multi-user.target" if IS_ROOT else "default.target"] == lines(text, "WantedBy")
    assert ["on-failure"] == lines(text, "Restart")
    gone = up(units, "--remove-service", "--data-dir", data)
    assert (0, True, []) == (gone.code, "stays" in gone.out, [*units.iterdir()])
    again = up(units, "--remove-service", "--data-dir", data)
    assert (0, True, True) == (again.code, "No service is installed" in again.out, data.is_dir())


def test_each_data_folder_has_a_unit_of_its_own(tmp_path: Path) -> None:
    """Installing one again replaces it."""
    for name in ("one", "two", "one"):
        assert 0 == up(tmp_path / "units", "--install-service", "--data-dir", tmp_path / name).code
    assert 2 == len([*(tmp_path / "units").iterdir()])


def test_the_usual_folder_has_the_usual_name(tmp_path: Path) -> None:
    """Of root's and of a user's units."""
    service = BootService.of(tmp_path, {"HOME": str(tmp_path)}, is_usual=True)
    wanted = "/etc/systemd/system" if IS_ROOT else f"{tmp_path}/.config/systemd/user"
    assert f"{wanted}/tickwise-up.service" == str(service.file)


def test_settings_of_the_environment_go_along_and_secrets_do_not(tmp_path: Path) -> None:
    """All users of a machine may read units."""
    units, config = tmp_path / "units", tmp_path / "config"
    config.mkdir()
    (config / "service.toml").write_text("slots = 3\n")
    given = {"TICKWISE_SLOTS": "7", "TICKWISE_CONFIG_LOCATION": str(config), "PATH": "/srv/bin:/usr/bin", "OTHER": "x"}
    assert 0 == up(units, "--install-service", "--data-dir", tmp_path, **given).code
    [unit] = units.iterdir()
    found = [shlex.split(value)[0] for value in lines(unit.read_text(encoding="utf-8"), "Environment")]
    assert {"PATH=/srv/bin:/usr/bin", "TICKWISE_SLOTS=7", f"TICKWISE_CONFIG_LOCATION={config}"} <= {*found}
    assert not [value for value in found if value.startswith(("OTHER", "HOME"))]
    unit.unlink()
    for secret in ({"TICKWISE_BOOTSTRAP_KEY": "k" * 40}, {"TICKWISE_DATABASE_URL": "postgresql://u:p@db/t"}):
        ran = up(units, "--install-service", "--data-dir", tmp_path, **secret)
        assert (6, True, []) == (ran.code, "secrets.toml" in ran.err, [*units.iterdir()])
    named = up(units, "--install-service", "--data-dir", tmp_path, "--database", "postgresql://u:p@db/t")
    assert (2, []) == (named.code, [*units.iterdir()])


def test_a_service_finds_the_functions_of_the_folder_in_which_it_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd starts it in `/`, where the modules are not. Without functions the unit holds no folder."""
    shop = tmp_path / "shop 100%"
    shop.mkdir()
    monkeypatch.chdir(shop)
    service = made(tmp_path)
    for modules, wanted in (("shop_jobs", [str(shop).replace("%", "%%")]), ("", [])):
        given = {"TICKWISE_FUNCTION_MODULES": modules} if modules else {}
        install(Session(environ=given), service, load(given), {}, runs=False)
        assert wanted == lines(service.file.read_text(encoding="utf-8"), "WorkingDirectory")


def test_a_file_of_others_is_left_alone(tmp_path: Path) -> None:
    """Neither written over nor removed."""
    assert 0 == up(tmp_path / "units", "--install-service", "--data-dir", tmp_path).code
    [unit] = (tmp_path / "units").iterdir()
    unit.write_text("[Unit]\nDescription=mine\n", encoding="utf-8")
    for option in ("--install-service", "--remove-service"):
        ran = up(tmp_path / "units", option, "--data-dir", tmp_path)
        assert (4, "[Unit]\nDescription=mine\n") == (ran.code, unit.read_text(encoding="utf-8")), ran.err


def test_one_thing_at_a_time(tmp_path: Path) -> None:
    """A usage error, and nothing is written."""
    for options in (("--install-service", "--background"), ("--install-service", "--remove-service")):
        assert (2, False) == (up(tmp_path / "units", *options).code, (tmp_path / "units").exists())


@pytest.mark.parametrize("is_system", [True, False])
def test_systemd_takes_the_unit(tmp_path: Path, is_system: bool) -> None:
    """Of the machine and of a user, with names that it could misread."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze comes with systemd")
    service = made(tmp_path, is_system=is_system)
    command = [sys.executable, "-m", "tickwise", "up", "--data-dir", str(tmp_path / HARD)]
    folder = tmp_path / HARD
    folder.mkdir()
    service.write(unit_text(service, command, {"A": f"{HARD}\tx", "PATH": "/usr/bin"}, 35.0, folder=folder))
    done = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", str(service.file)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, (done.stdout + done.stderr).strip())
    assert ["95"] == lines(service.file.read_text(encoding="utf-8"), "TimeoutStopSec")
    assert MARK == service.file.read_text(encoding="utf-8").splitlines()[0]


# ------------------------------------------------------------------------------------------ where systemd runs


def made(folder: Path, *, is_system: bool = True, is_live: bool = False) -> BootService:
    """A service of a folder."""
    return BootService(
        data_dir=folder / "data", folder=folder, name="tickwise-up", is_system=is_system, is_live=is_live
    )


def manager(folder: Path, active: bool) -> Mapping[str, str]:
    """An environment whose `systemctl` writes down what it is asked: tests have no systemd that they may change."""
    program = folder / "bin" / "systemctl"
    program.parent.mkdir()
    answer = 0 if active else 3
    answers = f"*is-active*) exit {answer};; *enable*bad*) exit 1;;"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/asked\ncase "$*" in {answers} esac\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("active", "runs", "wanted"),
    [(False, False, ["start"]), (False, True, []), (True, True, ["restart"])],
    ids=["nothing runs", "an up runs in the background", "the service runs"],
)
def test_where_systemd_runs_the_service_is_enabled_and_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    active: bool, runs: bool, wanted: list[str],
) -> None:  # fmt: skip
    """Unless the folder is in use by an `up` that is no service: then the command to change over is shown."""
    environ = manager(tmp_path, active)
    monkeypatch.setenv("PATH", environ["PATH"])
    service = made(tmp_path, is_live=True)
    install(Session(environ=environ), service, load({}), {"--port": None}, runs=runs)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert ["daemon-reload", "enable tickwise-up"] == [line for line in asked if "active" not in line][:2]
    assert [f"{verb} tickwise-up" for verb in wanted] == [line for line in asked if "start" in line]
    assert (runs and not active) == ("tickwise down" in capsys.readouterr().out)
    remove(Session(environ=environ), service)
    assert ["disable --now tickwise-up", "daemon-reload"] == (tmp_path / "asked").read_text().splitlines()[-2:]
    assert not service.file.exists()


def test_words_of_systemd_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is none of ours."""
    environ = manager(tmp_path, active=False)
    monkeypatch.setenv("PATH", environ["PATH"])
    service = replace(made(tmp_path, is_live=True), name="bad")
    with pytest.raises(CommandFailure, match="systemctl enable bad"):
        install(Session(environ=environ), service, load({}), {}, runs=False)
