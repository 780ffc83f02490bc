"""Compiles scripts for the API and reports the errors of each: `compiler_program.py CPU_SECONDS MEMORY_BYTES`.

    in   length (4 bytes), the source
    out  length (4 bytes), why it does not compile; nothing if it does

It stands alone, without `site` and without a package: it is started in 12 ms and holds nothing of the process that
started it. The kernel ends it when one source takes more than CPU_SECONDS, and the compiler is refused memory over
MEMORY_BYTES. Nothing of a script is ever executed. Without work for a minute it ends.
"""

import os
import resource
import select
import signal
import sys
import warnings

IDLE_SECONDS = 60.0
NICENESS = 10
"""It shall not take the processor from the process that serves requests."""


def complaint(source: bytes) -> str:
    """The reason why the source does not compile; empty: it does."""
    try:
        compile(source, "task.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f" (line {error.lineno}, column {error.offset})" if error.lineno is not None else ""
        return f"{error.msg}{place}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return str(error) or "it is nested too deeply"
    return ""


def _read(length: int) -> bytes:
    content = sys.stdin.buffer.read(length)
    if len(content) < length:
        raise EOFError
    return content


def _serve(cpu_seconds: float, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    stdout = sys.stdout.buffer
    while select.select([0], [], [], IDLE_SECONDS)[0]:
        source = _read(int.from_bytes(_read(4), "big"))
        # Its default is the end of the process, in the midst of the compiler too.
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        answer = complaint(source).encode(errors="replace")
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        stdout.write(len(answer).to_bytes(4, "big") + answer)
        stdout.flush()


if __name__ == "__main__":
    try:
        _serve(float(sys.argv[1]), int(sys.argv[2]))
    except (EOFError, BrokenPipeError):
        sys.exit(0)
