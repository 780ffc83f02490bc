"""systemd timers as jobs: a `.timer` says when, its `.service` says what.

    backup.timer   OnCalendar=*-*-* 02:00:00   ──► schedule, misfire, jitter ─┐
    backup.service ExecStart=/usr/bin/backup   ──► task, timeout, retries ────┴─► Entry

Each `On…=` line of a timer is an entry. The meaning of a timer beside its time is kept: a service that still runs is
not started a second time (`overlap: skip`); times that the clock skips are not made up for, and those that it shows
twice count once (`dst`, as systemd 252 does it); a time that was missed is made up for once if the timer is
`Persistent=`, else never. A program that ran as root in a sandbox does so no more: that is said of every entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from tickwise.importers.report import ImportEntry, ImportReport, refused
from tickwise.importers.systemd_calendar import as_cron, read_calendar
from tickwise.importers.systemd_service import SystemdService, read_service
from tickwise.importers.systemd_units import Unit, UnitFiles, UnitSetting, span_seconds
from tickwise.importers.translation import (
    MAX_ENTRIES,
    MAX_GRACE_SECONDS,
    MAX_INTERVAL_SECONDS,
    MAX_JITTER_SECONDS,
    UTC_NAME,
    Translation,
    Untranslatable,
    given_up,
    key_of,
    known_zone,
    listed,
    name_of,
    translated,
    unique,
)

_TIMER: Final = "Timer"
_AFTER_RUN: Final = ("OnUnitActiveSec", "OnUnitInactiveSec")
_AFTER_BOOT: Final = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_JOBS: Final = ("OnCalendar", *_AFTER_RUN)
_STARTS: Final = (*_JOBS, *_AFTER_BOOT, "OnClockChange", "OnTimezoneChange")
_HANDLED: Final = frozenset(
    {*_STARTS, "RandomizedDelaySec", "FixedRandomDelay", "AccuracySec", "Persistent", "Unit", "RemainAfterElapse"}
)
_ACCURACY_SECONDS: Final = 60.0
"""`AccuracySec=` unless it is given: a timer that elapses so much late is on time."""


_MAX_LINES: Final = 100
"""A timer with more lines that start it is no timer that somebody wrote."""


class _Timer(NamedTuple):
    """The fields that all entries of a timer share."""

    unit: Unit
    service: SystemdService | Untranslatable
    """Or why there is none."""
    timezone: str | None
    """The machine's, as far as the caller knows it."""
    several: bool
    """More than one of its lines becomes a job."""
    kick: str
    """The line after boot that gives the first start of a timer that then counts from run to run."""


def read_systemd(files: Mapping[str, str | bytes], *, timezone: str | None = None) -> ImportReport:
    """Every line that starts something, of every `.timer` among the files, as an entry.

    `files` maps names (or paths) to texts: timers, their services, drop-ins (`backup.timer.d/local.conf`), templates.
    `timezone` is that of the machine where the timers ran; without it UTC is taken, and each entry says so.
    """
    units = UnitFiles(files)
    entries: list[ImportEntry] = []
    for name in units.timers():
        if len(entries) >= MAX_ENTRIES:
            reason = f"only {MAX_ENTRIES} entries are read at once; import the rest by itself"
            entries.append(refused(1, name, reason=reason))
            break
        entries += _entries(name, units, timezone)
    return ImportReport(unique(entries))


def _entries(name: str, files: UnitFiles, timezone: str | None) -> list[ImportEntry]:
    try:
        unit = files.unit(name)
    except Untranslatable as refusal:
        return [given_up(1, name, refusal)]
    if unit is None:
        return []
    lines = unit.given(_TIMER, *_STARTS)
    if len(lines) > _MAX_LINES:
        return [refused(1, name, reason=f"it has {len(lines)} lines that start it, {_MAX_LINES} are read; split it")]
    spans = [setting for setting in lines if setting.name in _AFTER_RUN]
    kicks = [setting for setting in lines if setting.name in _AFTER_BOOT] if spans else []
    timer = _Timer(
        unit,
        _service(unit, files),
        timezone,
        several=sum(setting.name in _JOBS for setting in lines) > 1,
        kick=", ".join(f"{setting.name}={setting.value[:50]}" for setting in kicks),
    )
    entries = [_entry(timer, setting) for setting in lines if setting not in kicks]
    if not entries:
        reason = "its section [Timer] has no line such as `OnCalendar=daily`, so systemd never starts it; add one"
        entries = [refused(1, name, reason=reason)]
    return entries


def _entry(timer: _Timer, setting: UnitSetting) -> ImportEntry:
    translate: Callable[[], Translation] = partial(_translate, timer, setting)
    return translated(max(setting.line, 1), f"{timer.unit.name}: {setting.name}={setting.value}", translate)


# ------------------------------------------------------------------------------------------------------ one entry


