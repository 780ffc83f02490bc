"""Executors and the other processes; queues, and holds on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from starlette.responses import RedirectResponse, Response

from tickwise.control.bodies import QueueHoldBody
from tickwise.control.cluster import ClusterService
from tickwise.control.runs.queues import QueueService
from tickwise.domain.errors import Invalid, Refused, Unavailable
from tickwise.domain.rules.capacities import MEMORY, size_in_words
from tickwise.domain.rules.confinement import offered_levels, offered_users, own_labels
from tickwise.ports.store import ExecutorRow
from tickwise.web import forms
from tickwise.web.page import WebPage
from tickwise.web.visit import Visit

SEE_OTHER: Final = 303


class ExecutorOffers(NamedTuple):
    """The offers of an executor, as texts of its row."""

    labels: Sequence[str]
    """Those that its operator gave it."""
    surroundings: Sequence[str]
    """Isolation levels, and users that tasks may name."""
    capacities: Sequence[str]
    """Counted resources and memory, as of its last heartbeat."""


async def executors_page(visit: Visit) -> Response:
    """The executors, and the roles that are active."""
    rows = await visit.control.cluster.executors(visit.who)
    try:
        roles = await visit.control.cluster.roles(visit.who)
    except Unavailable:
        roles = None
    values = {
        "offers": {row.executor: _offers(row) for row in rows},
        "executors": sorted(rows, key=lambda row: (row.gone_at is not None, row.name, row.executor)),
        "roles": roles,
    }
    return visit.page("executors.html", values)


def _offers(row: ExecutorRow) -> ExecutorOffers:
    """The offers of an executor to tasks, in words."""
    memory = row.capacities.get(MEMORY)
    resources = [
        f"{name}: {capacity.free} of {capacity.whole} free"
        for name, capacity in sorted(row.capacities.items())
        if name != MEMORY
    ]
    if memory is not None:
        resources.append(f"memory: {size_in_words(memory.taken)} of {size_in_words(memory.whole)} reserved")
    users = [f"run as {user}" for user in offered_users(row.labels)]
    levels = [f"isolation: {level.value}" for level in offered_levels(row.labels)]
    return ExecutorOffers(own_labels(row.labels), [*levels, *users], resources)


async def queues_page(visit: Visit) -> Response:
    """The queues of the namespace."""
    return await _queues(visit)


async def hold(visit: Visit) -> Response:
    """Let a queue stand still, for a reason, until a time."""
    queue = visit.request.path_params["queue"]
    try:
        until = forms.moment(visit.form, "until", "UTC")
        body = QueueHoldBody(reason=forms.text(visit.form, "reason"), until=until)
        await visit.control.queues.hold(visit.who, queue, body)
    except Invalid as refusal:
        if not visit.may(QueueService.overview):
            raise
        return await _queues(visit, typed=visit.form, fault=refusal, of=queue)
    return RedirectResponse(visit.url("/queues"), SEE_OTHER)


async def resume(visit: Visit) -> Response:
    """Let a queue go on."""
    await visit.control.queues.resume(visit.who, visit.request.path_params["queue"])
    return RedirectResponse(visit.url("/queues"), SEE_OTHER)


async def _queues(
    visit: Visit, *, typed: Mapping[str, str] | None = None, fault: Refused | None = None, of: str = ""
) -> Response:
    rows = await visit.control.queues.overview(visit.who)
    values = {
        "queues": rows,
        "unserved": await visit.control.queues.unserved(visit.who, rows),
        "typed": typed or {},
        "fault": fault,
        "fault_of": of,
    }
    return visit.page("queues.html", values, 200 if fault is None else 422)


MACHINERY: Final = (
    WebPage(
        method="GET", path="/executors", name="executors", handler=executors_page, control=(ClusterService.executors,)
    ),
    WebPage(method="GET", path="/queues", name="queues", handler=queues_page, control=(QueueService.overview,)),
    WebPage(method="POST", path="/queues/{queue}/hold", name="queue_hold", handler=hold, control=(QueueService.hold,)),
    WebPage(
        method="POST",
        path="/queues/{queue}/resume",
        name="queue_resume",
        handler=resume,
        control=(QueueService.resume,),
    ),
)
