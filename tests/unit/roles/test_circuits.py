"""Open circuits are put on record once, and nothing of it is lost while the store is away."""

from __future__ import annotations

import pytest

from tests.unit.roles.rig import Rig, drive
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.runner import Ending, Verdict
from tickwise.ports.store import Incident
from tickwise.roles.executor.circuit_record import CircuitRecord


def given_back(host: str, at: float, seconds: float = 30.0) -> Ending:
    """What the runner says of a task whose host is left alone."""
    return Ending(Verdict.UNOFFERED, at, at, "circuit_open", f"{host} keeps failing", None, seconds, (host,))


class Recorder:
    """A store that is away at first."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []
        self.away = True

    async def add(self, incident: Incident) -> None:
        if self.away:
            raise StoreUnavailable("it is away")
        self.incidents.append(incident)


async def test_an_open_circuit_is_one_incident_however_many_runs_it_gives_back() -> None:
    """Of each host of a namespace one, from the first that was given back until it may be tried; opened again, another
    one."""
    store = Recorder()
    record = CircuitRecord(store)  # type: ignore[arg-type] # the one method that it calls
    for namespace, ending in (
        ("x", given_back("a", 10.0)),
        ("x", given_back("a", 11.0, 29.0)),
        ("y", given_back("a", 11.5)),
        ("x", given_back("b", 12.0)),
        ("x", given_back("a", 41.0)),
    ):
        record.add(namespace, ending)
    record.add("x", Ending(Verdict.UNOFFERED, 13.0, 13.0, "busy", "no worker is free"))
    with pytest.raises(StoreUnavailable):
        await record.record()
    store.away = False
    await record.record()
    await record.record()
    assert [("x/a", 10.0, 40.0), ("y/a", 11.5, 41.5), ("x/b", 12.0, 42.0), ("x/a", 41.0, 71.0)] == [
        (each.who, each.begin, each.end) for each in store.incidents
    ]
    assert {"circuit_open"} == {each.kind for each in store.incidents}


async def test_an_executor_tells_of_a_circuit_that_gives_its_runs_back() -> None:
    """`explain` finds it on record."""
    rig = Rig()
    await rig.executor.start()
    await rig.submit()
    await rig.clock.advance(5.0)
    (run_id,) = rig.runner.running
    rig.runner.end(
        run_id, Verdict.UNOFFERED, reason="circuit_open", retry_after_seconds=30.0, symptoms=("shop.example",)
    )
    await rig.clock.advance(1.0)
    found = await rig.store.incidents.between(0.0, rig.clock.now() + 60.0)
    assert ["default/shop.example"] == [each.who for each in found]
    await drive(rig.clock, rig.executor.stop())
