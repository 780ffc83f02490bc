"""The script that a shell gets as the start of a task: it sets each value as it is, and is run whole or not at all."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tickwise.adapters.runner.container.engine import FoundContainer
from tickwise.adapters.runner.container.names import ContainerOwner, attempt_name, is_waiting, owner_of
from tickwise.adapters.runner.container.start_script import SHELL_READS, is_sayable, start_script
from tickwise.config.containers import read_warm
from tickwise.domain.errors import Invalid
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.testing.contracts.runner import assignment

values = st.binary(max_size=60).filter(lambda value: b"\0" not in value)


@given(values, values)
@example(b"it's", b'$(id) `id` \\ " ! \n')
@example(b"", b"'\n'")
def test_a_shell_passes_each_byte_on(value: bytes, argument: bytes) -> None:
    """Of a variable and of an argument; and nothing of them is run."""
    text = argument.decode("latin-1")
    script = start_script({"NAME": value}, {}, ["/bin/sh", "-c", 'printf "%s|%s" "$NAME" "$1"', "sh", text])
    found = subprocess.run([*SHELL_READS], input=script, capture_output=True, check=True).stdout
    assert value + b"|" + text.encode() == found


def test_half_of_a_start_runs_nothing() -> None:
    """However much of it arrives."""
    script = start_script({"A": b"1"}, {}, ["/bin/echo", "began"])
    for length in range(len(script) - 2):
        done = subprocess.run([*SHELL_READS], input=script[:length], capture_output=True, check=False)
        assert b"" == done.stdout, length
    assert b"began\n" == subprocess.run([*SHELL_READS], input=script, capture_output=True, check=True).stdout


def test_names_that_a_shell_cannot_set_are_known() -> None:
    """Its own, and those that are no names."""
    assert [True, True, False, False, False, False] == [
        is_sayable(name) for name in ("PATH", "_a1", "a-b", "1a", "UID", "ä")
    ]


def test_a_name_says_whose_a_container_is() -> None:
    """Also one of an earlier release, by its marks."""
    given = assignment({"kind": "container"})
    owner = ContainerOwner(given.namespace, given.run_id, given.token)
    assert owner == owner_of(FoundContainer("1", attempt_name(given), {}))
    labels = {"tickwise.namespace": "default", "tickwise.run": str(given.run_id), "tickwise.token": "7"}
    assert owner == owner_of(FoundContainer("1", f"tickwise-{given.run_id}", labels))
    assert owner_of(FoundContainer("1", "tickwise-warm.a.1", {})) is None
    assert [True, False] == [is_waiting(FoundContainer("1", name, {})) for name in ("tickwise-warm.a.1", "tickwise-x")]


def test_the_setting_of_warm_containers_is_read() -> None:
    """By image; each once, up to 100."""
    assert {"python:3.12": 2, "localhost:5000/etl@sha256:ab": 100} == read_warm(
        ("python:3.12=2", "localhost:5000/etl@sha256:ab=100")
    )
    for wrong in (("python",), ("python=0",), ("python=101",), ("=1",), ("a=1", "a=2"), ("a=x",)):
        with pytest.raises(Invalid):
            read_warm(wrong)


def test_only_an_image_with_its_digest_is_kept() -> None:
    """What comes through a broker may say anything."""
    good = f"sha256:{'a' * 64}"
    assert all(ResourceUsage(image=image).is_plausible for image in (None, good, f"ghcr.io/acme/etl@{good}"))
    for wrong in ("", "etl", "sha256:abc", f"<b>@{good}", f"{'x' * 600}@{good}", 5):
        assert not ResourceUsage(image=wrong).is_plausible  # type: ignore[arg-type]  # a stranger may send anything
