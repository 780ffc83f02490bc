"""The API of a container engine, with our errors: Docker's Engine, and podman with Docker's API.

    connection refused, reset, cut off, no answer   EngineAway     wait, then ask again
    an answer of the 4xx and 5xx classes            EngineRefused  `status` and the engine's words

aiodocker speaks to it. Two calls go through its session directly, because its own read an archive whole into memory,
and cannot tell the end of a log from a broken connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from tickwise.domain.errors import Misconfigured

if TYPE_CHECKING:
    from aiodocker import Docker
    from aiohttp import ClientResponse

NOT_CONNECTED: Final = 900
"""aiodocker's status for a connection that failed."""
HEADER_BYTES: Final = 8
"""Of a frame of a log: the stream, three zeros, the length as 4 bytes, the first one the highest."""
CALL_SECONDS: Final = 60.0
"""The longest that the engine may take for an answer that waits for nothing. A busy disk takes seconds."""
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_READ_BYTES: Final = 64 << 10
_Answer = TypeVar("_Answer")


class EngineAway(Exception):
    """The engine cannot be reached; whether it did what was asked is not known."""


class EngineRefused(Exception):
    """The engine answered that it cannot do it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class EngineFacts(NamedTuple):
    """The engine's own account of itself."""

    version: str
    limits_memory: bool
    limits_processes: bool
    limits_cpu: bool
    survives_restarts: bool
    """Its containers go on while it is restarted."""
    tells_memory_kills: bool
    """It says of a container that the kernel killed it for its memory."""


class ImageFacts(NamedTuple):
    """An image on the engine."""

    image_id: str
    digests: Sequence[str]
    """Under which registries know it: `name@sha256:…`."""
    user: str
    entrypoint: Sequence[str]
    command: Sequence[str]


class ContainerState(NamedTuple):
    """The state of a container that does not run."""

    status: str
    """`created`, `exited`, `dead`, …"""
    exit_code: int
    memory_killed: bool
    error: str

    @property
    def has_begun(self) -> bool:
        """False: it was made and never started."""
        return self.status != "created"


class FoundContainer(NamedTuple):
    """A container, and its marks."""

    container_id: str
    labels: Mapping[str, str]


