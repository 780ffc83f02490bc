"""Tasks: checking what is said of one, and keeping those that many jobs share.

A stored script goes into the blobs under its SHA-256, so the same text is kept once, however many callers store it; the
task then names it. A job that says `taskId` gets the task's newest version, for good: later versions do not change it.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry, fields_of
from tickwise.control.bodies import TaskBody, decode_object
from tickwise.control.context import ControlContext
from tickwise.control.environments.declarations import EnvironmentDeclarations
from tickwise.control.texts import clean_id, clean_name
from tickwise.control.turns import Turns
from tickwise.domain.accounts.run_as import NO_USERS, RunAsUsers
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid, Malformed, NotFound
from tickwise.domain.masking import MASK, restored
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.scripts.coding import source_bytes, source_text
from tickwise.domain.scripts.files import apart, files_bytes, stored_digests
from tickwise.domain.secrets.places import check_references
from tickwise.domain.secrets.references import PROVIDERS
from tickwise.ports.blobs import read_script, script_key
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.runner import KindWithReasons, ScriptCheck, ScriptFinding, TaskKind, TaskLimits
from tickwise.ports.store import PAGE_BYTES, Page, StoredTask

REMEMBERED_TASKS: Final = 1_024
REMEMBERED_BYTES: Final = 4_096
"""Checked tasks up to this size are remembered: the same few come again and again."""
MAX_SOURCE_BYTES: Final = 128 << 10
"""The default limit of a script that stands in a job itself."""

PYTHON: Final = "python"
SHELL: Final = "shell"
SOURCE_FIELD: Final = b'"source"'
"""The mark of a task that holds a script."""

Findings = Mapping[bytes, ScriptFinding]
"""The findings on the scripts of tasks, by the task's text."""
NO_FINDINGS: Final[Findings] = MappingProxyType({})

_encode = msgspec.json.Encoder().encode


class CheckedTask(NamedTuple):
    """A task that was found good, in its long form."""

    kind: str
    text: msgspec.Raw
    function: str | None
    """The function's name, for the kind `function`."""
    source: str | None = None
    """The text of a script that the task holds itself."""
    unchecked: str | None = None
    """The reason why it is unknown whether that script compiles."""
    files_bytes: int = 0
    """The bytes of the files that stand in the task itself."""


class KindRules(NamedTuple):
    """The rules of a task kind for the policies of a job."""

    limits: Collection[str]
    """The limits that its tasks support."""
    reasons: Collection[str] | None
    """The reasons of its own that it names; None: it names none, or is unknown."""


