"""What surrounds a task follows from its body once, when the job is created, and stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.confining import WHEN_UNKNOWN, check_confinement, confine, reconfine
from tickwise.documents.definition import Definition, Limits, decode_definition, encode_definition
from tickwise.domain.errors import Invalid
from tickwise.domain.rules.capacities import MEMORY
from tickwise.domain.rules.confinement import SANDBOX_LABEL, Isolation
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import ExecutorRow
from tickwise.roles.shared.served_queues import NOBODY, Serving

SHELL = msgspec.Raw(b'{"kind":"shell","command":"date"}')


def serving(*labels: str, queue: str = "default", namespaces: tuple[str, ...] | None = None) -> Serving:
    return Serving([executor(*labels, queue=queue, namespaces=namespaces)])


def executor(*labels: str, queue: str = "default", namespaces: tuple[str, ...] | None = None) -> ExecutorRow:
    return ExecutorRow(
        executor=1, name="a", queues=(queue,), labels=labels, functions=(), slots=1, registered_at=0.0,
        lease_until=10.0, gone_at=None, held=0, namespaces=namespaces,
    )  # fmt: skip


def stored(**fields: Any) -> Definition:
    """As it is read from the store."""
    made = Definition(schedule_type=ScheduleType.IMMEDIATE, task=SHELL, **fields)
    return decode_definition(encode_definition(made))


@pytest.mark.parametrize(
    ("executors", "isolation", "warned"),
    [
        (serving(SANDBOX_LABEL), Isolation.SANDBOX, False),
        (serving(), Isolation.PROCESS, True),
        (serving(SANDBOX_LABEL, queue="other"), WHEN_UNKNOWN, False),
        (serving(SANDBOX_LABEL, namespaces=("other",)), WHEN_UNKNOWN, False),
        (NOBODY, WHEN_UNKNOWN, False),
    ],
)
def test_a_new_job_is_in_a_sandbox_where_executors_of_its_queue_offer_one(
    executors: Serving, isolation: Isolation, warned: bool
) -> None:
    found = confine(JobBody(), "shell", executors, "default", "default")
    assert isolation is found.fields.get("isolation", Isolation.PROCESS)
    assert warned is bool(found.warnings)
    assert (isolation is Isolation.SANDBOX) is (SANDBOX_LABEL in found.labels)


def test_the_isolation_of_a_kind_that_is_no_process_is_never_a_sandbox() -> None:
    assert not confine(JobBody(), "function", serving(SANDBOX_LABEL), "default", "default").fields
    with pytest.raises(Invalid, match="function"):
        confine(JobBody(isolation=Isolation.SANDBOX), "function", NOBODY, "default", "default")


def test_what_is_said_is_stored_and_needs_an_executor_that_offers_it() -> None:
    body = JobBody(
        isolation=Isolation.SANDBOX, allow_network=["example.com:443"], run_as="backup", resources={"gpu": 2}
    )
    found = confine(body, "python", NOBODY, "default", "default")
    definition = stored(**found.fields)
    assert ("example.com:443",) == definition.allow_network
    assert (
        ("isolation:sandbox", "resource:gpu", "resource:gpu:2", "run_as:backup")
        == found.labels
        == check_confinement(definition, "python")
    )


def test_a_limit_of_memory_is_reserved_by_each_kind_of_task_and_follows_a_change() -> None:
    """The labels of its amount come and go with the limit; a change of something else keeps them."""
    found = confine(JobBody(limits=Limits(memory_bytes=3 << 30)), "function", NOBODY, "default", "default")
    assert ({"memory:reserved", "memory:2GiB"}, {MEMORY: 3 << 30}) == (set(found.labels), found.demand)
    definition = stored(limits=Limits(memory_bytes=3 << 30))
    assert set(found.labels) == set(check_confinement(definition, "function"))
    assert set(found.labels) == set(reconfine(JobBody(name="b"), "shell", definition).labels)
    assert () == reconfine(JobBody(limits=None), "shell", definition).labels
    assert ("memory:reserved",) == reconfine(JobBody(limits=Limits(memory_bytes=5)), "shell", definition).labels


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_a_namespace_that_demands_a_sandbox_refuses_a_plain_process(kind: str) -> None:
    """Of a new job, of a change to one, and of any change that leaves one; what says nothing is in a sandbox."""
    floor = Isolation.SANDBOX
    assert Isolation.SANDBOX is confine(JobBody(), kind, serving(), "default", "default", floor).fields["isolation"]
    with pytest.raises(Invalid, match="min_isolation") as error:
        confine(JobBody(isolation=Isolation.PROCESS), kind, NOBODY, "default", "default", floor)
    assert "/isolation" == error.value.pointer
    for body, before in ((JobBody(isolation=None), Isolation.SANDBOX), (JobBody(name="b"), Isolation.PROCESS)):
        with pytest.raises(Invalid, match="min_isolation"):
            reconfine(body, kind, stored(isolation=before), floor)
    assert (SANDBOX_LABEL,) == reconfine(JobBody(isolation=Isolation.SANDBOX), kind, stored(), floor).labels


@pytest.mark.parametrize("kind", ["function", "http"])
def test_a_demand_for_a_sandbox_does_not_concern_kinds_that_have_none(kind: str) -> None:
    assert not confine(JobBody(), kind, NOBODY, "default", "default", Isolation.SANDBOX).fields
    assert not reconfine(JobBody(name="b"), kind, stored(), Isolation.SANDBOX).fields


def test_a_list_of_destinations_makes_a_sandbox_because_nothing_else_can_hold_a_task_to_it() -> None:
    found = confine(JobBody(allow_network=["example.com:443"]), "shell", serving(), "default", "default")
    assert Isolation.SANDBOX is found.fields["isolation"]


def test_a_change_of_something_else_leaves_the_isolation_whatever_executors_offer() -> None:
    assert ((), {}) == (reconfine(JobBody(name="b"), "shell", stored()).labels, {})
    kept = reconfine(JobBody(name="b"), "shell", stored(isolation=Isolation.SANDBOX))
    assert (SANDBOX_LABEL,) == kept.labels


def test_null_takes_away_what_a_job_has_said() -> None:
    before = stored(isolation=Isolation.SANDBOX, allow_network=("a:1",), resources={"gpu": 1})
    found = reconfine(JobBody(allow_network=None, resources=None), "shell", before)
    after = msgspec.structs.replace(before, **found.fields)
    assert (False, {}, Isolation.SANDBOX) == (after.allow_network, after.resources, after.isolation)


def test_a_task_of_another_kind_takes_no_isolation_with_it() -> None:
    found = reconfine(JobBody(name="b"), "http", stored(isolation=Isolation.SANDBOX, resources={"gpu": 1}))
    assert ("resource:gpu",) == found.labels
    assert Isolation.PROCESS is found.fields["isolation"]


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"isolation": Isolation.PROCESS, "allow_network": ["a:1"]}, "/allow_network"),
        ({"allow_network": ["example.com"]}, "/allow_network/0"),
        ({"allow_network": ["a:1", "b:70000"]}, "/allow_network/1"),
        ({"allow_network": ["[::1:5432"]}, "/allow_network/0"),
        ({"allow_network": ["a b:1"]}, "/allow_network/0"),
        ({"resources": {"gpu": 0}}, "/resources"),
        ({"resources": {"GPU!": 1}}, "/resources"),
        ({"run_as": "../root"}, "/run_as"),
        ({"run_as": ""}, "/run_as"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(said: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        confine(JobBody(**said), "shell", NOBODY, "default", "default")
    assert pointer == refused.value.pointer
