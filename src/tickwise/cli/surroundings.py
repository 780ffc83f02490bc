"""The surroundings of a script or a command: `--python`, `--dir`, `--env` and the files that travel with it.

    --python  >  packages that it declares  >  its first line  >  the active virtual environment  >  the executor's own
                                    (env python3: the one here)  (if the server is on this machine)

What stands on this machine is named to a server on this machine alone; to another one a path is one of its executors.
"""

from __future__ import annotations

import base64
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import click

from tickwise.cli import work
from tickwise.cli.imported import left_behind, sourced
from tickwise.cli.session import Decorated, Session

NONE: Final = "none"
"""As the value of an option in an edit: take away what the job has."""
KINDS: Final = ("python", "shell")
"""The kinds of tasks that have surroundings."""
OPTIONS: Final = {
    "python": "--python", "start": "--start", "directory": "--dir", "env": "--env", "files": "--file",
}  # fmt: skip
OF_PYTHON: Final = ("python", "start")
"""The fields that only Python scripts have."""
STARTS: Final = ("cold", "warm")
MAX_FILES: Final = 100
MAX_BYTES: Final = 1 << 20
"""The limits of the server, told before anything is read that is larger."""
DECLARING: Final = ("requirements", "lock")
"""The fields of a task that declare packages."""
MARK: Final = "# /// script"
"""The beginning of a header that may declare packages (PEP 723)."""
NAMED: Final = 5
"""Modules that are named in a warning."""
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The options as they were given."""

    python: str | None
    directory: str | None
    env: Sequence[str]
    files: Sequence[str]
    file_option: str
    start: str | None = None

    @property
    def given(self) -> list[str]:
        """The options that say something."""
        said = {name: getattr(self, name) for name in OPTIONS}
        return [self.file_option if name == "files" else OPTIONS[name] for name, value in said.items() if value]


class Chosen(NamedTuple):
    """The interpreter of a script, and who chose it."""

    python: str | None
    """None: the executor's own."""
    why: str


def options(*, editing: bool = False, file_option: str = "--file") -> Callable[[Decorated], Decorated]:
    """The options. `file_option`: the name of the one for files, where `--file` is another's."""
    gone = "  `none` takes away what the job has." if editing else ""
    python_help = "Run the script with this Python: a program, or the folder of a virtual environment."
    if not editing:
        python_help += "  [that of its first line, else the active virtual environment, else the executor's]"
    each = [
        click.option("--python", "task_python", metavar="PATH", help=python_help + gone),
        click.option(
            "--start", "task_start", type=click.Choice([*STARTS, *([NONE] if editing else [])]),
            help="Start a Python script in a fresh interpreter, or fork it from one that is ready.  "
            f"[warm where scripts come often]{gone}",
        ),
        click.option(
            "--dir", "task_directory", metavar="PATH", help=f"Run it in this folder.  [a folder of its own]{gone}"
        ),
        click.option(
            "--env", "task_env", multiple=True, metavar="NAME=VALUE",
            help="Set a variable of its environment; repeat it for more."
            + (" NAME alone takes it away, `none` all of them." if editing else ""),
        ),
        click.option(
            file_option, "task_files", multiple=True, metavar="HELPER",
            help="Send a file, or all files of a folder, along with it: modules that it imports, data that it reads; "
            f"repeat it for more.{gone}",
        ),
    ]  # fmt: skip

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(each):
            command = option(command)
        return command

    return decorate


def taken(options: dict[str, Any], *, file_option: str = "--file") -> Surroundings:
    """The options; they are taken out of the dictionary."""
    return Surroundings(**{name: options.pop(f"task_{name}") for name in OPTIONS}, file_option=file_option)


