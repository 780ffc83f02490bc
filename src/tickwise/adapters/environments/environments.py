"""The environments of one executor: found, or built by uv, at most a few at a time.

    acquire ──► hold ──there──► held
                 └─ not ──► failed lately? ── yes ──► that failure
                              └─ no ──► one build of a key in this process ──► claim ──► builder_program ──► publish
                                                                                └─ another process builds it: look again

A build is a task of its own: attempts that wait for it may be cancelled, and it goes on for those that come later. It
ends by its timeout, or when the executor closes.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import structlog
from packaging.specifiers import SpecifierSet

from tickwise.adapters.environments import builder_program
from tickwise.adapters.environments.diagnosis import OWN_WORDS, BuildLimits, disk_full, failure_of, too_large
from tickwise.adapters.environments.failures import RecentFailures
from tickwise.adapters.environments.folder import BuildSite, Claim, EnvironmentFacts, EnvironmentFolder, HeldEnvironment
from tickwise.adapters.environments.sealing import ForeignFile, size_of
from tickwise.domain.errors import Misconfigured, Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    ENVIRONMENT_TIMEOUT,
    ENVIRONMENT_UNAVAILABLE,
    BuildCommand,
    BuildLimit,
    Environment,
    EnvironmentDemand,
    EnvironmentFailure,
    EnvironmentHost,
    EnvironmentTelemetry,
)

BUILDS_AT_ONCE: Final = 2
"""Of one executor, for runs. A build takes a processor, and what runs needs the others."""
BUILDS_AHEAD: Final = 1
"""Of those that no run waits for, beside the others."""
NICE_AHEAD: Final = 10
"""Added to the niceness of those."""
DISK_LOOK_SECONDS: Final = 1.0
"""Between two looks at the size of what a build makes; ten times as long as a look takes, if that is more."""
LOOK_SECONDS: Final = 0.1
"""The interval of looks at a build of another process."""
MAX_TRIES: Final = 3
"""The number of times that an environment may be removed between its build and its use."""
MAX_LOG_BYTES: Final = 256 << 10
"""Of one build's output; what comes after it is dropped."""
SHARED_SECONDS: Final = 1.0
"""For so long, attempts that overlap share one lock of an environment. Later ones look at the disk again."""
MAX_SHARED: Final = 100
MAX_KEYS: Final = 100
"""Demands whose key is remembered: each script asks for its own, and they may hold a lock of 100 kB."""
FORMAT: Final = 1
"""Part of each key: another number makes all environments anew."""
MAX_DECLARED: Final = 200

_PLATFORM: Final = (sys.platform, platform.machine(), *platform.libc_ver())

logger = structlog.get_logger("tickwise.environments")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The settings of environments."""

    root: Path
    index_url: str | None = None
    """The index of packages; None: uv's own default."""
    find_links: str | None = None
    """A folder or a page with packages, beside the index."""
    proxy: str | None = None
    is_offline: bool = False
    limit_bytes: int = 5 << 30
    limit: int = 200
    """Environments that are kept."""
    build_seconds: float = 300.0
    build_bytes: int = 4 << 30
    build_memory_bytes: int = 4 << 30
    failure_seconds: float = 300.0
    """The time for which a failed build is the answer, without another one."""

    @property
    def build_limits(self) -> BuildLimits:
        """The limits of one build."""
        return BuildLimits(self.build_seconds, self.build_memory_bytes, self.build_bytes)


