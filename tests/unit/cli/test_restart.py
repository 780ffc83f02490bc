"""Whether `up --background` restarts the one that runs, and with which options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tickwise import __version__
from tickwise.cli.connection import Local
from tickwise.cli.local.restart import database_again, options_again, outdated
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