class Engine:
    """The client of one engine. For one event loop."""

    def __init__(self, url: str) -> None:
        """Raises `Misconfigured` if the library is not there, or the address is none."""
        try:
            import aiodocker
            import aiohttp
        except ImportError as error:
            raise Misconfigured(
                "containers need the extra `docker`: pip install 'tickwise[docker]', or unset TICKWISE_CONTAINER_ENGINE"
            ) from error
        scheme, _, place = url.partition("://")
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=10.0)
        self._aiohttp = aiohttp
        self._refusal = aiodocker.DockerError
        self._docker: Docker
        if scheme == "unix" and place.startswith("/"):
            # A container that runs holds a connection, so their number has no limit of its own.
            connector = aiohttp.UnixConnector(place, limit=0)
            session = aiohttp.ClientSession(connector=connector, timeout=timeout)
            self._docker = aiodocker.Docker("unix://localhost", connector=connector, session=session, timeout=timeout)
            self._session = session
        elif scheme == "tcp" and place:
            self._docker = aiodocker.Docker(url, timeout=timeout)
            self._session = self._docker.session
        else:
            raise Misconfigured(f"{url!r} is no address of a container engine; write unix:///var/run/docker.sock")
        self.url = url

    async def close(self) -> None:
        """Close its connections."""
        await self._docker.close()
        await self._session.close()

    # ------------------------------------------------------------------ the engine itself

    async def facts(self) -> EngineFacts:
        """Ask who it is. Raises `EngineAway`."""
        info = await self._answer(self._docker.system.info())
        version = str(info.get("ServerVersion") or "")
        names = {str(each.get("Name", "")) for each in (await self._version()).get("Components") or ()}
        return EngineFacts(
            version=version,
            limits_memory=bool(info.get("MemoryLimit")),
            limits_processes=bool(info.get("PidsLimit")),
            limits_cpu=bool(info.get("CpuCfsQuota", info.get("CPUCfsQuota"))),
            survives_restarts=bool(info.get("LiveRestoreEnabled")) or "Podman Engine" in names,
            tells_memory_kills="Podman Engine" not in names,
        )

    async def _version(self) -> Mapping[str, Any]:
        return await self._answer(self._docker.version())

    # ------------------------------------------------------------------ images

    async def image(self, name: str) -> ImageFacts | None:
        """The image of this name or number; None: it is not there."""
        try:
            found = await self._answer(self._docker.images.inspect(name))
        except EngineRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise
        config = found.get("Config") or {}
        return ImageFacts(
            image_id=str(found["Id"]),
            digests=found.get("RepoDigests") or (),
            user=str(config.get("User") or ""),
            entrypoint=config.get("Entrypoint") or (),
            command=config.get("Cmd") or (),
        )

    async def pull(self, name: str, auth: Mapping[str, str] | None, seconds: float) -> None:
        """Fetch an image from its registry. Raises `TimeoutError`."""

        async def pulled() -> None:
            stream = self._docker.images.pull(name, auth=dict(auth) if auth else None, stream=True, timeout=None)
            async for _progress in stream:
                pass

        async with asyncio.timeout(seconds):
            await self._answer(pulled())

    # ------------------------------------------------------------------ containers

    async def create(self, name: str, config: Mapping[str, Any]) -> str:
        """Make a container; its number."""
        made = await self._answer(self._docker.containers.create(dict(config), name=name))
        return made.id

    async def put(self, container: str, folder: str, archive: bytes) -> None:
        """Unpack an archive into a folder of the container."""
        target = self._docker.containers.container(container)
        await self._answer(target.put_archive(folder, archive))  # type: ignore[no-untyped-call]  # aiodocker has no types here

    async def start(self, container: str) -> None:
        """Start it."""
        await self._answer(self._docker.containers.container(container).start())

    async def kill(self, container: str, signal: str) -> None:
        """Send it a signal. One that does not run is left alone."""
        try:
            await self._answer(self._docker.containers.container(container).kill(signal=signal))
        except EngineRefused as refused:
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise

    async def wait(self, container: str) -> None:
        """Return when it does not run."""
        await self._answer(self._docker.containers.container(container).wait(timeout=None))

    async def state(self, container: str) -> ContainerState | None:
        """Its state; None: it is not there."""
        try:
            found = await self._answer(self._docker.containers.container(container).show())
        except EngineRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise
        state = found["State"]
        return ContainerState(
            status=str(state.get("Status") or ""),
            exit_code=int(state.get("ExitCode") or 0),
            memory_killed=bool(state.get("OOMKilled")),
            error=str(state.get("Error") or ""),
        )

    async def found(self, container: str) -> FoundContainer | None:
        """The container of a name; None: it is not there."""
        try:
            found = await self._answer(self._docker.containers.container(container).show())
        except EngineRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise
        return FoundContainer(str(found["Id"]), (found.get("Config") or {}).get("Labels") or {})

    async def remove(self, container: str) -> None:
        """Remove it with its own folders, killed if it runs. One that is not there is no fault."""
        try:
            await self._answer(self._docker.containers.container(container).delete(force=True, v=True))
        except EngineRefused as refused:
            # 409: its removal is under way already.
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise

    async def left(self, label: str) -> Sequence[FoundContainer]:
        """All containers with this label, `name=value`."""
        filters = json.dumps({"label": [label]})
        found = await self._answer(self._docker.containers.list(all=1, filters=filters))
        return [FoundContainer(each.id, each["Labels"] or {}) for each in found]

    async def cpu_seconds(self, container: str) -> float | None:
        """The processor time that it has used; None: it does not run."""
        try:
            async with self._asked(f"containers/{container}/stats", {"stream": "0", "one-shot": "1"}) as response:
                found = await response.json(content_type=None)
        except EngineRefused:
            return None
        used = ((found or {}).get("cpu_stats") or {}).get("cpu_usage") or {}
        return float(used.get("total_usage") or 0) / 1e9

    # ------------------------------------------------------------------ streams

    async def log(self, container: str, *, follow: bool) -> AsyncIterator[bytes]:
        """Its output from the begin, stdout and stderr in their order; with `follow` on until it ends. Raises
        `EngineAway` when the connection breaks in the middle."""
        params = {"stdout": "1", "stderr": "1", "follow": str(int(follow))}
        async with self._asked(f"containers/{container}/logs", params, is_long=True) as response:
            while True:
                try:
                    header = await response.content.readexactly(HEADER_BYTES)
                    left = int.from_bytes(header[4:], "big")
                    while left:
                        piece = await response.content.read(min(left, _READ_BYTES))
                        if not piece:
                            raise EngineAway("its log broke off")
                        left -= len(piece)
                        yield piece
                except asyncio.IncompleteReadError as end:
                    if end.partial:
                        raise EngineAway("its log broke off") from None
                    return

    async def file(self, container: str, path: str, most: int) -> bytes | None:
        """The archive that holds this file, up to `most` bytes; None: there is no such file."""
        try:
            async with self._asked(f"containers/{container}/archive", {"path": path}) as response:
                content = bytearray()
                while len(content) < most and (piece := await response.content.read(most - len(content))):
                    content += piece
                return bytes(content)
        except EngineRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise

    @contextlib.asynccontextmanager
    async def _asked(
        self, path: str, params: Mapping[str, str], *, is_long: bool = False
    ) -> AsyncIterator[ClientResponse]:
        if self._docker.api_version == "auto":
            await self._version()
        version = self._docker.api_version
        base = (
            "http://localhost"
            if self.url.startswith("unix:")
            else str(self._docker.docker_host).replace("tcp:", "http:")
        )
        timeout = self._aiohttp.ClientTimeout(total=None if is_long else CALL_SECONDS, sock_connect=10.0)
        try:
            async with self._session.get(f"{base}/{version}/{quote(path)}", params=params, timeout=timeout) as response:
                if response.status >= 400:
                    raise EngineRefused(response.status, (await response.text())[:1_000])
                yield response
        except (self._aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise EngineAway(_words(error)) from error

    async def _answer(self, call: Awaitable[_Answer]) -> _Answer:
        try:
            return await call
        except self._refusal as refused:
            if refused.status == NOT_CONNECTED:
                raise EngineAway(f"{self.url} does not answer") from refused
            raise EngineRefused(refused.status, str(refused.message)) from refused
        except TimeoutError as late:
            raise EngineAway(f"{self.url} gave no answer in time") from late
        except (self._aiohttp.ClientError, OSError) as error:
            raise EngineAway(_words(error)) from error


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
