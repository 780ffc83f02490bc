"""Runners that other packages bring, under the entry point group `tickwise.task_kinds`.

An entry point names a callable that takes `RunnerSettings` and returns a `Runner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points

from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.ports.runner import Runner, TaskKind

GROUP = "tickwise.task_kinds"
KIND_MEMBERS = ("name", "schema", "limits", "check")
RUNNER_METHODS = ("kinds", "start", "launch", "stop", "offers", "labels", "release_waiting", "close")


def load_plugins(
    settings: RunnerSettings, *, taken: Iterable[TaskKind] = (), points: Iterable[EntryPoint] | None = None
) -> Sequence[Runner]:
    """Every installed plugin's runner. `taken` are the kinds that there are; `points` replace the installed ones.

    Raises `Misconfigured` if one cannot be loaded, is no runner, or names a kind that is taken.
    """
    owners = {kind.name: "Tickwise itself" for kind in taken}
    runners: list[Runner] = []
    for point in entry_points(group=GROUP) if points is None else points:
        runner = _load(point, settings)
        for kind in runner.kinds:
            if kind.name in owners:
                raise Misconfigured(
                    f"the plugin {_name(point)} brings the task kind `{kind.name}`, which {owners[kind.name]} has; "
                    "remove one of them"
                )
            owners[kind.name] = f"the plugin {_name(point)}"
        runners.append(runner)
    return runners


def _load(point: EntryPoint, settings: RunnerSettings) -> Runner:
    try:
        runner: Runner = point.load()(settings)
    except Exception as error:
        raise Misconfigured(
            f"the plugin {_name(point)} cannot be loaded: {type(error).__name__}: {error}; repair or remove it"
        ) from error
    missing = [name for name in RUNNER_METHODS if not hasattr(runner, name)]
    if missing:
        raise Misconfigured(f"the plugin {_name(point)} gives no runner: it has no {', '.join(missing)}")
    lacking = {name for kind in runner.kinds for name in KIND_MEMBERS if not hasattr(kind, name)}
    if lacking:
        raise Misconfigured(f"a task kind of the plugin {_name(point)} has no {', '.join(sorted(lacking))}")
    return runner


def _name(point: EntryPoint) -> str:
    package = f" of package {point.dist.name}" if point.dist is not None else ""
    return f"`{point.name}` ({point.value}){package}"