def _translate(timer: _Timer, setting: UnitSetting) -> Translation:
    unit, service = timer.unit, timer.service
    if isinstance(service, Untranslatable):
        raise service
    if setting.name not in _JOBS:
        why = "counts from the start of" if setting.name in _AFTER_BOOT else "watches the clock of"
        raise Untranslatable(
            f"{setting.name} {why} one machine, which has no meaning for a job that any machine may run; leave it with "
            "systemd, or give it times: OnCalendar=, or OnUnitActiveSec= for an interval"
        )
    changes: list[str] = []
    schedule = (_calendar if setting.name == "OnCalendar" else _interval)(timer, setting, changes)
    stem = unit.name.removesuffix(".timer")
    said = f"{setting.name}={setting.value}"
    job: dict[str, Any] = {
        "name": name_of(f"{stem} ({setting.value})" if timer.several else stem),
        "key": key_of("systemd", stem, said) if timer.several else key_of("systemd", stem),
        **schedule,
        "overlap": "skip",
        **_jitter(unit, changes),
        **service.fields,
        "task": service.task,
        "isolation": "process",
    }
    if timer.several:
        changes.append(
            "each On…= line of the timer becomes a job of its own: they do not wait for each other, and times that "
            "several of them name start it several times"
        )
    description = service.description or unit.value("Unit", "Description")
    if description:
        job["description"] = unit.expanded(description)[:10_000]
    left_out = [name for name in unit.names(_TIMER) if name not in _HANDLED]
    if left_out:
        changes.append(f"left out of [Timer], because nothing here means the same: {listed(left_out)}")
    return Translation(job, [*changes, *service.changes])


def _service(unit: Unit, files: UnitFiles) -> SystemdService | Untranslatable:
    try:
        name = unit.expanded(unit.value(_TIMER, "Unit") or f"{unit.name.removesuffix('.timer')}.service")
        if not name.endswith(".service"):
            return Untranslatable(f"the timer starts {name[:100]}; only the commands of a .service become a job")
        service = files.unit(name)
        if service is None:
            shown = name[:100]
            return Untranslatable(
                f"the timer starts {shown}, which is not among the files; give that file too "
                f"(`systemctl cat {shown}` shows it)"
            )
        return read_service(service)
    except Untranslatable as refusal:
        return refusal


def _calendar(timer: _Timer, setting: UnitSetting, changes: list[str]) -> dict[str, Any]:
    event = read_calendar(timer.unit.expanded(setting.value))
    line = as_cron(event)
    zone = event.timezone or timer.timezone
    if zone is None:
        zone = UTC_NAME
        changes.append(
            "the times are read as UTC, systemd reads them on the machine's clock; give that time zone to the import "
            "if it is another"
        )
    schedule: dict[str, Any] = {
        "schedule_type": "CRON",
        "cron_expression": line.cron_expression,
        "timezone": known_zone(zone, "the time zone"),
    }
    if line.first_year is not None:
        schedule["start_at"] = _rfc3339(datetime(line.first_year, 1, 1, tzinfo=ZoneInfo(schedule["timezone"])))
    if line.last_year is not None:
        end = datetime(line.last_year + 1, 1, 1, tzinfo=ZoneInfo(schedule["timezone"]))
        schedule["end_at"] = _rfc3339(end.astimezone(UTC) - timedelta(seconds=1))
    if schedule["timezone"] != UTC_NAME:
        schedule["dst"] = {"gap": "skip", "overlap": "first"}
    accuracy = _accuracy(timer.unit, changes)
    mode = "latest" if timer.unit.flag(_TIMER, "Persistent") else "skip"
    schedule["misfire"] = {"grace_seconds": _number(accuracy), "mode": mode}
    if mode == "skip":
        # While the machine is off, a timer that is not persistent starts nothing, and makes nothing up.
        schedule["start_deadline_seconds"] = _number(accuracy)
    return schedule


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _accuracy(unit: Unit, changes: list[str]) -> float:
    """The greatest delay of a start that does not count as missed."""
    given = unit.value(_TIMER, "AccuracySec")
    if given is None:
        return _ACCURACY_SECONDS
    seconds = span_seconds(given, "AccuracySec")
    if seconds is None or seconds > MAX_GRACE_SECONDS:
        raise Untranslatable(f"AccuracySec={given} lets it start at any time at all; write at most a year")
    if seconds > _ACCURACY_SECONDS:
        changes.append(
            f"it starts at the named time; with AccuracySec={given} systemd may start it that much later, with other "
            "timers (jitter_seconds spreads starts)"
        )
    return max(seconds, _ACCURACY_SECONDS)


def _interval(timer: _Timer, setting: UnitSetting, changes: list[str]) -> dict[str, Any]:
    seconds = span_seconds(timer.unit.expanded(setting.value), setting.name)
    if seconds is None or not 1 <= seconds <= MAX_INTERVAL_SECONDS:
        raise Untranslatable(
            f"{setting.name}={setting.value[:50]}: an interval has 1 second to 10 years; write one such as 15min"
        )
    if setting.name == "OnUnitInactiveSec":
        changes.append(
            "the interval counts from start to start, systemd counts from the end of a run to the next start"
        )
    else:
        changes.append("the interval counts from the import on without drift, systemd counts from each last start")
    if timer.kick:
        changes.append(f"{timer.kick} is left out: the first start is one interval after the import, not after a boot")
    _accuracy(timer.unit, changes)
    return {"schedule_type": "INTERVAL", "interval_seconds": _number(seconds)}


def _jitter(unit: Unit, changes: list[str]) -> dict[str, Any]:
    given = unit.value(_TIMER, "RandomizedDelaySec")
    seconds = span_seconds(given, "RandomizedDelaySec") if given else 0.0
    if given is None or seconds == 0.0:
        return {}
    if unit.flag(_TIMER, "FixedRandomDelay"):
        changes.append("each occurrence has a delay of its own, with FixedRandomDelay= systemd always takes the same")
    if seconds is None or seconds > MAX_JITTER_SECONDS:
        changes.append(f"the random delay is at most a day, not {given}")
        seconds = float(MAX_JITTER_SECONDS)
    return {"jitter_seconds": _number(seconds)}


def _number(seconds: float) -> float | int:
    """Whole seconds as people write them."""
    return int(seconds) if seconds == int(seconds) else seconds
