"""The API of a container engine, with our errors: Docker's Engine, and podman with Docker's API.

    connection refused, reset, cut off, no answer   EngineAway     wait, then ask again
    an answer of the 4xx and 5xx classes            EngineRefused  `status` and the engine's words

aiodocker speaks to it. Two calls go through its session directly, because its own read an archive whole into memory,
and cannot tell the end of a log from a broken connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from tickwise.domain.errors import Misconfigured

if TYPE_CHECKING:
    from aiodocker import Docker
    from aiodocker.stream import Stream
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
    labels: Mapping[str, str]


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
    """A container, its name and its marks."""

    container_id: str
    name: str
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
        info = await self.answer(self._docker.system.info())
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
        return await self.answer(self._docker.version())

    # ------------------------------------------------------------------ images

    async def image(self, name: str) -> ImageFacts | None:
        """The image of this name or number; None: it is not there."""
        try:
            found = await self.answer(self._docker.images.inspect(name))
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
            labels=config.get("Labels") or {},
        )

    async def pull(self, name: str, auth: Mapping[str, str] | None, seconds: float) -> None:
        """Fetch an image from its registry. Raises `TimeoutError`."""

        async def pulled() -> None:
            stream = self._docker.images.pull(name, auth=dict(auth) if auth else None, stream=True, timeout=None)
            async for _progress in stream:
                pass

        async with asyncio.timeout(seconds):
            await self.answer(pulled())

    async def commit(self, container: str, name: str, labels: Mapping[str, str]) -> str:
        """Make an image of a container that never ran, with this name and tag; its number."""
        repository, _, tag = name.rpartition(":")
        call = self._docker.containers.container(container).commit(
            repository=repository, tag=tag, config={"Labels": dict(labels)}, pause=False
        )
        return str((await self.answer(call))["Id"])

    async def remove_image(self, image_id: str) -> None:
        """Remove an image, and not the one that it was made from. One in use stays, one that is gone is no fault."""
        try:
            await self.answer(self._docker.images.delete(image_id, noprune=True))
        except EngineRefused as refused:
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise

    # ------------------------------------------------------------------ containers

    async def create(self, name: str | None, config: Mapping[str, Any]) -> str:
        """Make a container; its number. Without a name the engine gives it one."""
        made = await self.answer(self._docker.containers.create(dict(config), name=name))
        return made.id

    async def put(self, container: str, folder: str, archive: bytes) -> None:
        """Unpack an archive into a folder of the container."""
        target = self._docker.containers.container(container)
        await self.answer(target.put_archive(folder, archive))  # type: ignore[no-untyped-call]  # aiodocker has no types here

    async def start(self, container: str) -> None:
        """Start it."""
        await self.answer(self._docker.containers.container(container).start())

    async def kill(self, container: str, signal: str) -> None:
        """Send it a signal. One that does not run is left alone."""
        try:
            await self.answer(self._docker.containers.container(container).kill(signal=signal))
        except EngineRefused as refused:
            if refused.status not in (NOT_FOUND, CONFLICT) and "only kill running" not in refused.message:  # podman
                raise

    async def wait(self, container: str) -> None:
        """Return when it does not run."""
        await self.answer(self._docker.containers.container(container).wait(timeout=None))

    async def state(self, container: str) -> ContainerState | None:
        """Its state; None: it is not there."""
        try:
            found = await self.answer(self._docker.containers.container(container).show())
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

    async def rename(self, container: str, name: str) -> None:
        """Give it another name."""
        await self.answer(self._docker.containers.container(container).rename(name))

    async def attach_input(self, container: str) -> ContainerInput:
        """A connection to its standard input, for one that was made with it. It may be started after that."""
        stream = self._docker.containers.container(container).attach(stdin=True)
        await self.answer(stream.__aenter__())
        return ContainerInput(self, stream)

    async def remove(self, container: str) -> None:
        """Remove it with its own folders, killed if it runs. One that is not there is no fault."""
        try:
            await self.answer(self._docker.containers.container(container).delete(force=True, v=True))
        except EngineRefused as refused:
            # 409: its removal is under way already.
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise

    async def labelled(self, label: str) -> Sequence[FoundContainer]:
        """All containers with this label, `name=value`."""
        return await self._listed({"label": [label]})

    async def named(self, part: str) -> Sequence[FoundContainer]:
        """All containers with this in their names."""
        return await self._listed({"name": [part]})

    async def _listed(self, filters: Mapping[str, Sequence[str]]) -> Sequence[FoundContainer]:
        found = await self.answer(self._docker.containers.list(all=1, filters=json.dumps(filters)))
        return [
            FoundContainer(each.id, str((each["Names"] or [""])[0]).removeprefix("/"), each["Labels"] or {})
            for each in found
        ]

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

    async def changed(self, container: str, path: str) -> str | None:
        """The time of the last change of a file or folder of the container, as the engine writes it; None: there is no
        such file."""
        try:
            async with self._asked(f"containers/{container}/archive", {"path": path}, method="HEAD") as response:
                said = json.loads(base64.b64decode(response.headers.get("X-Docker-Container-Path-Stat", "")))
                return str(said["mtime"])
        except EngineRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise

    async def archive(self, container: str, path: str) -> AsyncIterator[bytes]:
        """The pieces of the archive of a folder."""
        async with self._asked(f"containers/{container}/archive", {"path": path}, is_long=True) as response:
            while piece := await response.content.read(_READ_BYTES):
                yield piece

    @contextlib.asynccontextmanager
    async def _asked(
        self, path: str, params: Mapping[str, str], *, is_long: bool = False, method: str = "GET"
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
            url = f"{base}/{version}/{quote(path)}"
            async with self._session.request(method, url, params=params, timeout=timeout) as response:
                if response.status >= 400:
                    raise EngineRefused(response.status, (await response.text())[:1_000])
                yield response
        except (self._aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise EngineAway(_words(error)) from error

    async def answer(self, call: Awaitable[_Answer]) -> _Answer:
        """The answer to a call of the library, with our errors."""
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


class ContainerInput:
    """The standard input of one container."""

    def __init__(self, engine: Engine, stream: Stream) -> None:
        self._engine = engine
        self._stream = stream

    async def say(self, content: bytes) -> None:
        """Write it, and end the input. A container that does not read lets this wait."""
        try:
            await self._engine.answer(self._stream.write_in(content))
        finally:
            await self.close()

    async def close(self) -> None:
        """End the input."""
        with contextlib.suppress(OSError):
            await self._stream.close()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
