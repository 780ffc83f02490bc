"""The actions of `tickwise up --install-service` and `--remove-service`, and what they tell of them."""

from __future__ import annotations

import getpass
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwise.cli.local.boot_service import BootService, carried, unit_text
from tickwise.cli.session import Session

if TYPE_CHECKING:
    from tickwise.config import Settings


def install(
    session: Session,
    service: BootService,
    settings: Settings,
    flags: Mapping[str, Any],
    *,
    runs: bool,
    missing: Collection[str] = (),
) -> None:
    """Write the unit, and enable it where systemd runs. `flags`: the options of its command, by their names. `runs`: an
    `up` has the data folder now; it has the settings `missing`, which this call does not give. Raises
    `CommandFailure`."""
    command = [sys.executable, "-m", "tickwise", "up", "--data-dir", str(service.data_dir)]
    for option, value in flags.items():
        command += [] if value is None else [option, str(value)]
    text = unit_text(
        service,
        command,
        carried(session.environ, settings),
        settings.drain_seconds + settings.kill_grace_seconds,
        folder=Path.cwd() if settings.function_modules else None,
    )
    service.write(text)
    is_own = service.is_live and service.is_active()
    started = service.is_live and (is_own or not runs)
    if service.is_live:
        service.call("daemon-reload")
        service.call("enable", service.name)
        if started:
            service.call("restart" if is_own else "start", service.name)
    left = _left_to_do(service, runs=runs and not is_own)
    if session.as_json:
        facts = {"unit": str(service.file), "enabled": service.is_live, "started": started, "next": left}
        session.show_json(facts)
        return
    session.say(f"{service.file} is written: it starts {shlex.join(command)}")
    if service.is_live:
        session.say("It is enabled, and " + ("started." if started else "starts with the machine from now on."))
    else:
        session.say("systemd does not run here (or reads other folders), so nothing is enabled or started.")
    for line in left:
        session.say(f"  {line}")
    if missing:
        session.note(
            f"The one that runs has settings that the service will not have, because this call does not give them: "
            f"{', '.join(missing)}. Give them, and call this again."
        )


def remove(session: Session, service: BootService) -> None:
    """Stop the service, and take its unit away; the data stays. Raises `CommandFailure`."""
    there = service.is_installed()
    if there:
        if service.is_live:
            service.call("disable", "--now", service.name)
        service.file.unlink()
        if service.is_live:
            service.call("daemon-reload")
    if session.as_json:
        session.show_json({"unit": str(service.file), "removed": there})
    elif there:
        session.say(f"{service.file} is removed. The data in {service.data_dir} stays.")
    else:
        session.say(f"No service is installed for {service.data_dir} ({service.file} is not there).")


def _left_to_do(service: BootService, *, runs: bool) -> list[str]:
    """The commands that are left to the operator."""
    found = []
    systemctl = shlex.join(service.systemctl())
    if not service.is_live:
        found.append(f"{systemctl} daemon-reload && {systemctl} enable --now {service.name}")
    elif runs:
        down = f"tickwise down --data-dir {shlex.quote(str(service.data_dir))}"
        found.append(f"{down} && {systemctl} start {service.name}    # what runs there now is no service yet")
    if not service.is_system and not _lingers():
        found.append(
            f"loginctl enable-linger {getpass.getuser()}    # else it starts when you sign in, and ends after you"
        )
    return found


def _lingers() -> bool:
    """Check whether services of this user run without a session."""
    if shutil.which("loginctl") is None:
        return False
    words = ["loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() == "yes"
