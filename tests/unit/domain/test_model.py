"""Names of things follow from what they are, sort by time, and are never two things' name."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from hypothesis import example, given
from hypothesis import strategies as st

from tickwise.domain.model import Origin, Principal, Trigger, executor_number, id_instant, joined, run_id, time_id

MILLIS_MAX = (1 << 48) - 1

millis = st.integers(0, MILLIS_MAX)
random_bytes = st.binary(min_size=10, max_size=10)
instants = st.integers(0, 253_402_300_799_999_999).map(lambda micros: micros / 1_000_000)
job_ids = st.uuids()


@given(millis, random_bytes)
def test_a_time_id_is_a_uuid_of_version_8(at: int, chance: bytes) -> None:
    """RFC 9562, with any random bytes."""
    identifier = time_id(at, chance)
    assert (identifier.version, identifier.variant) == (8, RFC_4122)


@given(millis, random_bytes)
def test_a_time_id_tells_its_instant(at: int, chance: bytes) -> None:
    """To the millisecond: an id alone finds its partition."""
    assert round(id_instant(time_id(at, chance)) * 1000) == at


@given(millis, millis, random_bytes, random_bytes)
def test_time_ids_sort_by_time(one: int, other: int, first: bytes, second: bytes) -> None:
    """As numbers and as text."""
    if one < other:
        assert time_id(one, first) < time_id(other, second)
        assert str(time_id(one, first)) < str(time_id(other, second))


@given(st.integers(), random_bytes)
def test_an_instant_beyond_what_an_id_holds_is_its_nearest_edge(at: int, chance: bytes) -> None:
    """A schedule may reach further than 48 bits of milliseconds, and before 1970."""
    assert round(id_instant(time_id(at, chance)) * 1000) == min(max(at, 0), MILLIS_MAX)


@given(millis, random_bytes, random_bytes)
def test_random_bytes_make_ids_of_one_millisecond_differ(at: int, one: bytes, other: bytes) -> None:
    """All but the six bits that say what kind of UUID it is."""
    fixed = (0xF << 76) | (0b11 << 62)
    same = (int.from_bytes(one, "big") | fixed) == (int.from_bytes(other, "big") | fixed)
    assert (time_id(at, one) == time_id(at, other)) == same


@given(job_ids, instants, st.sampled_from(Trigger), st.binary(max_size=16))
def test_a_run_has_the_same_name_every_time(job: UUID, nominal: float, trigger: Trigger, request: bytes) -> None:
    """Making it twice is making it once: the name follows from its arguments alone."""
    name = run_id(job, nominal, trigger, request)
    assert run_id(UUID(int=job.int), float(nominal), Trigger(int(trigger)), bytes(request)) == name
    assert name.version == 8


@given(job_ids, instants)
def test_a_run_is_named_in_the_millisecond_of_its_nominal_time(job: UUID, nominal: float) -> None:
    """Rounded down, so that ids of a partition's time lie in it."""
    assert round(id_instant(run_id(job, nominal)) * 1000) == min(round(nominal * 1_000_000) // 1000, MILLIS_MAX)


@given(job_ids, job_ids, instants)
def test_runs_of_different_jobs_differ(one: UUID, other: UUID, nominal: float) -> None:
    """Though they fire together."""
    assert (run_id(one, nominal) == run_id(other, nominal)) == (one == other)


@given(job_ids, st.integers(0, 4_000_000_000_000_000), st.integers(1, 10**9))
def test_occurrences_a_microsecond_apart_differ(job: UUID, micros: int, apart: int) -> None:
    """Stores keep microseconds, and so does the name."""
    assert run_id(job, micros / 1_000_000) != run_id(job, (micros + apart) / 1_000_000)


@given(job_ids, instants)
def test_runs_of_different_triggers_and_requests_differ(job: UUID, nominal: float) -> None:
    """A run-now at a nominal time is not the fire of the schedule, and two requests are two runs."""
    names = [run_id(job, nominal, trigger) for trigger in Trigger]
    names += [run_id(job, nominal, Trigger.RUN_NOW, request) for request in (b"one", b"other")]
    assert len(set(names)) == len(names)


def test_a_name_that_is_stored_stays_the_same() -> None:
    """Pinned: another hash would run what has run already once more after an upgrade."""
    job = UUID("01890a5d-ac96-8000-8000-000000000001")
    assert str(run_id(job, 1_800_000_000.25)) == "01a3185c-50fa-8c09-b502-305eb756c839"


def test_a_principal_may_what_it_was_granted() -> None:
    """That scope, or all; nothing by likeness."""
    reader, admin = Principal("a", "n", frozenset({"jobs:read"})), Principal("b", "n", frozenset({"*"}))
    assert reader.may("jobs:read")
    assert not reader.may("jobs:write")
    assert not reader.may("jobs")
    assert admin.may("jobs:write")
    assert not Principal("c", "n", frozenset()).may("jobs:read")


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
@example(["a/b", "c"], ["a", "b/c"])
@example(["a%2Fb"], ["a/b"])
@example(["a", ""], ["a/"])
def test_different_parts_never_make_one_text(some: list[str], others: list[str]) -> None:
    """Namespaces and names are people's, so no sign between them is ours alone."""
    if some and others:
        assert (joined(*some) == joined(*others)) == (some == others)


def test_names_without_the_sign_between_them_stay_as_they_are() -> None:
    """What was stored under them before is found."""
    assert "default/ada" == Principal("ada", "default", frozenset()).full_name


def test_numbers_of_executors_sort_by_time_and_fit_a_json_number() -> None:
    """Within a millisecond the random bits decide. A clock that is wrong gives a number too, above all that a database
    counted up."""
    millis = 1_790_000_000_000
    numbers = [executor_number(at, noise) for at in (millis, millis + 1) for noise in (b"\x00\x00", b"\x0f\xff")]
    assert sorted(set(numbers)) == numbers
    assert executor_number(millis, b"\xff\xff") == numbers[1]
    for wrong in (0, -5, 1 << 60):
        assert 1 << 40 <= executor_number(wrong, b"\xff\xff") < 1 << 53


def test_the_principal_of_a_request_differs_in_its_origin_alone() -> None:
    """The origin is put in by its place."""
    who = Principal("ci", "team-a", frozenset({"jobs:read"}), by_token=True)
    assert who._replace(origin=Origin("192.0.2.1", "r1")) == who.with_origin("192.0.2.1", "r1")
