"""Jobs, receipts, rules and the operations that schedulers take: each goes where its namespace is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.store.sharded.combining import audit_page
from tickwise.adapters.store.sharded.fleet import Fleet, together
from tickwise.adapters.store.sharded.placing import FIRST
from tickwise.adapters.store.sharded.routes import ROUTES, ByNamespace, RoutedPart
from tickwise.adapters.store.sharded.turns import Turns
from tickwise.domain.audit import AuditEntry
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict
from tickwise.domain.notices.rules import Notice
from tickwise.domain.observing.status_pages import StatusPage
from tickwise.ports.audit import AuditPage, AuditQuery, AuditStore
from tickwise.ports.store import (
    Added,
    Check,
    CheckStore,
    DueNotices,
    JobChange,
    JobMove,
    JobRow,
    JobTransfer,
    NewJob,
    NoticeStore,
    OccurrenceMove,
    OperationRow,
    OperationStore,
    Receipt,
    Replay,
    RuleRow,
    RuleStore,
    StatusPageStore,
    Violation,
    check_one_namespace,
)
from tickwise.ports.store.status_pages import StatusPageQuery, slug_taken


def other_database(namespace: str, to: str, *, can_move: bool) -> Conflict:
    """The refusal to move a job to a namespace in another database. `can_move`: whether a namespace can go there."""
    if can_move:
        return Conflict(
            f"the namespaces {namespace} and {to} are in different databases, and a job goes from one to another only "
            "within one: move one of the namespaces first (tickwise shards move)",
            code="other_database",
        )
    return Conflict(
        f"the namespaces {namespace} and {to} are in different shards of the keyspace, where both stay, and a job goes "
        f"from one to another only within one shard: create the job again in {to}, then cancel it here",
        code="other_database",
    )


class Jobs:
    """`JobStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def add(
        self, jobs: Sequence[NewJob], receipt: Receipt | None = None, *, whole: bool = False
    ) -> Sequence[Added] | Replay:
        """See the port. The jobs of one shard go together, those of several at the same time."""
        check_one_namespace(jobs, receipt, whole=whole)
        if not jobs:
            return await self._fleet.first.jobs.add(jobs, receipt, whole=whole)
        # A look at the map for each namespace, not for each job: most batches have one.
        shard_of = {namespace: self._fleet.places.of(namespace) for namespace in {job.namespace for job in jobs}}
        if len({*shard_of.values()}) == 1:
            return await self._fleet.of(jobs[0].namespace, lambda store: store.jobs.add(jobs, receipt, whole=whole))
        shares: dict[int, list[int]] = {}
        for at, job in enumerate(jobs):
            shares.setdefault(shard_of[job.namespace], []).append(at)

        async def part(share: Sequence[int]) -> Sequence[Added] | Replay:
            there = [jobs[at] for at in share]
            return await self._fleet.of(there[0].namespace, lambda store: store.jobs.add(there))

        answers = await together({number: part(share) for number, share in shares.items()})
        found: dict[int, Added] = {}
        for number, share in shares.items():
            answer = answers[number]
            assert not isinstance(answer, Replay), "a batch with a receipt has jobs of one namespace"
            found.update(zip(share, answer, strict=True))
        return [found[at] for at in range(len(jobs))]

    async def get(self, namespace: str, job: UUID | str) -> JobRow | None:
        """See the port."""
        return await self._fleet.of(namespace, lambda store: store.jobs.get(namespace, job))

    async def change(self, change: JobChange, *, audit: AuditEntry | None = None) -> JobRow:
        """See the port."""
        return await self._fleet.of(change.namespace, lambda store: store.jobs.change(change, audit=audit))

    async def move(self, move: JobMove | OccurrenceMove | JobTransfer, *, audit: AuditEntry | None = None) -> JobRow:
        """See the port. A transfer to a namespace of another shard raises `Conflict`, code `other_database`."""
        places = self._fleet.places
        if isinstance(move, JobTransfer) and places.of(move.namespace) != places.of(move.to):
            raise other_database(move.namespace, move.to, can_move=self._fleet.can_move)
        return await self._fleet.of(move.namespace, lambda store: store.jobs.move(move, audit=audit))


class Receipts:
    """`ReceiptStore` of the port. A receipt is kept with its effect, in that shard; one without, in the first."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def find(self, principal: str, route: str, key: str) -> Replay | None:
        """See the port. A shard that is away is passed over: a repeat of what it keeps goes to it, and waits for it."""
        found = await self._fleet.each(lambda store: store.receipts.find(principal, route, key), lenient=True)
        return next((replay for replay in found.values() if replay is not None), None)

    async def keep(self, receipt: Receipt) -> Replay | None:
        """See the port."""
        if (found := await self.find(receipt.principal, receipt.route, receipt.key)) is not None:
            return found
        return await self._fleet.on(FIRST, lambda store: store.receipts.keep(receipt))


class Rules(RoutedPart):
    """`RuleStore` of the port. Its version is the sum of those of the shards: each only grows."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "rules", RuleStore, {}, ByNamespace())
        self._known: dict[int, tuple[int, Sequence[RuleRow]]] = {}

    async def all(self) -> tuple[int, Sequence[RuleRow]]:
        """See the port. Of a shard that is away, the rules that were read last."""
        self._known.update(await self._fleet.each(lambda store: store.rules.all(), lenient=True))
        return self._version(), [row for _, rows in self._known.values() for row in rows]

    def version_with(self, number: int, version: int) -> int:
        """The version, when this shard says that its own is so."""
        return sum(known for each, (known, _) in self._known.items() if each != number) + version

    def _version(self) -> int:
        return sum(version for version, _ in self._known.values())


class Operations(RoutedPart):
    """`OperationStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "operations", OperationStore, ROUTES["operations"][1], ByNamespace())
        self._turns = Turns(fleet)

    async def take(self, hold_seconds: float) -> OperationRow | None:
        """See the port: the one that waits longest of the first shard that has some."""
        for number in self._turns.order():
            found = await self._fleet.on(number, lambda store: store.operations.take(hold_seconds))
            self._turns.had(number, found)
            if found is not None:
                return found
        return None


