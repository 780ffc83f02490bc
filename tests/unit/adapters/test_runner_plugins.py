"""Runners of other packages: found by entry point, refused with the package's name when they are no good."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.kinds import HttpKind
from tickwise.adapters.runner.plugins import GROUP, load_plugins
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured


@pytest.fixture
def settings(tmp_path: Path) -> RunnerSettings:
    return RunnerSettings(blobs=open_blobs("memory://"), clock=SystemClock(), work_root=tmp_path)


def point(value: str) -> EntryPoint:
    return EntryPoint("theirs", value, GROUP)


def test_a_plugin_is_called_with_the_settings(settings: RunnerSettings) -> None:
    """What it gives is a runner like ours; one of ours plays it here."""
    (runner,) = load_plugins(settings, points=[point("tickwise.adapters.runner.http.runner:HttpRunner")])
    assert isinstance(runner, HttpRunner)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_module:Runner", "ModuleNotFoundError"),
        ("tickwise.adapters.runner.http.runner:NoSuchRunner", "AttributeError"),
        ("builtins:repr", "gives no runner: it has no kinds"),
        ("builtins:int", "TypeError"),
    ],
)
def test_a_plugin_that_is_no_good_is_refused(settings: RunnerSettings, value: str, says: str) -> None:
    """Before anything runs, with its name and what is wrong."""
    with pytest.raises(Misconfigured, match="theirs") as refused:
        load_plugins(settings, points=[point(value)])
    assert says in refused.value.detail


def test_a_kind_belongs_to_one_runner(settings: RunnerSettings) -> None:
    """Neither ours nor another plugin's can be taken over."""
    theirs = point("tickwise.adapters.runner.http.runner:HttpRunner")
    with pytest.raises(Misconfigured, match="`http`, which Tickwise itself has"):
        load_plugins(settings, taken=[HttpKind()], points=[theirs])
    with pytest.raises(Misconfigured, match="`http`, which the plugin"):
        load_plugins(settings, points=[theirs, theirs])


def test_without_plugins_there_are_none(settings: RunnerSettings) -> None:
    """The usual case."""
    assert list(load_plugins(settings)) == []
