"""A way to a container engine that does something at one call to it, before the engine hears of it or after it did it;
or that answers some calls itself, with an answer that never ends.

client ──► proxy ──► engine
             └── the request line matches ──► `act`, once; or the begin of an answer
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple


class EngineStep(NamedTuple):
    """One call to the engine."""

    call: str
    """A pattern of `METHOD path`, without the version of the API."""
    is_done: bool
    """The engine has done it; else it never hears of it."""


class EngineProxy:
    """One proxy."""

    def __init__(self, engine: Path, step: EngineStep, act: Callable[[], None], answer: bytes = b"") -> None:
        """`answer`: the proxy's own to each such call, in place of what `act` does; it never ends."""
        self._answer = answer
        self._engine = engine
        self._step = step
        self._call = re.compile(rf"(?m)^{step.call}".replace(" ", r" (?:/v[0-9.]+)?", 1).encode())
        self._act = act
        self.acted = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[str]:
        """Its address, while it serves."""
        server = await asyncio.start_unix_server(self._serve, str(socket))
        try:
            yield f"unix://{socket}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, asyncio.CancelledError):
            return  # the server of asyncio takes no cancelled task
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_engine, to_engine = await asyncio.open_unix_connection(str(self._engine))
        awaited = asyncio.Event()
        back = asyncio.create_task(self._back(from_engine, writer, awaited))
        try:
            while piece := await reader.read(65_536):
                if self._answer and self._call.search(piece):
                    self.acted.set()
                    writer.write(self._answer)
                    await reader.read()  # until the client hangs up
                    return
                if not self.acted.is_set() and self._call.search(piece):
                    if not self._step.is_done:
                        self._do()
                        return
                    awaited.set()
                to_engine.write(piece)
                await to_engine.drain()
            to_engine.write_eof()
            await back
        finally:
            back.cancel()
            to_engine.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, awaited: asyncio.Event) -> None:
        while piece := await reader.read(65_536):
            if awaited.is_set() and not self.acted.is_set():
                self._do()
                return
            writer.write(piece)
            await writer.drain()
        writer.close()

    def _do(self) -> None:
        self.acted.set()
        self._act()