class TaskCheck:
    """Checks tasks by their kinds, and remembers the answers.

    Scripts are checked beforehand (`scripts_looked_at`), because that check waits for another process; the call itself
    waits for none, and takes the earlier findings.
    """

    def __init__(
        self,
        kinds: Mapping[str, TaskKind],
        *,
        scripts: ScriptCheck | None = None,
        source_bytes_most: int = MAX_SOURCE_BYTES,
        run_as_users: RunAsUsers = NO_USERS,
        issuer: TokenIssuer | None = None,
    ) -> None:
        """`run_as_users`: the system users that this process knows jobs may name; none: executors alone know. `issuer`
        of identity tokens; None: no job has one."""
        self._kinds = kinds
        self._scripts = scripts
        self._source_bytes_most = source_bytes_most
        self.run_as_users = run_as_users
        self.issuer = issuer
        self._remembered: dict[bytes, CheckedTask] = {}

    @property
    def kinds(self) -> Mapping[str, TaskKind]:
        """The known kinds, by their names."""
        return self._kinds

    def needs_look(self, task: bytes) -> bool:
        """Check whether the task may hold a script that was not checked. (A script in a field written with escapes goes
        unnoticed: its syntax error shows when it runs.)"""
        return SOURCE_FIELD in task and self._scripts is not None and task not in self._remembered

    async def scripts_looked_at(self, tasks: Iterable[bytes], turns: Turns) -> Findings:
        """The findings on their scripts, by task. Tasks that cannot be read have none."""
        wanted: dict[bytes, str] = {}
        for task in tasks:
            if self.needs_look(task):
                with contextlib.suppress(Invalid):  # said again, with its place, when the job is composed
                    checked = self._ask(task)
                    if checked.source is not None:
                        wanted[task] = checked.source
                if turns.is_over(len(task)):
                    await turns.give()
        if not wanted or self._scripts is None:
            return NO_FINDINGS
        return dict(zip(wanted, await self._scripts.look(list(wanted.values())), strict=True))

    def __call__(self, task: bytes, findings: Findings = NO_FINDINGS) -> CheckedTask:
        """The task in its long form. Raises `Invalid` with a pointer below `/task`, also for a script that was found
        not to compile."""
        known = self._remembered.get(task)
        if known is not None:
            return known
        checked = self._ask(task)
        finding = findings.get(task)
        if finding is not None and finding.error is not None:
            raise Invalid(
                f"the script does not compile: {finding.error}", pointer="/task/source", code="script_invalid"
            )
        if finding is not None and finding.unchecked is not None:
            return checked._replace(unchecked=finding.unchecked)
        if len(task) <= REMEMBERED_BYTES and (finding is not None or not self.needs_look(task)):
            if len(self._remembered) >= REMEMBERED_TASKS:
                self._remembered.clear()
            self._remembered[task] = checked
        return checked

    def inline(self, task: bytes, findings: Findings = NO_FINDINGS) -> CheckedTask:
        """Check a task that stands in a job itself, where a long script has no place. Raises `Invalid`."""
        checked = self(task, findings)
        if checked.files_bytes > self._source_bytes_most:
            raise self._too_large("files have", checked.files_bytes, "/task/files")
        if checked.source is not None and len(checked.source) * 4 + checked.files_bytes > self._source_bytes_most:
            size = len(checked.source.encode()) + checked.files_bytes
            if size > self._source_bytes_most:
                what = "script has" if not checked.files_bytes else "script and its files have"
                raise self._too_large(what, size, "/task/source")
        return checked

    def _too_large(self, what: str, size: int, pointer: str) -> Invalid:
        return Invalid(
            f"the {what} {size} bytes, and a job holds up to {self._source_bytes_most}; upload it as a stored task, "
            "which may be as large as a body (PUT /api/v1/tasks/NAME with the file, or POST /api/v1/tasks), and name "
            "that by taskId",
            pointer=pointer,
            code="script_too_large",
        )

    def function(self, name: str) -> CheckedTask:
        """The task that runs the registered function of this name."""
        return self(_encode({"kind": "function", "name": name}))

    def rules_of(self, kind: str) -> KindRules:
        """The rules of this kind; those of an unknown kind allow everything."""
        strategy = self._kinds.get(kind)
        if strategy is None:
            return KindRules(TaskLimits._fields, None)
        return KindRules(strategy.limits, strategy.reasons if isinstance(strategy, KindWithReasons) else None)

    def _ask(self, task: bytes) -> CheckedTask:
        said = _decoded(task)
        kind = said.get("kind")
        if not isinstance(kind, str):
            known = ", ".join(sorted(self._kinds))
            raise Invalid(f"a task says its kind, one of {known}", pointer="/task/kind")
        strategy = self._kinds.get(kind)
        if strategy is None:
            raise Invalid(f"there is no task kind {kind[:50]!r}; {self._nearest(kind)}", pointer="/task/kind")
        try:
            # A mask in the place of a secret is refused: a job would send the mask.
            normal = restored(strategy.check(said), None)
            if b"secret" in task:
                check_references(normal, PROVIDERS)
        except Invalid as refusal:
            refusal.pointer = "/task" + (refusal.pointer or "")
            raise
        source = normal.get("source") if kind == "python" else None
        function = normal["name"] if kind == "function" else None
        size = files_bytes(normal) if kind in (PYTHON, SHELL) else 0
        return CheckedTask(kind, msgspec.Raw(_encode(normal)), function, source, files_bytes=size)

    def _nearest(self, kind: str) -> str:
        near = difflib.get_close_matches(kind[:50], self._kinds, n=1)
        return f"did you mean {near[0]}?" if near else f"write one of {', '.join(sorted(self._kinds))}"


