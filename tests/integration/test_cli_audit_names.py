"""The audit log on the command line, against a whole Tickwise."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_up import Local, local_up


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """All roles on a store in memory: what is tested here is the terminal."""
    with local_up(tmp_path_factory.mktemp("up"), "--database", "memory://") as up:
        yield up


def listed(local: Local, *options: str) -> list[tuple[str, str]]:
    """The actions and namespaces of the entries that are listed."""
    ran = local.tickwise("audit", "list", "--json", *options)
    assert 0 == ran.code, ran.err
    return [(each["action"], each["namespace"]) for each in ran.json]


def test_a_name_finds_the_entries_of_a_job_a_key_and_a_person(local: Local) -> None:
    """Entries name things by id; the command looks the name up. What is called by no name finds nothing."""
    made = local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "nightly", "--json")
    job_id = made.json["job_id"]
    assert 0 == local.tickwise("jobs", "edit", "nightly", "--priority", "7").code
    assert 0 == local.tickwise("keys", "create", "ci-key", "--role", "viewer").code
    assert 0 == local.tickwise("users", "add", "Petra", "--role", "viewer").code
    assert ["job.changed", "job.created"] == [action for action, _ in listed(local, "--target", "nightly")]
    assert listed(local, "--target", job_id) == listed(local, "--target", "nightly")
    assert [("key.made", "default")] == listed(local, "--target", "ci-key")
    assert any(action.startswith("user.") for action, _ in listed(local, "--target", "petra"))
    assert [] == listed(local, "--target", "nobody")
    plain = local.tickwise("audit", "list", "--target", "nightly", "--since", "yesterday", env={"COLUMNS": "200"})
    assert (0, True) == (plain.code, "priority: 5 → 7" in plain.out), plain


def test_an_export_is_a_file_of_its_owner_alone(local: Local, tmp_path: Path) -> None:
    """Also one that was there before; by a name, each entry once, the oldest first."""
    local.tickwise("run", "--shell", "true", "--every", "1d", "--name", "exported")
    local.tickwise("jobs", "pause", "exported")
    path = tmp_path / "log"
    path.write_text("before")
    path.chmod(0o644)
    ran = local.tickwise("audit", "export", "--target", "exported", "--output", path)
    assert (0, 0o600) == (ran.code, stat.S_IMODE(path.stat().st_mode)), ran
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["job.created", "job.paused"] == [each["action"] for each in entries]
    assert len(entries) == int(ran.err.split()[0])


def test_the_entries_of_a_removed_namespace_are_listed(local: Local, tmp_path: Path) -> None:
    """By an administrator of the installation, as before it was removed."""
    assert 0 == local.tickwise("namespaces", "add", "billing").code
    local.tickwise("run", "--shell", "true", "--every", "1d", "--namespace", "billing")
    before = listed(local, "--namespace", "billing", "--action", "job.created")
    assert 0 == local.tickwise("namespaces", "remove", "billing", "--yes").code
    assert before == listed(local, "--namespace", "billing", "--action", "job.created") != []
    path = tmp_path / "log"
    assert 0 == local.tickwise("audit", "export", "--namespace", "billing", "--output", path).code
    assert "job.created" in path.read_text()
