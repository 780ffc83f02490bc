"""`python -m bench.costs.sampled FILE executor …`: a role that notes, each millisecond of its CPU, where it is.

What counts is the innermost function of the product on the stack: what a library or the interpreter does is done for
its caller. SIGUSR1 begins anew; the counts are written to FILE at the end, {function: samples}. Its workers are not
watched. A sample costs about 5 us, half a percent.
"""

from __future__ import annotations

import atexit
import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

INTERVAL_SECONDS = 0.001
_PRODUCT = "/tickwise/"

_counts: Counter[CodeType | None] = Counter()


def _sample(_number: int, frame: FrameType | None) -> None:
    while frame is not None and _PRODUCT not in frame.f_code.co_filename:
        frame = frame.f_back
    _counts[None if frame is None else frame.f_code] += 1


def _write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    found: Counter[str] = Counter()
    for code, count in _counts.items():
        found["the event loop" if code is None else name_of(code.co_filename, code.co_qualname)] += count
    file.write_text(json.dumps(found.most_common()))


def name_of(path: str, function: str) -> str:
    """`roles.executor.admission: Admission.take`, of the file and the name of a function of the product."""
    module = path.rsplit(_PRODUCT, 1)[1].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}: {function.replace('<locals>.', '')}"


def main() -> None:
    """Watch the role that the rest of the command line names."""
    atexit.register(_write, Path(sys.argv[1]))
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGUSR1, lambda *_: _counts.clear())
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    sys.argv = ["tickwise", *sys.argv[2:]]
    runpy.run_module("tickwise", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