def of_task(
    session: Session, said: Surroundings, task: dict[str, Any], *, script: work.Script | None = None
) -> dict[str, Any]:
    """The task with these surroundings, in place of those that it has. With a Python script: also the interpreter that
    it has, or that its first line, or the active virtual environment, stands for. Raises `click.UsageError`."""
    if said.given and task.get("kind") not in KINDS:
        belong = "belongs" if len(said.given) == 1 else "belong"
        raise click.UsageError(f"{' and '.join(said.given)} {belong} to scripts and commands, not to this task.")
    for name in OF_PYTHON:
        if getattr(said, name) is not None and task.get("kind") != "python":
            raise click.UsageError(f"{OPTIONS[name]} is for Python scripts.")
    found = dict(task)
    declared = [name for name in DECLARING if name in task]
    if script is not None and script.kind != "python" and declared:
        raise click.UsageError(f"--{declared[0]} belongs to Python scripts, and {script.path} is none.")
    if said.python is not None and declared:
        raise click.UsageError(f"--python and --{declared[0]} exclude each other: a Python has the packages it has.")
    if said.python is None and script is not None and script.kind == "python" and (declared or MARK in script.source):
        session.note("It runs with the packages that it declares.")
    elif script is not None and script.kind == "python":
        chosen = _chosen(session, script, said.python, task.get("python"))
        _put(found, "python", chosen.python)
        named = "the executor's Python" if chosen.python is None else chosen.python
        session.note(f"It runs with {named} ({chosen.why}).")
    elif said.python is not None:
        _put(found, "python", None if said.python == NONE else _python(session, said.python))
    if said.start is not None:
        _put(found, "start", None if said.start == NONE else said.start)
    if said.directory is not None:
        _put(found, "directory", None if said.directory == NONE else _directory(session, said.directory))
    if said.env:
        _put(found, "env", variables(said.env, found.get("env") or {}))
    if said.files:
        base = Path.cwd() if script is None else script.path.absolute().parent
        _put(found, "files", {} if list(said.files) == [NONE] else _files(said, base, found.get("files") or {}))
    if script is not None:
        _tell_left_behind(session, said, script, found)
    for name, option in OPTIONS.items():
        work.blame(session, f"/task/{name}", said.file_option if name == "files" else option)
    return found


def _tell_left_behind(session: Session, said: Surroundings, script: work.Script, task: Mapping[str, Any]) -> None:
    """Say which files beside the script it needs and goes without: else its first run says it, perhaps at night."""
    is_python = script.kind == "python"
    if is_python and "PYTHONPATH" in (task.get("env") or {}):
        return
    folder, files = script.path.absolute().parent, task.get("files") or {}
    left = left_behind(script.source, folder, files) if is_python else sourced(script.source, folder, files)
    if not left or (not is_python and task.get("directory")):
        return
    shown = [os.path.relpath(folder / name) for name in left[:NAMED]]
    options = " ".join(f"{said.file_option} {shlex.quote(name)}" for name in shown)
    more = f", and {len(left) - NAMED} more" if len(left) > NAMED else ""
    they, them, do = ("it", "it", "does") if len(left) == 1 else ("they", "them", "do")
    needs, fails = "imports", f"the import fails unless its Python has {them}"
    if not is_python:
        needs, fails = "reads", f"no run finds {them}"
    session.note(
        f"Warning: {script.path.name} {needs} {', '.join(left[:NAMED])}{more} from its own folder; {they} {do} not "
        f"travel with the job, so {fails}. Let {them} travel: {options}"
    )


def _put(task: dict[str, Any], name: str, value: Any) -> None:
    if value:
        task[name] = value
    else:
        task.pop(name, None)


