"""The boot service of a `tickwise up`: a unit of systemd that starts it with the machine, and again after a crash.

    root          /etc/systemd/system/tickwise-up.service           starts with the machine
    another user  ~/.config/systemd/user/tickwise-up.service        starts with the user's first session; with the
                                                                    machine once the user may linger

The usual data folder has the unit `tickwise-up`, each other one a name of its own. SYSTEMD_UNIT_PATH names another
folder for units, as it does for systemd: then the unit is only written.

Invariant: a unit says no secret, because all users of a machine may read units. A file that is not ours is not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from tickwise.cli.failures import CommandFailure, Exit

NAME: Final = "tickwise-up"
MARK: Final = "# Written by `tickwise up --install-service`; `tickwise up --remove-service` takes it away."
RUNS_SYSTEMD: Final = Path("/run/systemd/system")
"""Present where systemd is the first process (sd_booted(3))."""
MORE_STOP_SECONDS: Final = 60
"""For the end of PostgreSQL, after the end of the tasks."""
_CARRIED: Final = ("TICKWISE_CONFIG_LOCATION",)
_PLAIN: Final = re.compile(r"[\w@:,.+=/-]+", re.ASCII)

_UNIT: Final = """\
{mark}
[Unit]
Description=Tickwise on {description}
{after}# A port in use, a full disk: it is tried again until it goes.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
{folder}{environment}Restart=on-failure
RestartSec=5
# TERM goes to Tickwise alone, which lets running tasks end. What is left of its group after that is killed.
KillMode=mixed
TimeoutStopSec={stop_seconds}
# Tasks that use up the memory take themselves along, and not Tickwise.
OOMPolicy=continue
LimitNOFILE=65536

[Install]
WantedBy={wanted_by}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootService:
    """The unit of one data folder."""

    data_dir: Path
    folder: Path
    """The folder of the unit."""
    name: str
    """Its name, without `.service`."""
    is_system: bool
    """It belongs to the machine, and not to one user."""
    is_live: bool
    """A systemd runs that reads this folder."""

    @classmethod
    def of(cls, data_dir: Path, environ: Mapping[str, str], *, is_usual: bool) -> BootService:
        """The unit of this user for a data folder. `is_usual`: commands look in that folder by themselves."""
        is_system = os.geteuid() == 0
        given = environ.get("SYSTEMD_UNIT_PATH", "").partition(":")[0]
        config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
        usual = "/etc/systemd/system" if is_system else f"{config}/systemd/user"
        own = blake2b(os.fsencode(data_dir), digest_size=4).hexdigest()
        return cls(
            data_dir=data_dir,
            folder=Path(given or usual),
            name=NAME if is_usual else f"{NAME}-{own}",
            is_system=is_system,
            is_live=not given
            and RUNS_SYSTEMD.is_dir()
            and shutil.which("systemctl", path=environ.get("PATH")) is not None,
        )

    @property
    def file(self) -> Path:
        """The place of the unit."""
        return self.folder / f"{self.name}.service"

    def systemctl(self, *words: str) -> list[str]:
        """The command line, for the manager that this unit belongs to."""
        return ["systemctl", *([] if self.is_system else ["--user"]), *words]

    def is_installed(self) -> bool:
        """Check whether the unit is there, and ours. Raises `CommandFailure` for a file of that name that is not."""
        try:
            text = self.file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False
        if not text.startswith(MARK):
            raise CommandFailure(
                f"{self.file} was not written by Tickwise, and is left as it is.", Exit.REFUSED,
                advice="Move it away, or keep it and start Tickwise by it.",
            )  # fmt: skip
        return True

    def write(self, text: str) -> None:
        """Write the unit, whole or not at all. Raises `CommandFailure`."""
        self.is_installed()
        partial = self.file.with_suffix(".partial")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            partial.chmod(0o644)
            partial.replace(self.file)
        except OSError as failure:
            raise CommandFailure(f"{self.file} cannot be written: {failure.strerror}.", Exit.MISCONFIGURED) from None

    def call(self, *words: str) -> None:
        """Have systemd do something. Raises `CommandFailure` with its words."""
        done = subprocess.run(self.systemctl(*words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise CommandFailure(
                f"`{' '.join(self.systemctl(*words))}` failed: {(done.stderr or done.stdout).strip()}", Exit.REFUSED
            )

    def is_active(self) -> bool:
        """Check whether systemd runs it now."""
        done = subprocess.run(self.systemctl("is-active", "--quiet", self.name), capture_output=True, check=False)
        return done.returncode == 0


def unit_text(
    service: BootService,
    command: Sequence[str],
    environ: Mapping[str, str],
    stop_seconds: float,
    *,
    folder: Path | None = None,
) -> str:
    """The unit that runs this command. `stop_seconds`: the longest that its tasks may take to end. `folder`: where it
    is started, and looks for the modules of functions; None: where systemd starts it."""
    variables = {name: environ[name] for name in sorted(environ)}
    lines = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()]
    network = "After=network-online.target\nWants=network-online.target\n" if service.is_system else ""
    return _UNIT.format(
        mark=MARK,
        description=str(service.data_dir).replace("%", "%%").replace("\n", " "),
        after=network,
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        # As it is: systemd takes the whole line for the path (systemd.exec(5)), and `%` for a specifier.
        folder="" if folder is None else "WorkingDirectory={}\n".format(str(folder).replace("%", "%%")),
        environment="".join(lines),
        stop_seconds=int(stop_seconds) + MORE_STOP_SECONDS,
        wanted_by="multi-user.target" if service.is_system else "default.target",
    )


def carried(environ: Mapping[str, str], settings: Any) -> dict[str, str]:
    """The variables that the service needs: the settings of this environment, PATH for its tasks, PYTHONPATH for the
    modules of functions. Raises
    `CommandFailure` if one is a secret."""
    from tickwise.config import SETTINGS

    found = {name: environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if environ.get(name)}
    for name in _CARRIED:
        if environ.get(name):
            found[name] = str(Path(environ[name]).expanduser().absolute())
    for setting in SETTINGS.values():
        if settings.origins.get(setting.name) != setting.variable or setting.name == "data_dir":
            continue
        if setting.facts.secret:
            raise CommandFailure(
                f"{setting.variable} is a secret, and all users of this machine may read units.", Exit.MISCONFIGURED,
                advice=f"Write {setting.name} into secrets.toml in the folder that TICKWISE_CONFIG_LOCATION names, "
                f"unset {setting.variable}, and install the service again.",
            )  # fmt: skip
        found[setting.variable] = environ[setting.variable]
    return found


def _quoted(word: str) -> str:
    """A word as systemd reads it (systemd.syntax(7)); `%` begins a specifier."""
    text = word.replace("%", "%%")
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}.get(sign, sign) for sign in text)
    return f'"{escaped}"'