class _RunningBuild:
    """The build of one key in this process, and those who read its log."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.is_ahead = False
        self.task: asyncio.Task[EnvironmentFailure | None]
        self._readers: list[Callable[[bytes], None]] = []

    def write(self, content: bytes) -> None:
        """Keep a piece of its output, and tell it to all who listen."""
        kept = content[: MAX_LOG_BYTES - len(self.log)]
        self.log += kept
        if kept:
            for reader in self._readers:
                reader(kept)

    def listen(self, reader: Callable[[bytes], None]) -> None:
        """From its first line on."""
        if self.log:
            reader(bytes(self.log))
        self._readers.append(reader)

    def unlisten(self, reader: Callable[[bytes], None]) -> None:
        """No more of it."""
        self._readers.remove(reader)


class SharedEnvironment:
    """A held environment that several attempts of this process use: it is released with the last of them."""

    def __init__(self, held: HeldEnvironment, until: float) -> None:
        self._held = held
        self._until = until
        self._users = 0

    @property
    def program(self) -> Path:
        """See `Environment`."""
        return self._held.program

    def joined(self, now: float) -> SharedEnvironment | None:
        """This environment, for one attempt more; None: nobody holds it any more, or the last look is long ago."""
        if self._users == 0 or now >= self._until:
            return None
        return self.used()

    def used(self) -> SharedEnvironment:
        """This environment, for one attempt more; somebody holds it."""
        self._users += 1
        return self

    def release(self) -> None:
        """See `Environment`."""
        self._users -= 1
        if self._users == 0:
            self._held.release()


class UvEnvironments:
    """`Environments` that uv builds. For one event loop."""

    def __init__(self, settings: EnvironmentSettings, clock: Clock, telemetry: EnvironmentTelemetry) -> None:
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._threads = ThreadPoolExecutor(BUILDS_AT_ONCE + BUILDS_AHEAD + 2, thread_name_prefix="environments")
        self._gate = asyncio.Semaphore(BUILDS_AT_ONCE)
        self._gate_ahead = asyncio.Semaphore(BUILDS_AHEAD)
        self._failures = RecentFailures(clock, settings.failure_seconds)
        self._builds: dict[str, _RunningBuild] = {}
        self._shared: dict[str, SharedEnvironment] = {}
        """The last hold of each key, as long as it may be shared."""
        self._keys: dict[EnvironmentDemand, str] = {}
        self._folder: EnvironmentFolder | None = None
        self._host: EnvironmentHost
        self._uv = self._program = Path()

    @property
    def root(self) -> Path:
        """See `Environments`."""
        return self._settings.root

    async def open(self, host: EnvironmentHost) -> None:
        """See `Environments`."""
        self._host = host
        self._keys.clear()
        try:
            self._folder = await self._in_thread(EnvironmentFolder, host.root)
            await self._in_thread(self._folder.sweep)
        except OSError as error:
            raise Misconfigured(
                f"the folder for the environments of scripts, {host.root}, cannot be made: {error.strerror}; set "
                "TICKWISE_ENVIRONMENTS_DIR to one that can be written"
            ) from error

    async def close(self) -> None:
        """See `Environments`."""
        tasks = [build.task for build in self._builds.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    async def _taken(self, undo: Callable[[Any], None], work: Callable[..., Any], *given: Any) -> Any:
        """The result of `work` in a thread. `undo` gives it back if this call was cancelled meanwhile: a lock that
        nobody knows of would stay."""

        def give_back(done: asyncio.Future[Any]) -> None:
            if done.exception() is None and done.result() is not None:
                undo(done.result())

        taking = asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(give_back)
            raise

    # ------------------------------------------------------------------------------------------ acquire

    def share(self, demand: EnvironmentDemand) -> Environment | None:
        """See `Environments`."""
        shared = self._shared.get(self.key_of(demand))
        held = None if shared is None else shared.joined(self._clock.monotonic())
        if held is not None:
            self._telemetry.environment_reused()
        return held

    async def acquire(
        self, demand: EnvironmentDemand, output: Callable[[bytes], None]
    ) -> Environment | EnvironmentFailure:
        """See `Environments`."""
        held = self.share(demand)
        if held is not None:
            return held
        key = self.key_of(demand)
        held = await self._hold(key)
        if held is not None:
            self._telemetry.environment_reused()
            return held
        for _ in range(MAX_TRIES):
            failure = await self._built(key, demand, output)
            if failure is not None:
                return failure
            held = await self._hold(key)
            if held is not None:
                return held
        return EnvironmentFailure(
            ENVIRONMENT_UNAVAILABLE,
            "the script's environment was built, and removed before it was used; the limits of environments are too "
            "small for what runs here (TICKWISE_ENVIRONMENTS_LIMIT, TICKWISE_ENVIRONMENTS_LIMIT_BYTES)",
        )

    async def prepare(self, demand: EnvironmentDemand, *, ahead: bool = False) -> EnvironmentFailure | None:
        """See `Environments`."""
        assert self._folder is not None
        key = self.key_of(demand)
        if await self._in_thread(self._folder.is_ready, key):
            return None
        return await self._built(key, demand, lambda _content: None, ahead=ahead)

    def key_of(self, demand: EnvironmentDemand) -> str:
        """The name of its environment: of equal demands on one platform and Python, the same. Another namespace has
        another one, so nothing that a namespace builds ever runs in a script of another."""
        found = self._keys.get(demand)
        if found is None:
            facts = [FORMAT, *demand.facts, *_PLATFORM, sys.version, str(self._host.interpreter)]
            if len(self._keys) >= MAX_KEYS:
                self._keys.clear()
            found = self._keys[demand] = sha256(json.dumps(facts).encode()).hexdigest()[:40]
        return found

    async def _hold(self, key: str) -> SharedEnvironment | None:
        assert self._folder is not None
        now = self._clock.monotonic()
        try:
            held: HeldEnvironment | None = await self._taken(
                HeldEnvironment.release, self._folder.hold, key, self._clock.now()
            )
        except OSError as error:
            logger.warning("environment_unreadable", key=key, detail=str(error))
            return None
        self._shared.pop(key, None)
        if held is None:
            return None
        while len(self._shared) >= MAX_SHARED:
            del self._shared[next(iter(self._shared))]
        shared = self._shared[key] = SharedEnvironment(held, now + SHARED_SECONDS)
        return shared.used()

    async def _built(
        self, key: str, demand: EnvironmentDemand, output: Callable[[bytes], None], *, ahead: bool = False
    ) -> EnvironmentFailure | None:
        """Wait for the build of this key, begun if there is none and none failed lately."""
        build = self._builds.get(key)
        if build is None:
            failure = self._failures.of(key)
            if failure is not None:
                seconds = failure.retry_after_seconds or 0.0
                again = f"{OWN_WORDS}the last build of this environment failed; it is tried again in {seconds:.0f} s\n"
                output(again.encode())
                return failure
            build = self._builds[key] = _RunningBuild()
            build.is_ahead = ahead
            build.task = asyncio.get_running_loop().create_task(self._carry(key, demand, build))
        build.listen(output)
        try:
            return await asyncio.shield(build.task)
        finally:
            build.unlisten(output)

    # ------------------------------------------------------------------------------------------ build

    async def _carry(self, key: str, demand: EnvironmentDemand, build: _RunningBuild) -> EnvironmentFailure | None:
        """One build. Each error becomes a failure; None: the environment is ready."""
        began = self._clock.monotonic()
        try:
            async with self._gate_ahead if build.is_ahead else self._gate:
                failure = await self._claim_and_build(key, demand, build)
        except ForeignFile as error:
            failure = EnvironmentFailure(
                ENVIRONMENT_INVALID, f"the script's environment holds what is no file of its build: {error}"
            )
        except Unavailable as error:
            failure = EnvironmentFailure(ENVIRONMENT_UNAVAILABLE, error.detail)
        except OSError as error:
            words = f"{error.strerror}: {error.filename}"
            failure = EnvironmentFailure(
                ENVIRONMENT_UNAVAILABLE, f"the script's environment could not be built: {words}"
            )
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                failure = disk_full(words)
        finally:
            del self._builds[key]
        if failure is not None:
            failure = self._failures.note(key, failure)
            self._telemetry.environment_failed(failure.reason)
            logger.warning("environment_failed", key=key, namespace=demand.namespace, detail=failure.detail)
            return failure
        self._failures.forget(key)
        seconds = self._clock.monotonic() - began
        build.write(f"{OWN_WORDS}the environment is ready after {seconds:.1f} s\n".encode())
        return None

    async def _claim_and_build(
        self, key: str, demand: EnvironmentDemand, build: _RunningBuild
    ) -> EnvironmentFailure | None:
        assert self._folder is not None
        limit = self._settings.build_seconds
        until = self._clock.monotonic() + limit
        build.write(f"{OWN_WORDS}building the environment of this script: {_declared(demand)}\n".encode())
        while True:
            claim: Claim | None = await self._taken(Claim.release, self._folder.claim, key)
            if claim is not None:
                break
            held = await self._hold(key)
            if held is not None:  # another process built it
                held.release()
                return None
            if self._clock.monotonic() >= until:
                return EnvironmentFailure(
                    ENVIRONMENT_TIMEOUT, f"another executor of this machine builds it, for more than {limit:g} s"
                )
            await self._clock.sleep(LOOK_SECONDS)
        try:
            if await self._in_thread(self._folder.is_ready, key):
                return None
            return await self._build_claimed(claim, demand, build, until)
        finally:
            claim.release()

    async def _build_claimed(
        self, claim: Claim, demand: EnvironmentDemand, build: _RunningBuild, until: float
    ) -> EnvironmentFailure | None:
        assert self._folder is not None
        settings, folder = self._settings, self._folder
        owner, began = self._host.processes.owner(demand.namespace), self._clock.monotonic()
        site: BuildSite = await self._taken(folder.abandon, folder.begin, claim, demand.namespace, owner)
        try:
            command = await self._in_thread(self._command, demand, site, build.is_ahead, until - began)
            status = await self._run(command, site, build)
            if status is None:
                return too_large(settings.build_limits)
            if status != 0:
                return failure_of(status, bytes(build.log), settings.build_limits)
            seconds = self._clock.monotonic() - began
            facts = EnvironmentFacts(
                key=claim.key,
                namespace=demand.namespace,
                declared=_declared(demand),
                python=platform.python_version(),
                built_at=self._clock.now(),
                seconds=round(seconds, 3),
                size_bytes=0,
            )
            facts = await self._in_thread(folder.publish, site, facts, bytes(build.log), owner)
        finally:
            await asyncio.shield(self._in_thread(folder.abandon, site))
        self._telemetry.environment_built(seconds)
        logger.info(
            "environment_built",
            key=claim.key,
            namespace=demand.namespace,
            seconds=facts.seconds,
            bytes=facts.size_bytes,
        )
        removed = await self._in_thread(self._shrink)
        if removed:
            logger.info("environments_removed", keys=removed)
        return None

    async def _run(self, command: BuildCommand, site: BuildSite, build: _RunningBuild) -> int | BuildLimit | None:
        """Run a build to its end; None: it filled more of the disk than it may, and was ended."""
        loop = asyncio.get_running_loop()
        running = loop.create_task(self._host.processes.run(command, build.write))
        watching = loop.create_task(self._grows_too_large(site))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            return await running if running.done() else None
        finally:
            for task in (running, watching):
                task.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)

    async def _grows_too_large(self, site: BuildSite) -> None:
        """Return when what a build makes is larger than it may be."""
        before: int = await self._in_thread(size_of, site.cache)
        size = 0
        while size <= self._settings.build_bytes:
            began = self._clock.monotonic()
            size = await self._in_thread(size_of, site.work) + await self._in_thread(size_of, site.cache) - before
            if size <= self._settings.build_bytes:
                await self._clock.sleep(max(DISK_LOOK_SECONDS, 10.0 * (self._clock.monotonic() - began)))

    def _shrink(self) -> list[str]:
        assert self._folder is not None
        return self._folder.shrink(bytes_most=self._settings.limit_bytes, count_most=self._settings.limit)

    def _command(
        self, demand: EnvironmentDemand, site: BuildSite, is_ahead: bool, timeout_seconds: float
    ) -> BuildCommand:
        """The command of a build, with its request written. In a thread."""
        host, owner = self._host, self._host.processes.owner(demand.namespace)
        uv, program = _uv(), Path(builder_program.__file__)
        if owner is not None:
            assert self._folder is not None
            uv, program = self._folder.program(uv), self._folder.program(program)
        request = {
            "uv": str(uv),
            "python": self._python_for(demand),
            "cache": str(site.cache),
            "requirements": demand.requirements,
            "lock": demand.lock,
            "exclude_newer": demand.exclude_newer,
            "from_source": demand.from_source,
            "nice": NICE_AHEAD if is_ahead else 0,
        }
        file = site.folder / "request.json"
        file.write_text(json.dumps(request), encoding="utf-8")
        file.chmod(0o644)
        return BuildCommand(
            namespace=demand.namespace,
            arguments=[str(host.interpreter), "-I", "-S", "-B", str(program), str(file)],
            folder=site.work,
            variables={**self._variables(site), **host.variables},
            timeout_seconds=max(timeout_seconds, 1.0),
            memory_bytes=self._settings.build_memory_bytes,
        )

    def _python_for(self, demand: EnvironmentDemand) -> str:
        """The interpreter of tasks if it fits, else what uv finds on the machine; it is never downloaded."""
        if not demand.python or SpecifierSet(demand.python).contains(platform.python_version(), prereleases=True):
            return str(self._host.interpreter)
        return demand.python

    def _variables(self, site: BuildSite) -> Mapping[str, str]:
        settings = self._settings
        variables = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(site.work),
            "TMPDIR": str(site.work),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "UV_NO_PROGRESS": "1",
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_TIMEOUT": "30",
            "UV_HTTP_RETRIES": "2",  # 4 s of an index that is away; the retries of the job come on top
        }
        if settings.index_url is not None:
            variables["UV_DEFAULT_INDEX"] = settings.index_url
        if settings.find_links is not None:
            variables["UV_FIND_LINKS"] = settings.find_links
        if settings.is_offline:
            variables["UV_OFFLINE"] = "1"
        if settings.proxy is not None:
            variables |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), settings.proxy)
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            if name in os.environ:
                variables[name] = os.environ[name]
        return variables


def _declared(demand: EnvironmentDemand) -> str:
    """The demand in a line, for people."""
    if demand.lock:
        return "a lock"
    lines = [line.strip() for line in demand.requirements.splitlines()]
    text = ", ".join(line for line in lines if line and not line.startswith("#")) or "no packages"
    text = text if len(text) <= MAX_DECLARED else f"{text[:MAX_DECLARED]}…"
    return f"{text}; Python {demand.python}" if demand.python else text


def _uv() -> Path:
    """The program that comes with the package `uv`."""
    from uv import find_uv_bin  # only where an environment is built

    return Path(find_uv_bin())
