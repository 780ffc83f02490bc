"""`KeeperStore`: a memory store whose truth is a log.

    call ──► memory store ──► its effects ──► the open group ──► one entry of the log ──► the answer
    read ──► memory store ──► waits for the group that has what it saw ────────────────► the answer
    16 MB of entries, or 10 s ──► a checkpoint beside it ──► what is before goes

Invariant: no answer is given before the log has all effects that it rests on. If an append fails, the state in memory
is ahead of the log: it is thrown away, its callers are told, and another one is built from what the log has. Who lost
the log answers nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from typing import Any, Final

import structlog

from tickwise.adapters.store.keeper.handed_over import HEARD
from tickwise.adapters.store.keeper.history import BlockKeeper
from tickwise.adapters.store.keeper.images import (
    ROWS_OF_PART,
    entry_body,
    head_part,
    joined,
    last_part,
    table_part,
)
from tickwise.adapters.store.keeper.log import EffectLog, OwnershipLost, Tenure
from tickwise.adapters.store.keeper.projection import Projection
from tickwise.adapters.store.keeper.read_ahead import ReadAhead
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.keeper.search_turns import PACED, SearchTurn, SearchTurns, namespace_of
from tickwise.adapters.store.keeper.shard_begin import begin_shard
from tickwise.adapters.store.keeper.shards import ALONE, SERVED_PARTS, SHARD_MAP, ShardIdentity
from tickwise.adapters.store.keeper.spill_file import SpillLost
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.tables import VALUES
from tickwise.adapters.store.keeper.tracking import EffectRecorder
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.quotas import give_back_runs
from tickwise.adapters.store.memory.records import Numbers
from tickwise.adapters.store.memory.store import NEAR_SECONDS, MemoryStore
from tickwise.domain.errors import (
    InDoubt,
    Invalid,
    Misconfigured,
    Refused,
    StoreUnavailable,
    TickwiseError,
    TooLarge,
)
from tickwise.domain.fencing import token_at, tokens_from
from tickwise.observability.keepers import ShardFigures, ShardWatch
from tickwise.observability.tasks import end_tasks
from tickwise.observability.waits import WaitNote, note_wait, noting
from tickwise.ports.clock import Clock
from tickwise.ports.store import Handover
from tickwise.ports.store.wrapping import Call, WrappedPart, WrappedStore

CHECKPOINT_BYTES: Final = 16 << 20
"""Of entries: about half a second of replay."""
CHECKPOINT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0
RENEW_SECONDS: Final = 0.25
"""The shortest pause after a renewal of a lease that failed: one that is over is tried on."""
GATHER_BYTES: Final = 16 << 10
"""After an entry of this size the next one may be gathered for a while: there is load."""

GROUP_BYTES: Final = 8 << 20
"""Calls that come while an entry is written share the next one up to this size: all of them wait for all of it."""

OWN_FAULT: Final = "a fault of this keeper"

logger = structlog.get_logger("tickwise.store")


class CommitGroup:
    """Calls that one entry of the log answers."""

    __slots__ = ("bodies", "done", "handovers", "size")

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.size = 0
        self.handovers: list[Handover] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, body: bytes, handovers: Sequence[Handover]) -> None:
        """Take the effects of one more call."""
        self.bodies.append(body)
        self.size += len(body)
        self.handovers += handovers

    def has_room(self, body: bytes) -> bool:
        """Check whether the effects of a call go into the same entry."""
        return not self.bodies or self.size + len(body) <= GROUP_BYTES

    def fail(self, failure: TickwiseError) -> None:
        """Tell its callers; there may be none."""
        if not self.done.done():
            self.done.set_exception(failure)
            self.done.exception()


class KeeperStore(WrappedStore):
    """The port `Store` over a log. `lost` is called once if this process may not answer for the log any more."""

    def __init__(
        self,
        log: EffectLog,
        clock: Clock,
        *,
        near_seconds: float = NEAR_SECONDS,
        endpoint: str = "",
        lost: Callable[[str], None] | None = None,
        projection: Projection | None = None,
        watch: ShardWatch | None = None,
        identity: ShardIdentity | None = None,
        gather_seconds: float = 0.0,
        make_ended: Callable[[], EndedRuns] = EndedRuns,
        read_ahead: Callable[[int], None] = lambda _position: None,
        turns: SearchTurns | None = None,
    ) -> None:
        """`identity`: its place among several shards. `gather_seconds`: under load an entry begins at the earliest so
        long after the one before. An append costs a database much, and little for each of its bytes. `make_ended`: an
        empty container of ended runs; without it they are all in memory. `read_ahead` hears, while another process owns
        the log, up to which position it is read. `turns`: shared by all stores of a process."""
        self.log = log
        self._turns = turns or SearchTurns(clock)
        self._identity, self._watch = identity, watch or ShardWatch()
        self._shard = ALONE if identity is None else identity.number
        """For the log of a process that has several."""
        self._gather_seconds, self._make_ended, self._read_ahead = gather_seconds, make_ended, read_ahead
        self._projection = projection
        self.position = 0
        """Of the last entry."""
        self.checkpoints = 0
        """The number of checkpoints that were kept."""
        self._clock, self._near_seconds, self._endpoint, self._lost = clock, near_seconds, endpoint, lost
        self._tell: Callable[[Handover], None] | None = None
        self._refusal: TickwiseError | None = StoreUnavailable("the store is not open")
        """The answer to calls; None: they are carried out."""
        self._tasks: list[asyncio.Task[None]] = []
        self._checkpoint: asyncio.Task[None] | None = None
        self._since_bytes = self._checkpoint_bytes = 0
        self._since = -math.inf
        self._lease_until = math.inf
        self._keeping = asyncio.Lock()
        self._trouble = WaitNote()
        """The reason why the database under the log did not answer last; none once it has."""
        self._blocks: BlockKeeper | None = None
        """None: all ended runs are in memory, and in each checkpoint."""
        self._use(self._made())
        self._recorder = EffectRecorder(self.memory.state)
        super().__init__(self.memory)
        self.shard_map = WrappedPart(self.memory.shard_map, f"{SHARD_MAP}.", self.around)

    def _made(self) -> MemoryStore:
        shard = None if self._identity is None else self._identity.number
        return MemoryStore(self._clock, self._near_seconds, shard=shard)

    def _use(self, memory: MemoryStore) -> None:
        if (before := self.__dict__.get("memory")) is not None:
            before.state.ended.close()
        self.memory = memory
        self._calls: dict[str, Call] = {}
        for name in SERVED_PARTS:
            held = self.__dict__.get(name)
            if held is not None:
                # Roles hold the parts; what of them is no call, such as the store's name, is that of the new state.
                held.part = getattr(memory, name)

    # ------------------------------------------------------------------------------------------- open, close

    async def open(self) -> None:
        """Own the log and build the state that it has. Raises `StoreUnavailable` if another process has it, and
        `Misconfigured` if it is damaged or cannot be read by this release."""
        if self._tasks:
            self.memory.state.opened_at = self._clock.now()
            return
        self._kick = asyncio.Event()
        self._open_group = CommitGroup()
        self._full: deque[CommitGroup] = deque()
        """Groups before the open one that take no further call."""
        self._flying: CommitGroup | None = None
        self._undoing = False
        """No entry can hold the effects of a call: what came before it is written, then the state goes."""
        self._heard: list[Handover] = []
        """Handovers of calls whose effects are in no group yet."""
        await self._take_over()
        self._tasks = [asyncio.create_task(self._commit()), asyncio.create_task(self._renew())]
        for task in self._tasks:
            task.add_done_callback(self._note_end)

    async def close(self) -> None:
        """Answer what is under way, and give the log back."""
        if self._tasks and self._refusal is None:
            with contextlib.suppress(TickwiseError):
                await self._settled()
        self._refusal = self._refusal or StoreUnavailable("the store is closed")
        await end_tasks(task for task in (*self._tasks, self._checkpoint) if task is not None)
        if self._tasks:
            # Calls that came meanwhile.
            self._fail_waiting(self._refusal)
            if self._flying is not None:
                self._flying.fail(InDoubt("the store was closed while it wrote"))
        self._tasks, self._checkpoint = [], None
        try:
            # First: the next owner need not wait for the tables. Rows and places of two owners do not harm each other.
            await self.log.release()
        finally:
            if self._projection is not None:
                await self._projection.close()
            self.memory.state.ended.close()

    @property
    def answers(self) -> bool:
        """True if calls are carried out just now."""
        return self._refusal is None and self._clock.monotonic() < self._lease_until

    def figures(self) -> ShardFigures:
        """The sizes of the state and of what waits, for metrics."""
        progress, state = None if self._projection is None else self._projection.progress(), self.memory.state
        return ShardFigures(
            position=self.position,
            jobs=len(state.jobs),
            active_runs=len(state.runs),
            ended_runs=len(state.ended),
            tables_position=None if progress is None else progress.position,
            tables_waiting_bytes=0 if progress is None else progress.waiting_bytes,
            tables_waiting_rows=0 if progress is None else progress.waiting_rows,
        )

    def forget(self) -> None:
        """Let go of the state after the end: no call comes any more, not even `open`."""
        self._recorder.forget()

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """As of the port; the listener hears after the effects are durable."""
        self._tell = tell

    async def _take_over(self) -> None:
        """Own the log, build the state, and write the first entry of this tenure."""
        ahead = ReadAhead(self.log, self._clock, self._make_ended, self._read_ahead)
        try:
            await self._take_over_from(ahead)
        except BaseException:
            ahead.contents.close()
            raise

    async def _take_over_from(self, ahead: ReadAhead) -> None:
        following = asyncio.create_task(ahead.follow())
        try:
            tenure = await self.log.acquire(f"process {os.getpid()} on {socket.gethostname()}", self._endpoint)
        finally:
            await end_tasks([following])
        async with self._renewing():
            await self._build(ahead, tenure)

    async def _build(self, ahead: ReadAhead, tenure: Tenure) -> None:
        begun = self._clock.monotonic()
        gc.disable()  # hundreds of thousands of new objects, none of them garbage
        try:
            await ahead.catch_up(tenure)
            contents, read_at = ahead.contents, self._clock.monotonic()
            self._checkpoint_bytes, self._since_bytes = ahead.checkpoint_bytes, ahead.entry_bytes
            if contents.until > tenure.last:
                raise Misconfigured(
                    f"the log is damaged: it ends with entry {tenure.last}, and its checkpoint knows {contents.until}"
                )
            memory = self._made()
            if tenure.last:
                for _ in contents.fill_in_steps(memory.state, tenure=tenure.epoch):
                    await self._clock.sleep(0.0)
            else:
                memory.state.ended = self._make_ended()
                memory.state.jobs = memory.state.ended.make_jobs()
            ended = memory.state.ended
        finally:
            gc.enable()
        recorder = EffectRecorder(memory.state)
        gc.freeze()
        self.position = tenure.last
        await self._begin(memory, recorder, contents)
        if isinstance(ended, SpilledRuns):
            self._blocks = BlockKeeper(self.log, self._clock, ended, tenure.epoch)
        if self._projection is not None:
            await self._projection.follow(self.log, checkpoint=tenure.checkpoint, last=self.position)
        self._lease_until = self._clock.monotonic() + await self.log.renew()
        self._since = self._clock.monotonic()
        self._refusal = None
        self._watch.opened(tenure.epoch, self._since - begun)
        logger.info(
            "log_opened",
            shard=self._shard,
            entries=self.position,
            epoch=tenure.epoch,
            jobs=len(memory.state.jobs),
            read_seconds=round(read_at - begun, 3),
            seconds=round(self._clock.monotonic() - begun, 3),
        )

    @contextlib.asynccontextmanager
    async def _renewing(self) -> AsyncIterator[None]:
        """Keep the lease of a log that is just owned while the state is built, however long that takes: else the next
        keeper would take the shard, and lose it in the same way."""
        under_way = asyncio.Lock()
        renewing = asyncio.create_task(self._renew_until_built(under_way))
        try:
            yield
            # One that is cut off could be applied later, after an entry with a later time.
            await under_way.acquire()
        finally:
            await end_tasks([renewing])

    async def _renew_until_built(self, under_way: asyncio.Lock) -> None:
        until_next = RENEW_SECONDS
        while until_next != math.inf:
            await self._clock.sleep(until_next)
            try:
                async with under_way:
                    until_next = await self.log.renew() / 3
            except OwnershipLost:
                return  # the first entry of this tenure is refused
            except TickwiseError:
                until_next = RENEW_SECONDS

    async def _begin(self, memory: MemoryStore, recorder: EffectRecorder, contents: Contents) -> None:
        """Begin a tenure: counted runs go back whose batches ended, the store has a name, and its tokens go on above
        those of a tenure that a restored backup does not know."""
        for runs in contents.lent.values():
            give_back_runs(memory.state, runs)
        if self._identity is not None:
            await begin_shard(self._identity, memory.state)
        _ = memory.upkeep.cluster_id
        await memory.open()
        state = memory.state
        if (above := token_at(state.now(), state.shard)) > state.tokens.last:
            state.tokens = Numbers(*tokens_from(above, state.shard))
        changes, values = recorder.take() if self.position else recorder.everything()
        self.position = await self.log.append(entry_body(changes, values, with_schema=True))
        memory.on_handover(self._hear)
        before, self._recorder = self._recorder, recorder
        self._use(memory)
        before.forget()

    def _hear(self, handover: Handover) -> None:
        heard = HEARD.get()
        (self._heard if heard is None else heard).append(handover)

    # ------------------------------------------------------------------------------------------- calls

    def around(self, name: str, call: Call) -> Call:  # noqa: ARG002  # the store behind it changes, so it is looked up
        async def durable(*given: Any, **named: Any) -> Any:
            self._check()
            return await self._carry_out(name, None, given, named)

        async def in_turn(*given: Any, **named: Any) -> Any:
            self._check()
            with await self._turns.turn(namespace_of(given)) as turn:
                self._check()
                return await self._carry_out(name, turn, given, named)

        return in_turn if name in PACED else durable

    async def _carry_out(
        self, name: str, turn: SearchTurn | None, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        target = self._calls.get(name)
        if target is None:
            part, _, method = name.rpartition(".")
            target = self._calls[name] = getattr(getattr(self.memory, part) if part else self.memory, method)
        try:
            # No method of a memory store awaits anything: all of it happens here, at once.
            return await target(*given, **named)
        except SpillLost as failure:
            self._spill_lost(failure)
            raise
        finally:
            if turn is not None:
                turn.end()  # others need not wait until the log has what this one saw
            await self._settled(name)

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._clock.monotonic() >= self._lease_until:
            raise _lease_over(self._trouble.failure)

    def _spill_lost(self, failure: SpillLost) -> None:
        """A call ended in its middle: its effects are not logged, and nothing more is answered by this state."""
        if self._checkpoint is not None:
            self._checkpoint.cancel()
        self._tell_lost(failure)

    async def _settled(self, name: str = "") -> None:
        """Hand the effects of a call to the log; return when nothing that the call saw can be lost."""
        if self._refusal is not None:
            raise self._refusal
        body, group = self._effects(name), self._open_group
        if body is not None:
            if not group.has_room(body):
                self._full.append(group)
                group = self._open_group = CommitGroup()
            heard, self._heard = self._heard, []
            group.add(body, heard)
            self._kick.set()
        elif not group.bodies:
            if self._flying is None:
                return
            group = self._flying
        try:
            # A caller that goes away takes no other's answer with it.
            await asyncio.shield(group.done)
        except asyncio.CancelledError:
            if self._trouble.failure is not None:
                note_wait(self._trouble.failure)
            raise

    def _throw_away(self, name: str, refused: Refused) -> None:
        """Undo a call whose effects no entry of the log can hold. The state is ahead of the log by that call alone: it
        is built once more from the log, without the call, which nobody is to repeat."""
        logger.error("effects_refused", shard=self._shard, call=name, detail=refused.detail)
        self._refusal = StoreUnavailable("the state is built again: the effects of a call could not be kept")
        self._undoing = True
        self._kick.set()

    def _effects(self, name: str) -> bytes | None:
        """The changes since the last time. In a frame of its own: that of a call that fails lives on in its error, and
        must hold no record of a state that is thrown away."""
        try:
            changes, values = self._recorder.take()
            if not (changes or values):
                return None
            body, most = entry_body(changes, values), self.log.entry_max_bytes
            if len(body) <= most:
                return body
            refused: Refused = TooLarge(
                f"{name} would change {len(body)} bytes at once; the most is {most}: ask for less at a time"
            )
        except (OverflowError, RecursionError) as failure:
            refused = Invalid(
                f"{name} has a value that cannot be kept, a number of more than 64 bits or deeply nested: {failure}"
            )
        except SpillLost as failure:
            self._spill_lost(failure)
            raise
        except Exception as fault:
            # What was taken is in no entry, and cannot be taken once more: memory and log would differ for good.
            self._tell_lost(StoreUnavailable(f"{OWN_FAULT}: {type(fault).__name__}: {fault}"), fault)
            raise
        self._throw_away(name, refused)
        raise refused

    # ------------------------------------------------------------------------------------------- the log

    async def _commit(self) -> None:
        while True:
            await self._kick.wait()
            self._kick.clear()
            while self._full or self._open_group.bodies:
                group = self._flying = self._next_group()
                body, began = joined(group.bodies), self._clock.monotonic()
                try:
                    with noting(self._trouble):
                        self.position = await self.log.append(body)
                except TickwiseError as failure:
                    await self._start_over(group, failure)
                    break
                self._flying = self._trouble.failure = None
                self._since_bytes += len(body)
                self._watch.committed(self.position, len(group.bodies), len(body), self._clock.monotonic() - began)
                if self._projection is not None:
                    self._projection.put(self.position, body)
                group.done.set_result(None)
                if self._tell is not None:
                    for handover in group.handovers:
                        self._tell(handover)
                self._look_for_checkpoint()
                if self._projection is not None:
                    await self._projection.room()
                if len(body) >= GATHER_BYTES:
                    left = self._gather_seconds - (self._clock.monotonic() - began)
                    if left > 0.0:
                        await self._clock.sleep(left)
            if self._undoing:
                await self._build_again()

    def _next_group(self) -> CommitGroup:
        if self._full:
            return self._full.popleft()
        group, self._open_group = self._open_group, CommitGroup()
        return group

    def _fail_waiting(self, failure: TickwiseError) -> None:
        """Tell the callers of all groups that wait for the log."""
        for group in (*self._full, self._open_group):
            group.fail(failure)
        self._full.clear()

    async def _start_over(self, group: CommitGroup, failure: TickwiseError) -> None:
        """An append failed: the state is ahead of the log, and another one is built from what the log has."""
        self._refusal = _as_refusal(failure)
        if not isinstance(failure, OwnershipLost):
            self._watch.doubted()
        logger.error("log_not_written", shard=self._shard, detail=failure.detail)
        group.fail(InDoubt(failure.detail))
        self._fail_waiting(self._refusal)
        await self._build_again(failure)

    async def _build_again(self, failure: TickwiseError | None = None) -> None:
        """Build the state from the log once more, as soon as that can be had. `failure`: of the log."""
        self._open_group, self._flying, self._undoing, self._heard = CommitGroup(), None, False, []
        if self._checkpoint is not None:
            self._checkpoint.cancel()
        while True:
            if isinstance(failure, OwnershipLost | Misconfigured):
                self._give_up(failure)
            await self._clock.sleep(RETRY_SECONDS)
            try:
                await self._take_over()
            except TickwiseError as again:
                failure = again
                self._refusal = _as_refusal(failure)
            else:
                return

    def _give_up(self, failure: TickwiseError) -> None:
        """This process answers for the log no more."""
        self._tell_lost(failure)
        raise asyncio.CancelledError

    def _tell_lost(self, failure: TickwiseError, fault: BaseException | None = None) -> None:
        self._refusal = failure
        logger.critical("log_lost", shard=self._shard, detail=failure.detail, exc_info=fault)
        if self._lost is not None:
            self._lost(failure.detail)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Give the shard up if a fault of this program has ended a task: the lease would be renewed, and no call would
        be answered."""
        if task.cancelled() or (fault := task.exception()) is None:
            return
        failure = StoreUnavailable(f"{OWN_FAULT}: {type(fault).__name__}: {fault}")
        self._fail_waiting(failure)
        if self._flying is not None:
            self._flying.fail(InDoubt(failure.detail))
        self._tell_lost(failure, fault)

    async def _renew(self) -> None:
        """Keep the lease, where the log has one."""
        pause = 0.0
        while self._lease_until != math.inf:
            await self._clock.sleep(max(pause, (self._lease_until - self._clock.monotonic()) / 3))
            began, pause = self._clock.monotonic(), 0.0
            try:
                with noting(self._trouble):
                    self._lease_until = began + await self.log.renew()
                self._trouble.failure = None
            except TickwiseError as failure:
                if isinstance(failure, OwnershipLost) and self._refusal is None:
                    self._fail_waiting(failure)
                    self._tell_lost(failure)
                    return
                # A log that is lost while another state is built: `_start_over` acquires it, and finds out whose it is.
                pause = RENEW_SECONDS
                self._trouble.take(failure)
                logger.warning("lease_not_renewed", shard=self._shard, detail=failure.detail)

    # ------------------------------------------------------------------------------------------- checkpoints

    def _look_for_checkpoint(self) -> None:
        """Begin a checkpoint if there is much to replay; a large state is not written anew for little: for checkpoints
        at most twice as much is written as for entries."""
        if self._keeping.locked() or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        seconds = self._clock.monotonic() - self._since
        if self._since_bytes >= max(CHECKPOINT_BYTES, self._checkpoint_bytes) or (
            seconds >= CHECKPOINT_SECONDS and self._since_bytes > self._checkpoint_bytes
        ):
            self._checkpoint = asyncio.create_task(self._keep_checkpoint())

    async def keep_checkpoint(self) -> None:
        """Keep a checkpoint now, or after the one that is under way."""
        async with self._keeping:
            blocks, began = self._blocks, self._clock.monotonic()
            if blocks is not None:
                await blocks.seal()
            position, before = self.position, self._since_bytes
            await self.log.keep_checkpoint(position, self._parts(blocks))
            if self._projection is not None:
                self._projection.kept(position)
            await self.log.drop(position + 1)
            if blocks is not None:
                await blocks.sweep()
            self.checkpoints += 1
            self._watch.kept_checkpoint(self._checkpoint_bytes, self._clock.monotonic() - began)
            self._since_bytes -= before
            self._since = self._clock.monotonic()

    async def _keep_checkpoint(self) -> None:
        try:
            await self.keep_checkpoint()
            return
        except TickwiseError as failure:
            detail, fault = failure.detail, None
        except Exception as other:  # noqa: BLE001  # a fault of this program must not stand in the way of the shard
            detail, fault = OWN_FAULT, other
        logger.warning("checkpoint_not_kept", shard=self._shard, detail=detail, exc_info=fault)
        # The log still has all of it. The next one is tried after as much again.
        self._since, self._since_bytes = self._clock.monotonic(), 0

    async def _parts(self, blocks: BlockKeeper | None) -> AsyncIterator[bytes]:
        """The state in parts, while calls go on between them: see `rebuild`."""
        recorder, size = self._recorder, 0
        names = [] if blocks is None else list(blocks.parts())
        yield head_part({each.name: each.get(recorder.state) for each in VALUES}, with_blocks=bool(names))
        for part in names:
            size += len(part)
            yield part
        for table in recorder.tables.values():
            for rows in _pages(table.content):
                part = table_part(table.kind, rows)
                size += len(part)
                yield part
        # What the rows show must be in the log before they count.
        await self._settled()
        self._checkpoint_bytes = size
        until = self.position
        if self._projection is not None:
            await self._projection.reached(until)
        yield last_part(until)


def _pages(content: MutableMapping[Any, Any]) -> Iterator[Sequence[tuple[Any, Any]]]:
    """The rows of a table, while calls go on between the pages."""
    if isinstance(content, EndedRuns | JobTable):
        yield from content.pages(ROWS_OF_PART)
        return
    keys = list(content)
    for begin in range(0, len(keys), ROWS_OF_PART):
        yield [(key, content[key]) for key in keys[begin : begin + ROWS_OF_PART] if key in content]


def _as_refusal(failure: TickwiseError) -> StoreUnavailable:
    """The answer to calls after a failure of the log: of its kind, where that tells what is away."""
    kind = type(failure) if isinstance(failure, StoreUnavailable) else StoreUnavailable
    return kind(failure.detail)


def _lease_over(why: StoreUnavailable | None) -> StoreUnavailable:
    """The answer to calls once the lease is over. `why`: the last failure of the database under the log."""
    if why is None:
        return StoreUnavailable("the lease of this shard is over: it is renewed, or another process has the shard")
    return type(why)(f"the lease of this shard is over and cannot be renewed: {why.detail}")
