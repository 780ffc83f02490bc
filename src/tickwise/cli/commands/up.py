"""`tickwise up`, `down` and `open`: the whole of Tickwise on this machine, and its pages.

In the foreground `up` is the product's own process. In the background it is the same process, started apart from
this terminal; its data folder holds what both commands need to find it:

    <data dir>/client.json     address, key and pid, written by the running `up`, gone after a clean stop
    <data dir>/log/up.log      what it prints
    <data dir>/installation    which installation used it last: another one that goes on with its jobs is told
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tickwise.cli import moments
from tickwise.cli.arguments import secret_option
from tickwise.cli.connection import CLIENT_FILE, Local, default_data_dir, read_local
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.session import Session, data_dir_option, json_option, view_options

if TYPE_CHECKING:
    from tickwise.cli.local.boot_service import BootService
    from tickwise.cli.local.restart import SettingsAgain
    from tickwise.config import Settings

_MAX_READY_SECONDS: Final = 120.0
"""A first start makes a database; a slow disk may take most of a minute for that."""
_MAX_STOP_SECONDS: Final = 90.0
"""Longer than `up` gives running tasks before it stops them (`drain_seconds`), by default."""
_LOOK_SECONDS: Final = 0.1
INSTALLATION_FILE: Final = "installation"
FUNCTION_MODULES: Final = "TICKWISE_FUNCTION_MODULES"
_LAST_LINES: Final = 15


def _folder(session: Session) -> Path:
    if session.data_dir:
        return Path(session.data_dir).expanduser().absolute()
    return default_data_dir(session.environ)


@click.command()
@data_dir_option
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the API; 0 takes a free one.  [8470]")
@click.option("--host", help="Address that the API listens on.  [127.0.0.1]")
@click.option(
    "--database", metavar="URL", callback=secret_option, help="Use this PostgreSQL instead of an embedded one."
)
@click.option(
    "--store",
    type=click.Choice(["postgresql", "file"]),
    help="The store of the data: an embedded PostgreSQL, or a log in the data folder, for small installations.  "
    "[what the data folder has; postgresql]",
)
@click.option("--queues", metavar="NAMES", help="The queues that it serves, with commas between.  [default]")
@click.option("--background", is_flag=True, help="Start it in the background, and return when it is ready.")
@click.option("--install-service", is_flag=True, help="Start it at boot: write a systemd unit, and enable it.")
@click.option("--remove-service", is_flag=True, help="Remove the systemd unit; the data stays.")
@json_option
@click.pass_obj
def up(
    session: Session, port: int | None, host: str | None, database: str | None, store: str | None,
    queues: str | None, background: bool,
    install_service: bool, remove_service: bool,
) -> int:  # fmt: skip
    """Run everything on this machine: API, scheduler, executor, database.

    In the foreground until Ctrl-C, unless --background is given. The data stays in the data folder. --background
    restarts one that runs in the background with earlier code.

    --install-service makes a service of the system for root, and a user service for others.
    """
    from tickwise import config

    if install_service + remove_service + background > 1:
        raise click.UsageError("--background, --install-service and --remove-service exclude each other.")
    flags = {"data_dir": session.data_dir, "port": port, "host": host, "database_url": database, "queues": queues}
    said = {"--port": port, "--host": host, "--queues": queues}
    # Also for the background: what is wrong is said here, not in a log file.
    settings = config.load(session.environ, flags)
    if (address := _file_store(session, settings, store, is_given=database is not None)) is not None:
        database = flags["database_url"] = address
        settings = config.load(session.environ, flags)
    local = running_up(settings.data_dir)
    here = Path(sys.prefix)
    if install_service or remove_service:
        if database is not None:
            raise click.UsageError(
                "a systemd unit must not hold a secret: write database_url into secrets.toml, and leave --database out."
            )
        options = None if remove_service else said
        return _change_service(session, settings, options, local)
    tell_sharing(session, settings.data_dir, here, runs=local is not None)
    if not background:
        if local is not None:
            raise CommandFailure(
                f"Tickwise runs on {settings.data_dir} already: {local.url}, process {local.pid}.", Exit.MISCONFIGURED,
                advice="Use that one, stop it with `tickwise down`, or choose another --data-dir and --port.",
            )  # fmt: skip
        from tickwise.wiring import processes

        code = processes.run_up(settings)
        note_installation(settings.data_dir, here)
        return code
    return _up_in_background(session, settings, said, database, local=local)


def _file_store(session: Session, settings: Settings, store: str | None, *, is_given: bool) -> str | None:
    """The address of the file store in the data folder, if it is asked for, or is there and nothing else is."""
    from tickwise.wiring.storage import file_store

    if store is not None and settings.database_url is not None:
        by = "--database" if is_given else "the setting database_url"
        raise click.UsageError(f"--store and {by} exclude each other.")
    if settings.database_url is not None:
        return None
    has_log = file_store.is_used(settings.data_dir)
    _check_store(settings.data_dir, store, has_log=has_log)
    if store == "postgresql" or (store is None and not has_log):
        return None
    session.note(f"The store is a log in {settings.data_dir / file_store.FOLDER}: {file_store.LIMITS}.")
    return file_store.address_in(settings.data_dir)


def _check_store(data_dir: Path, store: str | None, *, has_log: bool) -> None:
    """Refuse another store than the one that the data folder has: it would begin empty, and the jobs would seem lost.
    Raises `CommandFailure`."""
    from tickwise.wiring.storage import file_store

    if store == "postgresql" and has_log:
        has, beside = "a file store", "store"
    elif store == "file" and not has_log and file_store.has_postgresql(data_dir):
        has, beside = "a PostgreSQL of its own", "postgres"
    else:
        return
    raise CommandFailure(
        f"the data folder {data_dir} has {has} ({data_dir / beside}); --store {store} would begin without its jobs.",
        Exit.MISCONFIGURED,
        advice=f"Leave --store out to go on with {has}, or choose another folder: --data-dir.",
    )


def _up_in_background(
    session: Session, settings: Settings, options: dict[str, Any], database: str | None, *, local: Local | None
) -> int:
    """Start an `up` apart from this terminal, unless `local`, the one that runs, runs this code."""
    from tickwise.cli.local import restart

    here, variables, cwd = Path(sys.prefix), dict[str, str](), Path("/")
    if local is not None:
        from tickwise.wiring.installation.build import build_of

        theirs = _installation(settings.data_dir) or _installation_of(local)
        why = restart.outdated(local, theirs, here, build_of())
        if why is None:
            _show_local(session, local, settings.data_dir, "Tickwise is up already.")
            if (apart := restart.settings_apart(local, settings)) is not None:
                session.note(f"{apart} To change them: `tickwise down`, then this command again.")
            return Exit.OK
        session.note(f"Tickwise is up already. {why} It is restarted, at its address and on its data.")
        if (service := _service(session, settings)).is_live and service.is_installed() and service.is_active():
            service.call("restart", service.name)
            return Exit.OK
        options = restart.options_again(local, options)
        database = restart.database_again(local, database, settings.database_url, settings.data_dir.absolute())
        again = restart.settings_again(local, settings)
        _tell_settings(session, again)
        variables.update(again.variables)
        cwd = _folder_of_functions(session, settings, variables, local)
        _end(session, settings.data_dir, local)
    # Functions are looked for beside the caller, as in the foreground. Else no folder is held.
    elif settings.function_modules:
        cwd = Path.cwd()
    try:
        started = _start(settings.data_dir, options, database, variables=variables, cwd=cwd)
    except CommandFailure as failure:
        if local is None:
            raise
        command = restart.start_again(
            options, variables, cwd, settings.data_dir.absolute(), has_database=database is not None
        )
        told = f"{failure.advice}\nThe one before has ended. This starts the next one with its settings:\n  {command}"
        raise CommandFailure(failure.detail, failure.code, advice=told) from None
    note_installation(settings.data_dir, here)
    _show_local(session, started, settings.data_dir, "Tickwise is up.")
    return Exit.OK


def _folder_of_functions(session: Session, settings: Settings, variables: dict[str, str], local: Local) -> Path:
    """The folder in which the next one is started: that of the one before (`local`), unless this call names the modules
    of functions itself. Adds the PYTHONPATH of the one before to `variables`. Raises `CommandFailure` if the modules
    cannot be loaded: then the one before goes on."""
    from tickwise import config
    from tickwise.cli.local import restart
    from tickwise.wiring.installation.functions import loading_problems

    modules = config.load({**session.environ, **variables}, {"data_dir": session.data_dir}).function_modules
    if not modules:
        return Path("/")
    folder, process = Path.cwd(), _process(local)
    is_given = settings.origins.get("function_modules") == FUNCTION_MODULES
    place = None if is_given or process is None else restart.place_again(process, session.environ)
    if place is not None:
        folder = place.folder
        variables.update(place.variables)
    problems = loading_problems(modules, folder, {**session.environ, **variables})
    if problems is not None:
        raise CommandFailure(
            f"the next one could not load its functions, so the one that runs goes on: {problems}", Exit.MISCONFIGURED,
            advice=f"Mend them, or name others by {FUNCTION_MODULES}; then call this again.",
        )  # fmt: skip
    session.note(f"Its functions ({', '.join(modules)}) are looked for in {folder}.")
    return folder


def _tell_settings(session: Session, again: SettingsAgain) -> None:
    """Say which settings of the one before the next one has, and which not."""
    if again.variables:
        kept = " ".join(f"{name}={shlex.quote(value)}" for name, value in again.variables.items())
        session.note(f"It keeps its settings: {kept}")
    if again.lost:
        session.note(
            f"These settings of the one before are not known here, and are not kept: {', '.join(again.lost)}. Give "
            "them, and start it again."
        )


def tell_sharing(session: Session, data_dir: Path, here: Path, *, runs: bool) -> None:
    """Say if the data folder was last used by another installation than this one, such as that of another checkout."""
    before = _installation(data_dir)
    if before is not None and before != here:
        session.note(
            f"The data folder {data_dir} {'is in use by' if runs else 'was last used by'} another installation, in "
            f"{before}: its jobs, keys and history are shared. For a folder of its own: --data-dir DIR --port N, "
            "or make up DATA_DIR=… PORT=…"
        )


def _installation(data_dir: Path) -> Path | None:
    """The installation that used the data folder last, by its note there."""
    try:
        before = (data_dir / INSTALLATION_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(before) if before else None


def _installation_of(local: Local) -> Path | None:
    """The installation whose program runs as this `up`: releases before this one left no note."""
    process = _process(local)
    program = Path(process.cmdline()[0]) if process is not None else Path()
    return program.parent.parent if program.is_absolute() else None


def _service(session: Session, settings: Settings) -> BootService:
    """The service of this data folder, whether it is installed or not."""
    from tickwise.cli.local.boot_service import BootService
    from tickwise.config import default_data_dir as usual_dir

    data_dir = settings.data_dir.absolute()
    return BootService.of(data_dir, session.environ, is_usual=data_dir == usual_dir().absolute())


def _change_service(session: Session, settings: Settings, options: dict[str, Any] | None, local: Local | None) -> int:
    """Install the service with these options of its command, or remove it (None). `local`: the `up` that runs."""
    from tickwise.cli.local import service
    from tickwise.cli.local.restart import not_given_again

    unit = _service(session, settings)
    if options is None:
        service.remove(session, unit)
        return Exit.OK
    missing = [] if local is None else not_given_again(local, options, settings)
    service.install(session, unit, settings, options, runs=local is not None, missing=missing)
    return Exit.OK


def note_installation(data_dir: Path, here: Path) -> None:
    """Note in the data folder, which is there, that this installation used it."""
    with suppress(OSError):  # it only helps to tell later
        (data_dir / INSTALLATION_FILE).write_text(f"{here}\n", encoding="utf-8")


def _show_local(session: Session, local: Local, data_dir: Path, first: str) -> None:
    if session.as_json:
        facts: dict[str, Any] = {
            "url": local.url,
            "data_dir": str(data_dir),
            "log": str(_log(data_dir)),
            "pid": local.pid,
        }
        session.show_json(facts)
        return
    session.say(first)
    session.say(f"  address      {local.url}")
    session.say(f"  pages        {_pages(local)}")
    session.say(f"  data folder  {data_dir}")
    session.say(f"  log file     {_log(data_dir)}")
    session.say(f"  process      {local.pid}")
    session.say(f"  admin key    in {data_dir / CLIENT_FILE}; the command line finds it by itself")


def _pages(local: Local) -> str:
    """The way to the pages: on a terminal a link, which is a secret for as long as it works."""
    from tickwise.sdk.client import Client, ClientError, ServerTrust

    if not sys.stdout.isatty():
        return "tickwise open"
    try:
        with Client(local.url, local.key, trust=ServerTrust(local.ca_file, local.server_name)) as client:
            link = client.session_link()
    except ClientError as refusal:
        return f"not open from here: {refusal}"
    return f"{local.url}{link['link']} (signs in once, within {link['expires_in'] // 60} minutes; then: tickwise open)"


def _log(data_dir: Path) -> Path:
    return data_dir / "log" / "up.log"


def running_up(data_dir: Path) -> Local | None:
    """The `up` that runs on this data folder, if the process that wrote its file is alive and is an `up`."""
    local = read_local(data_dir)
    return local if local is not None and _process(local) is not None else None


def _process(local: Local) -> Any:
    """The process of this `up`, None if it is gone: its number may belong to another one by now."""
    import psutil

    try:
        process = psutil.Process(local.pid)
        words = process.cmdline()
        alive = process.status() != psutil.STATUS_ZOMBIE
        # It wrote the file, so it is older than it; a second, because both clocks are coarse.
        older = process.create_time() <= local.written_at + 1.0
    except (psutil.Error, ValueError):
        return None
    ours = "up" in words and any("tickwise" in word for word in words)
    return process if alive and older and ours else None


def _start(
    data_dir: Path, options: dict[str, Any], database: str | None, *, variables: Mapping[str, str], cwd: Path
) -> Local:
    """Start a detached `up` and wait until it serves. `variables`: beside those of this process. Raises
    `CommandFailure` with its last words if it does not."""
    from tickwise.observability.output_file import VARIABLE

    log = _log(data_dir)
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Only for this user: it names jobs and their errors.
        output = os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    except OSError as error:
        raise CommandFailure(
            f"{log.parent} cannot be written: {error.strerror}.",
            Exit.MISCONFIGURED,
            advice="Choose another: --data-dir.",
        ) from None
    command = [sys.executable, "-m", "tickwise", "up", "--data-dir", str(data_dir)]
    for option, value in options.items():
        if value is not None:
            command += [option, str(value)]
    with output:
        begin = output.seek(0, os.SEEK_END)
        # A session of its own: neither this terminal's Ctrl-C nor its end reaches it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=cwd,
            # Not as an option: all users of the machine may read options.
            env={
                **os.environ,
                **variables,
                VARIABLE: str(log),
                **({} if database is None else {"TICKWISE_DATABASE_URL": database}),
            },
        )
    return _await_ready(process, data_dir, begin)


def _await_ready(process: subprocess.Popen[bytes], data_dir: Path, log_begin: int) -> Local:
    from tickwise.sdk.client import Client, ServerTrust

    until = moments.monotonic() + _MAX_READY_SECONDS
    while moments.monotonic() < until:
        local = read_local(data_dir)
        if local is not None and local.pid == process.pid:
            with Client(local.url, local.key, trust=ServerTrust(local.ca_file, local.server_name)) as client:
                if client.ready():
                    return local
        if process.poll() is not None:
            raise CommandFailure(
                "it did not start; its last words were:", Exit.MISCONFIGURED, advice=_last_words(data_dir, log_begin)
            )
        moments.pause(_LOOK_SECONDS)
    process.terminate()
    raise CommandFailure(
        f"it was not ready after {_MAX_READY_SECONDS:.0f} s, and was stopped; its last words were:",
        Exit.MISCONFIGURED, advice=_last_words(data_dir, log_begin),
    )  # fmt: skip


def _last_words(data_dir: Path, log_begin: int) -> str:
    """The end of what this start has written."""
    with _log(data_dir).open("rb") as log:
        log.seek(log_begin)
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:]) or f"  (nothing; see {_log(data_dir)})"


@click.command()
@data_dir_option
@json_option
@click.pass_obj
def down(session: Session) -> None:
    """Stop the server that `up --background` started; the data stays.

    Waits until it has ended; running tasks are waited for first.
    """
    data_dir = _folder(session)
    local = running_up(data_dir)
    if local is None:
        _stopped(session, data_dir, f"Nothing runs on {data_dir}.", None)
        return
    _end(session, data_dir, local)
    _stopped(session, data_dir, "Tickwise is stopped; the data stays.", local.pid)


def _end(session: Session, data_dir: Path, local: Local) -> None:
    """Stop this `up`, and wait until it has ended. Raises `CommandFailure`."""
    import psutil

    session.note(
        f"Waiting for process {local.pid} to end: running tasks have until `drain_seconds` is over (30 s by default), "
        "then they are stopped …"
    )
    try:
        process = psutil.Process(local.pid)
        process.terminate()
        process.wait(_MAX_STOP_SECONDS)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        raise CommandFailure(
            f"process {local.pid} belongs to another user.", Exit.REFUSED, advice="Stop it as the user who started it."
        ) from None
    except psutil.TimeoutExpired:
        raise CommandFailure(
            f"process {local.pid} was asked to stop and still runs after {_MAX_STOP_SECONDS:.0f} s.",
            Exit.MISCONFIGURED,
            advice=f"It may be waiting for running tasks; see {_log(data_dir)}. Call `tickwise down` again to wait on.",
        ) from None


def _stopped(session: Session, data_dir: Path, text: str, pid: int | None) -> None:
    if session.as_json:
        session.show_json({"data_dir": str(data_dir), "stopped": pid})
    else:
        session.say(text)


@click.command("open")
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@view_options
@click.pass_obj
def open_pages(session: Session, print_only: bool) -> None:
    """Open the pages in a browser of this machine, signed in.

    Signed in with the key of the command line. The link works once, for some minutes, on the machine of the server.
    Elsewhere sign in at /login.
    """
    link: dict[str, Any] = session.client.session_link()
    url = session.client.url + link["link"]
    if session.as_json:
        session.show_json({"url": url, "expires_in": link["expires_in"]})
        return
    if print_only:
        session.say(url)
        return
    import webbrowser

    if not webbrowser.open(url):
        raise CommandFailure(
            "no browser could be started.",
            Exit.REFUSED,
            advice=f"Open this link within {link['expires_in'] // 60} minutes; it works once: {url}",
        )
    session.say("The pages are open in your browser.")
