"""The Python peers: what is installed for them is known to the last package, and no run of their processes is lost."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PEERS = Path(__file__).parents[3] / "bench" / "peers"


@pytest.fixture
def speak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the peers' programs share; they import it by its place, from environments that lack everything of ours."""
    spec = importlib.util.spec_from_file_location("speak", PEERS / "python" / "speak.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "speak", module)
    spec.loader.exec_module(module)
    return module


def test_each_package_of_a_peer_is_pinned_to_one_version() -> None:
    """A figure belongs to versions that can be installed again."""
    files = sorted(PEERS.glob("*/requirements.txt"))
    loose = [
        f"{file.parent.name}: {line}"
        for file in files
        for line in file.read_text().splitlines()
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*==[0-9][0-9a-z.]*", line)
    ]
    assert len(files) >= 6
    assert [] == loose


def test_what_a_workers_processes_ran_is_joined(
    speak: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of several processes has one record: all jobs, each as often as it ran, from the earliest start on."""
    record = tmp_path / "record-0.json"
    monkeypatch.setenv("PEER_RECORD", str(record))
    for process, (first, ids) in enumerate([(20.0, [3, 4]), (10.0, [4, 5])]):
        part = {"first": first, "ids": ids, "late_ms": [float(process)]}
        (tmp_path / f"record-0.json.part-{process}").write_text(json.dumps(part))
    # Another worker's part is not this worker's.
    (tmp_path / "record-1.json.part-0").write_text(json.dumps({"first": 1.0, "ids": [9], "late_ms": []}))
    speak.write_joined()
    joined = json.loads(record.read_text())
    assert 10.0 == joined["first"]
    assert [3, 4, 4, 5] == sorted(joined["ids"])
    assert [0.0, 1.0] == sorted(joined["late_ms"])


def test_a_worker_that_ran_nothing_has_an_empty_record(
    speak: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no share in the run; that is no error."""
    record = tmp_path / "record-0.json"
    monkeypatch.setenv("PEER_RECORD", str(record))
    speak.write_joined()
    assert {"first": None, "ids": [], "late_ms": []} == json.loads(record.read_text())
