"""The jobs of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.chaos.scene import Scene


def function(scene: Scene, name: str, **payload: Any) -> dict[str, Any]:
    """One that runs a function of `tests.chaos.tasks` at once."""
    task = {"kind": "function", "name": f"chaos.{name}"}
    return {"schedule_type": "IMMEDIATE", "task": task, "payload": scene.witness.payload(**payload)}


def shell(scene: Scene, between: str = "") -> dict[str, Any]:
    """One that runs in a shell at once."""
    return {"schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": scene.witness.shell(between)}}


def ticking(scene: Scene, gate: Path) -> dict[str, Any]:
    """One that shows every 50 ms that it lives, until that file is there."""
    return shell(scene, f'until [ -e "{gate}" ]; do say T; sleep 0.05; done')


def mixed(scene: Scene, count: int, *, longest: float = 1.0) -> list[dict[str, Any]]:
    """Most are over at once, every tenth takes a while, every fiftieth is a process."""
    return [_one(scene, number, longest) for number in range(count)]


def _one(scene: Scene, number: int, longest: float) -> dict[str, Any]:
    if number % 50 == 49:
        return shell(scene, f"sleep {scene.dice.random() * longest:.2f}")
    if number % 10 == 9:
        return function(scene, "lasting", seconds=round(scene.dice.random() * longest, 3))
    return function(scene, "brief")
