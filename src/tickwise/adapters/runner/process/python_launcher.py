"""Runs a task's script as Python itself would, and notes the exception that ended it:
`python_launcher.py SCRIPT SYMPTOMS`.

The names go into the file SYMPTOMS, the class's own first, one a line. Nobody needs to read the
output for them, and the traceback looks as if this were not here. It stands alone: it runs in the task's process, so it
imports nothing that the script may want to find unimported. It costs 2 ms, most of them for the first `compile`; so
only scripts whose jobs ask for names are run by it.
"""

import sys

TYPE_CHECKING = False  # that of `typing`, whose import would take longer than most scripts
if TYPE_CHECKING:
    from types import TracebackType

SYMPTOMS_FILE = "symptoms"
MAX_CLASSES = 16
"""Of how many bases an exception is told."""
MAX_NAME_CHARACTERS = 200


def exception_names(kind: type[BaseException]) -> list[str]:
    """Its own name, then those of its bases, each qualified and short; bounded."""
    names: list[str] = []
    for base in kind.__mro__[:MAX_CLASSES]:
        if base is not object:
            names += [f"{base.__module__}.{base.__qualname__}", base.__name__]
    return [name[:MAX_NAME_CHARACTERS] for name in names]


def _launch() -> None:
    script, symptoms = sys.argv[1:3]
    folder = script.rpartition("/")[0]

    def ended_by(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
        try:
            with open(symptoms, "w", encoding="utf-8", errors="replace") as file:
                file.write("\n".join(exception_names(kind)))
        except Exception:  # noqa: BLE001  # it is a note beside the exception, which matters more
            pass
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    with open(script, "rb") as file:
        source = file.read()
    sys.argv[:] = [script]
    sys.path[0] = folder
    sys.excepthook = ended_by
    # A module of its own, so that the script finds none of our names.
    main = type(sys)("__main__")
    main.__dict__.update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    exec(compile(source, script, "exec", dont_inherit=True), main.__dict__)


if __name__ == "__main__":
    _launch()
