"""The successors that a job names: references become ids, and no sequence leads back to its begin.

    then: "load"  ──► the job with this id or key ──► its successors ──► theirs …   (both `then` and `on_failure`)

Invariants: each successor is there and not cancelled when it is named; no job is its own successor, however far away;
no chain is longer than `MAX_CHAIN`. Of changes at the same moment that close a circle together, one process makes one
after the other, and several take one back (`links`); in any case a chain ends at run time after as many runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import UNSET, UnsetType

from tickwise.control.bodies import JobBody
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.selectors import Selector, matches
from tickwise.ports.store import JobRow, JobStore

MAX_SUCCESSORS: Final = 20
MAX_CHAIN: Final = 100
"""Jobs that follow one after the other: a longer chain is most likely a circle that nobody meant."""
MAX_JOBS: Final = 1_000
"""The most jobs that are looked at to find that out, and that one request may name."""

References = str | list[str] | UnsetType | None


class SequenceNode(NamedTuple):
    """A job, as far as sequences go."""

    name: str
    cancelled: bool
    next: tuple[UUID, ...]
    labels: Mapping[str, str] = {}


class Graph(NamedTuple):
    """The jobs that are named, and all that follow them."""

    ids: Mapping[str, UUID] = {}
    """From references to jobs that are there."""
    nodes: Mapping[UUID, SequenceNode] = {}
    more: bool = False
    """There are more jobs than were looked at."""

    def told_to(self, within: Selector | None) -> Graph:
        """The graph for a caller that may name jobs of a selector alone: no other reference is known, and no other job
        has a name. All of them are walked."""
        if within is None:
            return self
        shown = {job_id for job_id, node in self.nodes.items() if matches(node.labels, within)}
        nodes = {
            job_id: node if job_id in shown else node._replace(name=str(job_id)) for job_id, node in self.nodes.items()
        }
        return self._replace(ids={name: job_id for name, job_id in self.ids.items() if job_id in shown}, nodes=nodes)


NOTHING: Final = Graph()


def listed(said: References) -> Sequence[str]:
    """The references of a field, whether one or several."""
    if isinstance(said, str):
        return (said,)
    return said if isinstance(said, list) else ()


async def look(jobs: JobStore, namespace: str, references: Iterable[str]) -> Graph:
    """Look up the named jobs. Raises `Invalid` if they are too many."""
    named = set(references)
    if len(named) > MAX_JOBS:
        raise Invalid(f"{len(named)} different jobs are named as successors; name at most {MAX_JOBS} in one request")
    ids: dict[str, UUID] = {}
    nodes: dict[UUID, SequenceNode] = {}
    for reference in sorted(named):
        row = await _find(jobs, namespace, reference)
        if row is not None:
            ids[reference] = row.job_id
            nodes[row.job_id] = _node(row)
    waiting = [following for node in nodes.values() for following in node.next]
    while waiting and len(nodes) < MAX_JOBS:
        job_id = waiting.pop()
        if job_id in nodes:
            continue
        found = await jobs.get(namespace, job_id)
        if found is not None:  # one that was dropped since starts nothing
            nodes[job_id] = _node(found)
            waiting += nodes[job_id].next
    return Graph(ids, nodes, any(job_id not in nodes for job_id in waiting) and len(nodes) >= MAX_JOBS)


async def _find(jobs: JobStore, namespace: str, reference: str) -> JobRow | None:
    if "\0" in reference:
        return None
    try:
        job_id = UUID(reference)
    except ValueError:
        return await jobs.get(namespace, reference)
    return await jobs.get(namespace, job_id) or await jobs.get(namespace, reference)


def _node(row: JobRow) -> SequenceNode:
    definition = decode_definition(row.definition)
    return SequenceNode(
        row.name, row.status is JobStatus.CANCELLED, (*definition.then, *definition.on_failure), row.labels
    )


def resolved(said: References, field: str, *, own: UUID, graph: Graph) -> tuple[UUID, ...]:
    """The ids of a field's references, each once. Raises `Invalid` with a pointer to the one at fault."""
    names = listed(said)
    if len(names) > MAX_SUCCESSORS:
        raise Invalid(f"{field} names {len(names)} jobs; name at most {MAX_SUCCESSORS}", pointer=f"/{field}")
    found: dict[UUID, None] = {}
    for place, name in enumerate(names):
        pointer = f"/{field}" if isinstance(said, str) else f"/{field}/{place}"
        job_id = graph.ids.get(name)
        if _is_own(name, own):
            raise Invalid(
                "the job names itself, so it would run without an end; name another one, or give it a schedule",
                pointer=pointer,
                code="sequence_cycle",
            )
        if job_id is None:
            raise Invalid(
                f"there is no job with the id or key {name[:200]!r}; create it first (ON_DEMAND, if it has no "
                "schedule of its own)",
                pointer=pointer,
                code="successor_unknown",
            )
        if graph.nodes[job_id].cancelled:
            raise Invalid(f"the job {name[:200]!r} is cancelled, for good", pointer=pointer, code="successor_unknown")
        if job_id in found:
            raise Invalid(f"the job {name[:200]!r} is named twice; name it once", pointer=pointer)
        found[job_id] = None
    return tuple(found)


def successors(body: JobBody, job_id: UUID, name: str, graph: Graph) -> dict[str, tuple[UUID, ...]]:
    """The fields `then` and `on_failure`, as far as they were sent, as ids. Raises `Invalid`."""
    found = {
        field: resolved(said, field, own=job_id, graph=graph)
        for field, said in (("then", body.then), ("on_failure", body.on_failure))
        if said is not UNSET
    }
    if any(found.values()):
        check_sequence(job_id, name, fields=found, graph=graph)
    return found


def _is_own(name: str, own: UUID) -> bool:
    try:
        return UUID(name) == own
    except ValueError:
        return False


def check_sequence(own: UUID, name: str, *, fields: Mapping[str, Sequence[UUID]], graph: Graph) -> None:
    """Refuse successors that lead back to the job itself, or a sequence that is too long. `fields` are those that were
    sent."""
    pointer = next((f"/{field}" for field, ids in fields.items() if ids), "")
    nodes = {**graph.nodes, own: SequenceNode(name, False, tuple(job_id for ids in fields.values() for job_id in ids))}
    depths: dict[UUID, int] = {}
    way = [own]
    waiting = [iter(nodes[own].next)]
    while waiting:
        following = next(waiting[-1], None)
        if following is None:
            waiting.pop()
            done = way.pop()
            depths[done] = 1 + max((depths.get(each, 0) for each in nodes[done].next), default=0)
        elif following == own:
            raise Invalid(
                f"the sequence leads back to where it begins: {_circle(way, nodes)}; take one of these steps out",
                pointer=pointer,
                code="sequence_cycle",
            )
        elif following not in depths and following in nodes and following not in way:
            way.append(following)
            waiting.append(iter(nodes[following].next))
    if depths[own] > MAX_CHAIN or graph.more:
        what = f"more than {MAX_JOBS} jobs" if graph.more else f"a chain of {depths[own] - 1} jobs"
        raise Invalid(
            f"{what} would follow from this one; a sequence has at most {MAX_CHAIN} jobs one after the other",
            pointer=pointer,
            code="sequence_too_long",
        )


def _circle(way: Sequence[UUID], nodes: Mapping[UUID, SequenceNode]) -> str:
    shown = [nodes[job_id].name for job_id in (*way, way[0])]
    if len(shown) > 10:
        shown = [*shown[:5], "…", *shown[-4:]]
    return " → ".join(shown)
