"""Looks at the syntax of scripts in a process of its own, so that no script can hold up the one that serves requests.

    look ──► queue ──► one thread ──pipe──► compiler_program    ended by the kernel: after CPU_SECONDS of one source
                 └ too many, or too long: "not checked"         refused: more than MEMORY_BYTES

A syntax error told at submit, with its line, is worth much; it is never worth the process. So a source that the
compiler cannot finish within its limits is taken unchecked, with a warning. Invariant: `look` returns within
WAIT_SECONDS, for any source and with any number of others before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

from tickwise.adapters.runner.scripts import compiler_program
from tickwise.domain.errors import Invalid
from tickwise.domain.scripts.coding import source_bytes
from tickwise.ports.runner import ScriptFinding

CPU_SECONDS: Final = 0.5
"""For one source. The compiler takes 0.15 s for a megabyte of ordinary code."""
MEMORY_BYTES: Final = 512 << 20
WAIT_SECONDS: Final = 3.0
"""For all sources of one request, with those of others that are before them."""
MAX_WAITING: Final = 64
"""Requests that wait at once; further ones are not looked at."""
ANSWER_SECONDS: Final = 10.0
"""On the clock of the wall, for a process that was stopped or starved: its processor time would never pass."""

END_SECONDS: Final = 0.5
"""After its socket is closed it ends by itself, unless it is in the midst of a source."""

NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})

_logger = logging.getLogger(__name__)

BUSY: Final = ScriptFinding(unchecked="others are checked at the moment")
TOO_MUCH: Final = ScriptFinding(unchecked=f"compiling it takes more than {CPU_SECONDS:g} s or {MEMORY_BYTES >> 20} MB")
ABSENT: Final = ScriptFinding(unchecked="the process that checks scripts could not be started")


class ScriptChecker:
    """A `ScriptCheck` for one event loop. The process is started with the first source."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="script-check")
        self._compiler: _Compiler | None = None
        self._waiting = 0

    async def look(self, sources: Sequence[str]) -> Sequence[ScriptFinding]:
        """See `ScriptCheck`."""
        found: list[ScriptFinding] = []
        if not sources or self._waiting >= MAX_WAITING:
            return [BUSY for _ in sources]
        self._waiting += 1
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for source in sources:
                    found.append(  # noqa: PERF401  # what is found stays when the time is over
                        await loop.run_in_executor(self._thread, self._look, source)
                    )
        except TimeoutError:
            found += [BUSY] * (len(sources) - len(found))
        finally:
            self._waiting -= 1
        return found

    async def close(self) -> None:
        """See `ScriptCheck`."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)

    # ---------------------------------------------------------------------------------------- in the thread

    def _look(self, source: str) -> ScriptFinding:
        try:
            content = source_bytes(source)
        except Invalid as refused:
            return ScriptFinding(error=refused.detail)
        for _ in range(2):
            if self._compiler is None:
                try:
                    self._compiler = _Compiler()
                except OSError as error:
                    _logger.error("no process for checking scripts: %s", error)
                    return ABSENT
            answer = self._compiler.ask(content)
            if answer is not None:
                return ScriptFinding(error=answer or None)
            if self._end() != 0:
                return TOO_MUCH
            # It ended just before, for want of work: the next one is asked.
        return ABSENT

    def _end(self) -> int | None:
        """The exit status, if it has ended by itself."""
        compiler, self._compiler = self._compiler, None
        return None if compiler is None else compiler.end()


class _Compiler:
    """One process of `compiler_program` and its socket. Blocking. Raises `OSError` if it cannot start."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", compiler_program.__file__, str(CPU_SECONDS), str(MEMORY_BYTES)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=NO_ENVIRONMENT,
                start_new_session=True,
            )

    def ask(self, source: bytes) -> str | None:
        """Its answer; None if it has ended, or does not answer."""
        try:
            self._socket.sendall(len(source).to_bytes(4, "big") + source)
            return self._read(int.from_bytes(self._read(4), "big")).decode()
        except OSError:
            return None

    def _read(self, length: int) -> bytes:
        """Read this number of bytes. Raises `OSError` if they do not come."""
        found = b""
        while len(found) < length:
            piece = self._socket.recv(length - len(found))
            if not piece:
                raise ConnectionResetError
            found += piece
        return found

    def end(self) -> int | None:
        """End it. The exit status, if it has ended by itself."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            status: int = self._process.wait(END_SECONDS)
            return status
        self._process.kill()
        self._process.wait()
        return None
