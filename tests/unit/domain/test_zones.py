"""What the zone data promises: its version is named, and other data moves the fires once the old one is forgotten."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import tzdata  # type: ignore[import-untyped]  # it is data

from tests.support.crons import fire_after
from tickwise.domain import zones
from tickwise.domain.cron.expression import parse

BERLIN = "Europe/Berlin"


def compiled(rules: str) -> bytes:
    """A TZif file (RFC 9636) whose zone follows a POSIX TZ string for ever."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return block + block + b"\n" + rules.encode() + b"\n"


def write_zone(folder: Path, rules: str, name: str = BERLIN) -> None:
    """Put a zone into a folder."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(compiled(rules))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds the only zone data there is, beside the package."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    zones.forget()
    yield tmp_path
    zoneinfo.reset_tzpath(before)
    zones.forget()


def fires(line: str, count: int) -> list[str]:
    """The first fires of a line in Berlin from 28 March 2026, 12:00 UTC, in UTC."""
    zone, cron, instant = zones.zone_named(BERLIN), parse(line), datetime(2026, 3, 28, 12, tzinfo=UTC)
    found = []
    for _ in range(count):
        following = fire_after(cron, instant, zone)
        assert following is not None
        found.append(f"{following:%d %H:%M}")
        instant = following
    return found


def test_other_zone_data_moves_the_fires_once_the_old_is_forgotten(folder: Path) -> None:
    """A government gives up summer time: what was read stays until `forget`, then the new rules hold."""
    write_zone(folder, "CET-1CEST,M3.5.0,M10.5.0/3")
    assert fires("30 6 * * *", 2) == ["29 04:30", "30 04:30"]
    write_zone(folder, "CET-1")
    assert fires("30 6 * * *", 2) == ["29 04:30", "30 04:30"]
    zones.forget()
    assert fires("30 6 * * *", 2) == ["29 05:30", "30 05:30"]


def test_a_zone_handed_out_before_keeps_its_rules(folder: Path) -> None:
    """One computation never sees two versions: a zone in hand is whole, also after `forget`."""
    write_zone(folder, "CET-1CEST,M3.5.0,M10.5.0/3")
    old = zones.zone_named(BERLIN)
    write_zone(folder, "CET-1")
    zones.forget()
    after = datetime(2026, 7, 1, tzinfo=UTC)
    assert fire_after(parse("0 6 * * *"), after, old) == datetime(2026, 7, 1, 4, tzinfo=UTC)
    assert fire_after(parse("0 6 * * *"), after, zones.zone_named(BERLIN)) == datetime(2026, 7, 1, 5, tzinfo=UTC)


def test_forgetting_keeps_nothing_of_the_old_zones(folder: Path) -> None:
    """A process that forgets for years does not grow: the stretches go with their zones."""
    write_zone(folder, "CET-1CEST,M3.5.0,M10.5.0/3")
    fires("30 6 * * *", 2)
    assert zones._stretches.cache_info().currsize > 0
    zones.forget()
    assert zones._stretches.cache_info().currsize == 0


def test_the_version_is_that_of_the_folder_that_zones_come_from(folder: Path) -> None:
    """A complete folder answers for itself, in the first line of tzdata.zi."""
    write_zone(folder, "UTC0", "UTC")
    (folder / "tzdata.zi").write_text("# version 2031a\n# redo posix_only\n")
    assert zones.data_version() == "2031a"


def test_the_version_is_found_as_macos_writes_it(folder: Path) -> None:
    """`+VERSION` holds nothing else."""
    write_zone(folder, "UTC0", "UTC")
    (folder / "+VERSION").write_text("2031b\n")
    assert zones.data_version() == "2031b"


def test_without_a_folder_the_version_is_the_packages(folder: Path) -> None:
    """Slim images have no zone data of their own: `zoneinfo` takes the package, and so do we."""
    assert zones.data_version() == tzdata.IANA_VERSION


def test_a_folder_with_some_zones_is_named_beside_what_fills_it_up(folder: Path) -> None:
    """Zones come from two places then, and a change of either must be seen."""
    write_zone(folder, "CET-1")
    (folder / "+VERSION").write_text("2031c")
    assert zones.data_version() == f"2031c+{tzdata.IANA_VERSION}"


def test_data_without_a_version_is_named_by_its_content(folder: Path) -> None:
    """Whoever compiled it left no name: the same content has the same one, another content another one."""
    write_zone(folder, "UTC0", "UTC")
    write_zone(folder, "CET-1")
    first = zones.data_version()
    zones.forget()
    assert zones.data_version() == first
    write_zone(folder, "CET-1CEST,M3.5.0,M10.5.0/3")
    zones.forget()
    assert zones.data_version() != first
    assert first.startswith("unnamed-")


def test_the_version_holds_for_what_was_read(folder: Path) -> None:
    """New data under a running program is not named before it is used."""
    write_zone(folder, "UTC0", "UTC")
    (folder / "+VERSION").write_text("2031a")
    assert zones.data_version() == "2031a"
    (folder / "+VERSION").write_text("2031b")
    assert zones.data_version() == "2031a"
    zones.forget()
    assert zones.data_version() == "2031b"


def test_a_version_file_full_of_rubbish_does_no_harm(folder: Path) -> None:
    """Binary content is cut and read as far as it goes."""
    write_zone(folder, "UTC0", "UTC")
    (folder / "tzdata.zi").write_bytes(b"# version \xff\xfe" + b"x" * 10_000)
    assert len(zones.data_version()) <= 40


@pytest.mark.parametrize(
    "zone_name",
    ["America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia"],
)
def test_a_change_is_known_before_it_comes(zone_name: str) -> None:
    """Two days ahead of any change its stretch tells when it is and what holds then, over every edge of a year."""
    zone, cursor, seen = ZoneInfo(zone_name), 0, 0
    while cursor < 4_000_000_000:
        stretch = zones.stretch_at(zone, cursor)
        if stretch.after != stretch.offset:
            seen += 1
            assert zones.stretch_at(zone, stretch.end).begin == stretch.end
            assert zones.stretch_at(zone, stretch.end).offset == stretch.after
            earlier = zones.stretch_at(zone, stretch.end - 2 * 86_400 + 1)
            assert (earlier.end, earlier.offset, earlier.after) == (stretch.end, stretch.offset, stretch.after)
        cursor = stretch.end
    assert seen > 10