def with_secrets(task: msgspec.Raw, before: bytes | str) -> msgspec.Raw:
    """A task that was sent, with the secrets that are masked in it as they are in the one that it replaces. Raises
    `Invalid` with a pointer below `/task`."""
    if MASK.encode() not in bytes(task):
        return task
    said = _decoded(bytes(task))
    try:
        found = restored(said, msgspec.json.decode(before))
        return task if found is said else msgspec.Raw(_encode(found))
    except Invalid as refusal:
        if refusal.code == "secret_masked":
            refusal.pointer = "/task" + (refusal.pointer or "")
        raise


def _decoded(task: bytes) -> dict[str, Any]:
    try:
        said = decode_object(task)
    except (ValueError, RecursionError) as failure:
        raise Invalid(f"the task cannot be read: {failure}", pointer="/task") from None
    if said is None:
        raise Invalid('a task is an object such as {"kind": "shell", "command": "date"}', pointer="/task")
    return said


def stored_as_checked(stored: StoredTask) -> CheckedTask:
    """A stored task was checked when it came in."""
    said = msgspec.json.decode(stored.task)
    return CheckedTask(
        said["kind"], msgspec.Raw(stored.task.encode()), said.get("name") if said["kind"] == "function" else None
    )


class FoundTask(NamedTuple):
    """The task found under an id, for a write that must not meet another version."""

    task: StoredTask | None
    """The newest version; None: there was none."""


class StoredScript(NamedTuple):
    """A script that was handed in."""

    task: StoredTask
    created: bool
    """There was no task under this id before."""


