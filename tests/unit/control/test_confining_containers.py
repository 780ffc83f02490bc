"""A job in a container: the level, its image, and what goes with neither."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.confining import confine, reconfine
from tickwise.documents.definition import Definition
from tickwise.domain.errors import Invalid
from tickwise.domain.rules.confinement import CONTAINER_LABEL, Isolation
from tickwise.domain.schedule import ScheduleType

IMAGE = "python:3.12"


def body(**said: Any) -> JobBody:
    return msgspec.convert(said, JobBody)


def test_an_image_means_a_container() -> None:
    """Nothing else need be said; the run needs an executor with an engine."""
    found = confine(body(container_image=IMAGE), "python", None, "default", "default")
    assert (Isolation.CONTAINER, IMAGE) == (found.fields["isolation"], found.fields["container_image"])
    assert (CONTAINER_LABEL,) == found.labels


def test_a_task_of_the_kind_container_is_in_one() -> None:
    """For each thing that it says, and with a network if it asks for one."""
    for said in ({}, {"isolation": None}, {"isolation": "container"}):
        found = confine(body(**said), "container", None, "default", "default")
        assert ((CONTAINER_LABEL,), Isolation.CONTAINER) == (found.labels, found.fields["isolation"])
    assert True is confine(body(allow_network=True), "container", None, "default", "default").fields["allow_network"]


@pytest.mark.parametrize(
    ("kind", "said", "pointer"),
    [
        ("python", {"isolation": "container"}, "/container_image"),
        ("python", {"isolation": "sandbox", "container_image": IMAGE}, "/container_image"),
        ("container", {"container_image": IMAGE}, "/container_image"),
        ("container", {"isolation": "process"}, "/isolation"),
        ("container", {"run_as": "backup"}, "/run_as"),
        ("python", {"container_image": IMAGE, "run_as": "backup"}, "/run_as"),
        ("python", {"container_image": IMAGE, "allow_network": ["a.example.com:443"]}, "/allow_network"),
        ("shell", {"container_image": IMAGE, "limits": {"disk_bytes": 1_000_000}}, "/limits/disk_bytes"),
        ("container", {"limits": {"files": 10}}, "/limits/files"),
        ("http", {"container_image": IMAGE}, "/container_image"),
        ("function", {"isolation": "container"}, "/isolation"),
    ],
)
def test_what_a_container_cannot_have_is_refused(kind: str, said: dict[str, Any], pointer: str) -> None:
    """With the field at fault."""
    with pytest.raises(Invalid) as refused:
        confine(body(**said), kind, None, "default", "default")
    assert pointer == refused.value.pointer


def test_a_floor_of_containers_bars_sandboxes() -> None:
    """And a floor of sandboxes does not bar containers."""
    with pytest.raises(Invalid, match="min_isolation"):
        confine(body(isolation="sandbox"), "python", None, "default", "default", Isolation.CONTAINER)
    for floor in Isolation:
        assert confine(body(container_image=IMAGE), "python", None, "default", "default", floor).labels
        assert confine(body(), "container", None, "default", "default", floor).labels


def test_a_changed_job_keeps_what_its_kind_can_have() -> None:
    """From a script to a container and back."""
    script = Definition(
        schedule_type=ScheduleType.ON_DEMAND,
        task=msgspec.Raw(b"{}"),
        isolation=Isolation.CONTAINER,
        container_image=IMAGE,
    )
    assert (CONTAINER_LABEL,) == reconfine(body(), "python", script).labels
    became = reconfine(body(), "container", script)
    assert (Isolation.CONTAINER, None) == (became.fields["isolation"], became.fields["container_image"])
    kind = Definition(schedule_type=ScheduleType.ON_DEMAND, task=msgspec.Raw(b"{}"), isolation=Isolation.CONTAINER)
    assert () != reconfine(body(), "container", kind).labels
    assert Isolation.SANDBOX is reconfine(body(), "python", kind).fields["isolation"]
    assert Isolation.PROCESS is reconfine(body(), "http", kind).fields["isolation"]
