"""The parts of the embedded PostgreSQL that need no server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tickwise.adapters.embedded import server
from tickwise.adapters.embedded.programs import environment, failure
from tickwise.adapters.embedded.server import BoundedLog
from tickwise.adapters.embedded.settings import GB, MB, Machine, memory_bytes, tuned
from tickwise.adapters.embedded.supervisor import Endpoint
from tickwise.domain.errors import Misconfigured

LARGE = Machine(memory_bytes=64 * GB, free_disk_bytes=500 * GB, postgres_major=18)
SMALL = Machine(memory_bytes=512 * MB, free_disk_bytes=600 * MB, postgres_major=15)


@pytest.mark.parametrize(
    ("machine", "shared_buffers", "max_wal_size"), [(LARGE, "256MB", "4096MB"), (SMALL, "32MB", "256MB")]
)
def test_memory_and_log_follow_the_machine(machine: Machine, shared_buffers: str, max_wal_size: str) -> None:
    """Modest on a large machine, and within the means of a small one."""
    settings = tuned(machine, {})
    assert (shared_buffers, max_wal_size) == (settings["shared_buffers"], settings["max_wal_size"])


def test_an_older_server_gets_no_setting_that_it_does_not_know() -> None:
    """It would refuse to start."""
    assert "io_method" in tuned(LARGE, {})
    assert "io_method" not in tuned(SMALL, {})


@pytest.mark.parametrize("name", ["port", "listen_addresses", "unix_socket_directories", "data_directory"])
def test_what_the_supervisor_decides_cannot_be_set(name: str) -> None:
    """The refusal names the setting."""
    with pytest.raises(Misconfigured, match=name):
        tuned(LARGE, {name: "x"})


def test_the_memory_of_this_machine_is_a_real_number() -> None:
    """Never the `max` of a container without a limit."""
    assert 16 * MB < memory_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file and one predecessor, whatever is written; the newest line is in the file."""
    monkeypatch.setattr(server, "LOG_FILE_BYTES", 100)
    log = BoundedLog(tmp_path / "postgres.log")
    for number in range(100):
        log.write(b"line %03d\n" % number)
    assert ["postgres.log", "postgres.log.1"] == sorted(os.listdir(tmp_path))
    assert all(file.stat().st_size <= 110 for file in tmp_path.iterdir())
    assert (tmp_path / "postgres.log").read_bytes().endswith(b"line 099\n")


def test_a_log_that_cannot_be_written_costs_lines_alone(tmp_path: Path) -> None:
    """The server's pipe is read on, or the server would stand still."""
    BoundedLog(tmp_path / "absent" / "postgres.log").write(b"lost\n")


def test_the_server_inherits_nothing_that_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user could read our keys; and variables of PostgreSQL's client would change what the programs do."""
    monkeypatch.setenv("TICKWISE_BOOTSTRAP_KEY", "secret")
    monkeypatch.setenv("PGDATA", "/elsewhere")
    assert not {"TICKWISE_BOOTSTRAP_KEY", "PGDATA"} & environment().keys()


def test_a_full_disk_is_told_with_the_path_and_what_is_free(tmp_path: Path) -> None:
    """Whichever program met it."""
    error = failure("It failed", "FATAL: could not write: No space left on device", tmp_path)
    assert isinstance(error, Misconfigured)
    assert str(tmp_path) in error.detail
    assert "MB free" in error.detail


def test_the_address_of_a_socket_survives_odd_signs() -> None:
    """Blanks and signs that mean something in an address are escaped."""
    dsn = Endpoint(sockets=Path("/a b/&c=d?"), port=None).dsn("secret")
    assert "postgresql://tickwise:secret@/tickwise?host=/a%20b/%26c%3Dd%3F" == dsn
