"""The names and marks of containers, by which executors find each other's.

    tickwise.<namespace>.<run>.<token>   the container of an attempt
    tickwise-warm.<executor>.<number>    one of the warm pool, and of no attempt yet; then it is renamed

A container that waits is of no namespace and no run, and marks cannot be changed after it was made. So the name says
whose a container is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.adapters.runner.container.engine import FoundContainer
from tickwise.adapters.runner.containers import ContainerPolicy
from tickwise.ports.runner import Assignment

LABEL: Final = "tickwise."
INSTALLATION: Final = f"{LABEL}installation"
EXECUTOR: Final = f"{LABEL}executor"
RUN: Final = f"{LABEL}run"
NAMESPACE: Final = f"{LABEL}namespace"
ATTEMPT: Final = f"{LABEL}attempt"
TOKEN: Final = f"{LABEL}token"
IMAGE: Final = f"{LABEL}image"
"""The image as the task names it: a container is made from a number."""
WARM_NAME: Final = "tickwise-warm"
_ATTEMPT_NAME: Final = re.compile(r"tickwise\.([a-z0-9-]+)\.([0-9a-f-]{36})\.([0-9]+)")


class ContainerOwner(NamedTuple):
    """The attempt that a container is of."""

    namespace: str
    run_id: UUID
    token: int


def attempt_name(assignment: Assignment) -> str:
    """The name of the container of an attempt."""
    return f"tickwise.{assignment.namespace}.{assignment.run_id}.{assignment.token}"


def owner_of(container: FoundContainer) -> ContainerOwner | None:
    """The attempt that a container is of; None: of none that can be read."""
    named = _ATTEMPT_NAME.fullmatch(container.name)
    labels = container.labels
    try:
        if named is not None:
            return ContainerOwner(named[1], UUID(named[2]), int(named[3]))
        # Made by an earlier release, whose names say less.
        return ContainerOwner(labels[NAMESPACE], UUID(labels[RUN]), int(labels[TOKEN]))
    except (KeyError, ValueError):
        return None


def is_waiting(container: FoundContainer) -> bool:
    """Check whether it is of no attempt yet."""
    return container.name.startswith(f"{WARM_NAME}.")


def executor_labels(policy: ContainerPolicy, executor: str) -> Mapping[str, str]:
    """The marks of every container of an executor."""
    return {INSTALLATION: policy.installation, EXECUTOR: executor}


def attempt_labels(assignment: Assignment, image: str) -> Mapping[str, str]:
    """The further marks of a container that was made for an attempt, for people who look at the engine."""
    return {
        NAMESPACE: assignment.namespace,
        RUN: str(assignment.run_id),
        ATTEMPT: str(assignment.attempt),
        TOKEN: str(assignment.token),
        IMAGE: image,
    }