def is_local(session: Session) -> bool:
    """Check whether the server is on this machine, by its address."""
    host = urlsplit(session.target.url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


# ---------------------------------------------------------------------------------------- the interpreter


def _chosen(session: Session, script: work.Script, named: str | None, before: str | None) -> Chosen:
    """`before`: the interpreter of the job that the script is for."""
    if named == NONE:
        return Chosen(None, "--python")
    if named is not None:
        return Chosen(_python(session, named), "--python")
    if before is not None:
        return Chosen(before, "as before; --python names another one, or none")
    program = script.interpreter[0] if script.interpreter else ""
    if Path(program).name.startswith(("python", "pypy")):
        first = f"the first line of {script.path.name}"
        if script.by_env and is_local(session):
            found = shutil.which(program, path=session.environ.get("PATH"))
            if found is None:
                raise click.UsageError(f"{first} names {program}, which is not on your PATH; name one: --python PATH")
            return Chosen(os.path.abspath(found), first)
        if not script.by_env and program.startswith("/"):
            if is_local(session) and not os.path.exists(program):
                raise click.UsageError(f"{first} names {program}, which is not there; name one: --python PATH")
            return Chosen(program, first)
    active = session.environ.get("VIRTUAL_ENV")
    if active and is_local(session):
        python = Path(active).absolute() / "bin" / "python"
        if python.exists():
            return Chosen(str(python), "your active virtual environment")
        session.note(f"Your active virtual environment, {active}, is not there any more; it is passed over.")
    return Chosen(None, "name another one with --python")


def _python(session: Session, named: str) -> str:
    if not is_local(session):
        if "/" in named and not named.startswith("/"):
            raise click.UsageError(
                f"--python {named!r}: the server is elsewhere; give the whole path on its executors."
            )
        return named
    if "/" not in named and not Path(named).exists():
        found = shutil.which(named)
        if found is None:
            raise click.UsageError(f"--python {named!r}: there is no such program on your PATH, and no such folder.")
        return os.path.abspath(found)
    path = Path(named).expanduser().absolute()
    if path.is_dir():
        inner = path / "bin" / "python"
        if not inner.exists():
            raise click.UsageError(f"--python {named!r} is a folder without bin/python, so no virtual environment.")
        return str(inner)
    if not path.exists():
        raise click.UsageError(f"--python {named!r}: there is no such file.")
    return str(path)


def _directory(session: Session, named: str) -> str:
    path = Path(named).expanduser()
    if is_local(session):
        if not path.is_dir():
            raise click.UsageError(f"--dir {named!r}: there is no such folder.")
        return str(path.absolute())
    if not path.is_absolute():
        raise click.UsageError(f"--dir {named!r}: the server is elsewhere; give the whole path on its executors.")
    return str(path)


# ---------------------------------------------------------------------------------------- variables and files


def variables(given: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """`before`: the variables that the job has, which stay."""
    if list(given) == [NONE]:
        return {}
    found = dict(before)
    for each in given:
        name, sign, value = each.partition("=")
        if sign and name:
            found[name] = value
        elif name in before:
            found.pop(name, None)
        else:
            # What has no `=` may be a secret alone: it is not repeated.
            raise click.UsageError("--env: write NAME=VALUE")
    return found


def _files(said: Surroundings, base: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """The contents by their names in the task's folder: from `base` on for what lies below it, else the last name."""
    found, size = dict(before), 0
    for given in said.files:
        for path in _walk(Path(given), said.file_option):
            whole = path.absolute()
            name = whole.relative_to(base).as_posix() if whole.is_relative_to(base) else _outside(path, Path(given))
            try:
                size += path.stat().st_size
                if size > MAX_BYTES or len(found) >= MAX_FILES:
                    raise click.UsageError(
                        f"{said.file_option} {given!r}: a task takes up to {MAX_FILES} files and {MAX_BYTES >> 20} MB "
                        "with it. Lay larger things on the executors, and name their folder with --dir."
                    )
                found[name] = _content(path.read_bytes())
            except OSError as error:
                raise click.UsageError(f"{said.file_option} {str(path)!r} cannot be read: {error.strerror}.") from None
    return found


def _outside(path: Path, given: Path) -> str:
    """The name of a file that lies elsewhere: with its folders, if a folder was given."""
    return path.name if path == given else (Path(given.absolute().name) / path.relative_to(given)).as_posix()


def _walk(given: Path, option: str) -> Iterator[Path]:
    if not given.exists():
        raise click.UsageError(f"{option} {str(given)!r}: there is no such file.")
    if not given.is_dir():
        if not given.is_file():
            raise click.UsageError(f"{option} {str(given)!r} is no plain file.")
        yield given
        return
    for place, folders, names in os.walk(given):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _LEFT_OUT and not name.startswith(".") and not (Path(place) / name / "pyvenv.cfg").exists()
        )
        yield from (
            Path(place) / name for name in sorted(names) if not name.startswith(".") and (Path(place) / name).is_file()
        )


def _content(content: bytes) -> Any:
    """A text as it is, anything else as base64."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
