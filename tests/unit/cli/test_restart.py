"""Whether `up --background` restarts the one that runs, and with which options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tickwise import __version__
from tickwise.cli.connection import Local
from tickwise.cli.local.restart import (
    database_again,
    not_given_again,
    options_again,
    outdated,
    settings_again,
    settings_apart,
)
from tickwise.config import SETTINGS, load
from tickwise.config.described import UNSET, Described
from tickwise.wiring.installation.build import build_of

HERE, OTHER = Path("/mine/.venv"), Path("/other/.venv")
EMBEDDED = (("port", "8471", "--port"), ("host", "127.0.0.1", "default"), ("database_url", "(unset)", "default"))
RUNNING = Local(
    "http://127.0.0.1:8471", "key", 1, 0.0, "postgresql:///embedded", EMBEDDED, version=__version__, build="a"
)


@pytest.mark.parametrize(
    ("version", "build", "installation", "is_outdated"),
    [
        (__version__, "a", HERE, False),
        (__version__, "b", HERE, True),
        (__version__, "b", OTHER, False),
        (__version__, "b", None, False),
        ("0.0.9", "b", HERE, True),
        ("0.0.9", "b", OTHER, True),
        ("99.0", "b", HERE, False),
        (None, None, HERE, True),
        (None, None, OTHER, False),
        ("no version", "b", HERE, False),
    ],
)
def test_earlier_code_is_restarted(
    version: str | None, build: str | None, installation: Path | None, is_outdated: bool
) -> None:
    """By a version that is older, or by other files of the same installation; nothing newer, and no other checkout."""
    running = replace(RUNNING, version=version, build=build)
    assert is_outdated == (outdated(running, installation, HERE, "a") is not None)


def test_the_next_one_has_the_options_of_the_one_before() -> None:
    """As far as they were options, and no others are given."""
    assert {"--port": 8471, "--host": None} == options_again(RUNNING, {"--port": None, "--host": None})
    assert {"--port": 1, "--host": "::1"} == options_again(RUNNING, {"--port": 1, "--host": "::1"})
    queues = Described("queues", "default,reports", "--queues", "")
    serving = replace(RUNNING, settings=(*EMBEDDED, queues[:3]))
    assert {"--queues": "default,reports"} == options_again(serving, {"--queues": None})
    assert {"--queues": "mail"} == options_again(serving, {"--queues": "mail"})


def test_the_next_one_has_the_database_of_the_one_before() -> None:
    """One of its own: it was given by the environment, where another shell may name none. An embedded one is found."""
    own = replace(RUNNING, settings=(("database_url", "postgresql://db", "TICKWISE_DATABASE_URL"),), database_url="own")
    assert (None, "own") == (database_again(RUNNING, None, None, HERE), database_again(own, None, None, HERE))
    assert ("given", None) == (
        database_again(own, "given", "given", HERE),
        database_again(own, None, "configured", HERE),
    )


def test_one_of_a_release_that_told_no_settings_keeps_its_port_and_its_database() -> None:
    """Its clients know its address; a database of its own is not exchanged for an embedded one."""
    own = replace(RUNNING, settings=None, database_url="postgresql://db/jobs")
    embedded = replace(RUNNING, settings=None, database_url="postgresql://t:k@/tickwise?host=/data/postgres/run")
    assert {"--port": 8471, "--host": None} == options_again(own, {"--port": None, "--host": None})
    wanted = "postgresql://db/jobs", None
    assert wanted == tuple(database_again(each, None, None, Path("/data")) for each in (own, embedded))


def test_files_that_are_changed_are_another_build(tmp_path: Path) -> None:
    """Of any kind; what Python compiles is none of them."""
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "sql").mkdir()
    first = build_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("compiled")
    assert first == build_of(tmp_path)
    (tmp_path / "sql" / "b.sql").write_text("SELECT 1")
    second = build_of(tmp_path)
    (tmp_path / "a.py").write_text("ab")
    assert 3 == len({first, second, build_of(tmp_path)})


GIVEN = (
    ("data_dir", "/srv/tickwise", "--data-dir"),
    ("queues", "default,web1", "TICKWISE_QUEUES"),
    ("lease_seconds", "12.5", "TICKWISE_LEASE_SECONDS"),
    ("smtp_url", "smtp://mail/********", "TICKWISE_SMTP_URL"),
    ("slots", "3", "/etc/tickwise/service.toml"),
    ("labels", "(unset)", "TICKWISE_LABELS"),
    ("drain_seconds", "30", "default"),
)
RUNS = replace(RUNNING, settings=(*EMBEDDED, *GIVEN))


def test_the_next_one_has_the_settings_of_the_one_before() -> None:
    """Those of its environment, which another shell may lack: without its queue, its jobs would wait. Secrets and
    settings of files that this call does not read are named."""
    again = settings_again(RUNS, load({}))
    assert {"TICKWISE_QUEUES": "default,web1", "TICKWISE_LEASE_SECONDS": "12.5"} == again.variables
    assert ["smtp_url", "slots"] == again.lost


def test_a_service_is_told_which_options_and_settings_it_lacks() -> None:
    """Its port among them: without it, the service would listen where no client looks."""
    options = {"--port": None, "--host": None, "--queues": None}
    wanted = ["--port 8471", "TICKWISE_QUEUES", "TICKWISE_LEASE_SECONDS", "smtp_url", "slots"]
    assert wanted == not_given_again(RUNS, options, load({}))
    assert wanted[1:] == not_given_again(RUNS, {**options, "--port": 8472}, load({}))
    assert wanted[1:] == not_given_again(RUNS, options, load({"TICKWISE_PORT": "8472"}))


def test_a_setting_that_is_given_is_not_that_of_the_one_before() -> None:
    """By the environment of this call."""
    again = settings_again(RUNS, load({"TICKWISE_QUEUES": "web2", "TICKWISE_SLOTS": "4"}))
    assert (["TICKWISE_LEASE_SECONDS"], ["smtp_url"]) == (list(again.variables), again.lost)


@pytest.mark.parametrize(
    "shown", [each for each in load({}).describe() if each.value != UNSET], ids=lambda each: each.name
)
def test_a_setting_is_handed_on_as_it_is(shown: Described) -> None:
    """What is shown of it can be read again, by its variable."""
    setting = SETTINGS[shown.name]
    again = load({setting.variable: shown.value})
    assert getattr(load({}), shown.name) == getattr(again, shown.name)


def test_a_number_is_handed_on_with_all_its_digits() -> None:
    """A number of seconds is shown with all of them."""
    shown = {each.name: each.value for each in load({"TICKWISE_LEASE_SECONDS": "12.3456789"}).describe()}
    assert "12.3456789" == shown["lease_seconds"]


def test_settings_that_are_not_in_force_are_told() -> None:
    """A second `up` with other settings changes nothing, and says so; one with the same says nothing."""
    same = load({"TICKWISE_QUEUES": "default", "TICKWISE_SLOTS": "3"})
    running = replace(RUNNING, settings=tuple((each.name, each.value, each.origin) for each in same.describe()))
    assert settings_apart(running, same) is None
    other = load({"TICKWISE_QUEUES": "default,web1", "TICKWISE_SLOTS": "3"})
    assert "It has other settings than this call: queues is default there and default,web1 here." == settings_apart(
        running, other
    )
    assert settings_apart(running, load({})) is None, "what this call does not give is not asked for"
    assert settings_apart(replace(RUNNING, settings=None), other) is None