class TaskService:
    """Stored tasks."""

    def __init__(self, context: ControlContext, check: TaskCheck, declarations: EnvironmentDeclarations) -> None:
        """`check` refuses tasks that cannot run. `declarations` is told of those that are stored."""
        self._context = context
        self._check_task = check
        self._declarations = declarations

    @requires(Permission.TASKS_WRITE)
    async def put(self, who: Principal, body: TaskBody, found: FoundTask | None = None) -> StoredTask:
        """Keep a task as a new version; the content of the newest version again is that version. With `found`, raises
        `VersionConflict` if the newest version is another one."""
        return await self._put(who, body, found)

    async def _put(self, who: Principal, body: TaskBody, found: FoundTask | None) -> StoredTask:
        if (body.task is UNSET) == (body.script is UNSET):
            raise Invalid("send either task or script", pointer="/task")
        if body.name is UNSET and body.task_id is UNSET:
            raise Invalid("a stored task needs a name, or a taskId that serves as one", pointer="/name")
        name = clean_name(body.name if body.name is not UNSET else str(body.task_id), "/name")
        task_id = clean_id(body.task_id if body.task_id is not UNSET else name, "/taskId")
        text = _encode(await self._kept(who, task_id, _script_task(body)))
        task = StoredTask(
            namespace=who.namespace,
            task_id=task_id,
            version=0,
            name=name,
            task=text.decode(),
            digest=hashlib.sha256(name.encode() + b"\0" + text).hexdigest(),
            created_by=who.name,
            created_at=await self._context.time.now(),
        )
        expected = None if found is None else 0 if found.task is None else found.task.version
        tries = itertools.count()
        audit = entry(
            who,
            AuditAction.TASK_STORED,
            "task",
            task_id,
            after={"name": name, "task": fields_of(text)},
            detail={"digest": task.digest},
        )
        stored = await self._context.surely(
            lambda: self._context.store.tasks.put(task, expected, again=next(tries) > 0, audit=audit)
        )
        self._declarations.note_task(stored)
        return stored

    async def _kept(self, who: Principal, task_id: str, said: bytes) -> dict[str, Any]:
        """A task as it is stored: with its secrets, and its script in the blobs."""
        before = await self._context.store.tasks.get(who.namespace, task_id) if MASK.encode() in said else None
        if before is not None:
            said = bytes(with_secrets(msgspec.Raw(said), before.task))
        checked = self._check_task(said, await self._check_task.scripts_looked_at((said,), Turns(self._context.clock)))
        normal: dict[str, Any] = msgspec.json.decode(checked.text)
        if checked.kind in (PYTHON, SHELL):
            for digest in stored_digests(normal):
                await self._check_file(who, digest, "/task/files")
            normal, contents = apart(normal)
            for digest, content in contents.items():
                await self._context.blobs.put(script_key(who.namespace, digest), content)
        if checked.source is not None:
            content = source_bytes(checked.source)
            digest = hashlib.sha256(content).hexdigest()
            await self._context.blobs.put(script_key(who.namespace, digest), content)
            # In the order of a task that names its script, so that the same content is the same version.
            further = {field: value for field, value in normal.items() if field not in ("kind", "source")}
            normal = {"kind": checked.kind, "file": f"sha256:{digest}", **further}
        elif checked.kind == PYTHON:
            await self._check_file(who, normal["file"].removeprefix("sha256:"))
        return normal

    @requires(Permission.TASKS_WRITE)
    async def put_script(
        self, who: Principal, task_id: str, script: bytes, *, name: str | None = None, found: FoundTask | None = None
    ) -> StoredScript:
        """Store the text of a Python script under this id; it keeps its name if none is given. Raises `Malformed` for a
        file that is no text."""
        before = await self._find(who, task_id) if found is None else found.task
        try:
            text = source_text(script)
        except Invalid as failure:
            raise Malformed(failure.detail) from None
        if not text:
            raise Malformed("the script is empty")
        named = name if name is not None else UNSET if before is None else before.name
        body = TaskBody(task_id=task_id, name=named, script=text)
        stored = await self._put(who, body, found)
        return StoredScript(stored, created=before is None)

    @requires(Permission.TASKS_READ)
    async def script(self, who: Principal, task_id: str, version: int) -> bytes:
        """The text of the script that a version of a task runs. Raises `NotFound`, also for a task of another kind."""
        stored = await self._get(who, task_id, version)
        said = msgspec.json.decode(stored.task)
        file = said.get("file")
        if said.get("kind") != "python" or not isinstance(file, str):
            raise NotFound(
                f"the task {task_id} is of the kind {said.get('kind')}, and has no script; read the task itself"
            )
        return await read_script(self._context.blobs, who.namespace, file.removeprefix("sha256:"))

    async def _check_file(self, who: Principal, digest: str, pointer: str = "/task/file") -> None:
        """Check that the caller's own namespace has stored the script. Raises `Invalid`."""
        try:
            await self._context.blobs.get_range(script_key(who.namespace, digest), 0, 1)
        except NotFound:
            raise Invalid(
                f"the namespace {who.namespace} has stored no script sha256:{digest}; send the script itself",
                pointer=pointer,
            ) from None

    @requires(Permission.TASKS_WRITE)
    async def to_replace(self, who: Principal, task_id: str) -> FoundTask:
        """The newest version, if there is one, for a write that is judged by it."""
        return FoundTask(await self._find(who, task_id))

    async def _find(self, who: Principal, task_id: str, version: int | None = None) -> StoredTask | None:
        return None if "\0" in task_id else await self._context.store.tasks.get(who.namespace, task_id, version)

    @requires(Permission.TASKS_READ)
    async def get(self, who: Principal, task_id: str, version: int | None = None) -> StoredTask:
        """One version, or the newest. Raises `NotFound`."""
        return await self._get(who, task_id, version)

    async def _get(self, who: Principal, task_id: str, version: int | None = None) -> StoredTask:
        found = await self._find(who, task_id, version)
        if found is None:
            which = "" if version is None else f" in version {version}"
            raise NotFound(f"no task {task_id[:200]!r} is stored{which}")
        return found

    @requires(Permission.TASKS_READ)
    async def versions(self, who: Principal, task_id: str, before: int | None, limit: int) -> Page[StoredTask]:
        """The versions of one task, newest first, those below `before`. A page is bounded in bytes. Raises
        `NotFound`."""
        await self._get(who, task_id)
        return await self._context.store.tasks.versions(
            who.namespace, task_id, before=before, limit=limit, bytes_most=PAGE_BYTES
        )

    @requires(Permission.TASKS_READ)
    async def page(self, who: Principal, after: str | None, limit: int) -> Page[StoredTask]:
        """The newest version of each, by id. A page is bounded in bytes."""
        return await self._context.store.tasks.page(who.namespace, after, limit, bytes_most=PAGE_BYTES)


def _script_task(body: TaskBody) -> bytes:
    if body.script is not UNSET:
        return _encode({"kind": "python", "source": body.script})
    return bytes(body.task)  # type: ignore[arg-type]  # UNSET was refused before