class Notices(RoutedPart):
    """`NoticeStore` of the port. What it says of a sender's turns is meant of each shard."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "notices", NoticeStore, ROUTES["notices"][1], ByNamespace())
        self._turns = Turns(fleet)

    async def due(self, sender: str, limit: int) -> DueNotices:
        """See the port."""
        taken: list[Notice] = []
        has_channels = False
        order = self._turns.order()
        # A fair share each at first, then what others left.
        for number, share in [
            *((each, math.ceil(limit / len(order))) for each in order),
            *((each, limit) for each in order),
        ]:
            room = min(share, limit - len(taken))
            if room <= 0:
                break
            found = await self._fleet.on(number, lambda store, room=room: store.notices.due(sender, room))  # type: ignore[misc]  # mypy infers no type of a default
            self._turns.had(number, found.notices)
            taken += found.notices
            has_channels = has_channels or found.has_channels
        return DueNotices(taken, has_channels)


class Checks(RoutedPart):
    """`CheckStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "checks", CheckStore, ROUTES["checks"][1], ByNamespace())

    async def heal(self, check: Check, found: Sequence[Violation]) -> int:
        """See the port. An executor is put right in each shard, and counts once."""
        shares: dict[int, list[Violation]] = {}
        everywhere: list[Violation] = []
        for each in found:
            if each.namespace is None:
                everywhere.append(each)
            else:
                shares.setdefault(self._fleet.places.of(each.namespace), []).append(each)
        calls = {
            number: self._fleet.on(number, lambda store, share=share: store.checks.heal(check, share))  # type: ignore[misc]  # mypy infers no type of a default
            for number, share in shares.items()
        }
        healed = sum((await together(calls)).values()) if calls else 0
        if everywhere:
            healed += max(
                (await self._fleet.each(lambda store: store.checks.heal(check, everywhere), lenient=True)).values()
            )
        return healed


class StatusPages(RoutedPart):
    """`StatusPageStore` of the port. An address is taken if any shard has it: looked up before the write."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "status_pages", StatusPageStore, ROUTES["status_pages"][1], ByNamespace())

    async def add(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage:
        """See the port."""
        await self._check_slug(page)
        return await self._fleet.of(page.namespace, lambda store: store.status_pages.add(page, audit=audit))

    async def change(self, page: StatusPage, *, audit: AuditEntry | None = None) -> StatusPage | None:
        """See the port."""
        await self._check_slug(page)
        return await self._fleet.of(page.namespace, lambda store: store.status_pages.change(page, audit=audit))

    async def _check_slug(self, page: StatusPage) -> None:
        here = self._fleet.places.of(page.namespace)
        others = [number for number in self._fleet.numbers() if number != here]
        if not others:
            return
        query = StatusPageQuery(namespace=None, limit=100_000)
        found = await self._fleet.each(lambda store: store.status_pages.find(query), lenient=True, numbers=others)
        if any(each.slug == page.slug and each.page_id != page.page_id for pages in found.values() for each in pages):
            raise slug_taken(page.slug)


class Audit(RoutedPart):
    """`AuditStore` of the port. Entries about people and keys of a namespace are in the first shard, all others in its
    own: each has a chain of its own there."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "audit", AuditStore, ROUTES["audit"][1], ByNamespace())

    async def find(self, query: AuditQuery) -> AuditPage:
        """See the port."""
        numbers = None
        if query.namespace is not None:
            numbers = {FIRST} if query.namespace == INSTALLATION else {FIRST, self._fleet.places.of(query.namespace)}
        found = await self._fleet.each(lambda store: store.audit.find(query), lenient=True, numbers=numbers)
        return audit_page(list(found.values()), {"query": query})
