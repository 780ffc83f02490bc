"""The environment that a script declares: in its header (PEP 723), as requirements, or as a lock."""

from __future__ import annotations

import contextlib
import platform
import time

import pytest

from tickwise.adapters.runner.kinds import MAX_SOURCE_CHARACTERS, PythonKind
from tickwise.adapters.runner.scripts.demand import MAX_LOCK_CHARACTERS, MAX_REQUIREMENTS_CHARACTERS, demand_of
from tickwise.adapters.runner.scripts.header import NO_HEADER, Header, blocks, header_of
from tickwise.domain.errors import Invalid
from tickwise.ports.environments import EnvironmentDemand

PYLOCK = 'lock-version = "1.0"\n'


def header(*lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" if line else "#" for line in lines), "# ///", "print(1)", ""])


NEEDS = header('dependencies = ["requests<3", "rich"]')


@pytest.mark.parametrize(
    "source",
    [
        "print('# /// script')\n",
        "# /// script\n# dependencies = ['x']\nprint(1)\n",
        "# /// script\n# dependencies = ['x']\n\n# ///\n",
        " # /// script\n # dependencies = ['x']\n # ///\n",
        "# /// pyproject\n# dependencies = ['x']\n# ///\n",
        header(),
        header("dependencies = []"),
        header("dependencies = []", "", "[tool.uv]", 'index-url = "x"'),
    ],
    ids=["text", "open", "interrupted", "indented", "other", "empty", "no packages", "settings of uv"],
)
def test_a_script_that_needs_no_environment_has_none(source: str) -> None:
    """A header by itself is no reason, and what only looks like one is none."""
    assert NO_HEADER == header_of(source)
    assert demand_of("default", {}, source) is None


@pytest.mark.parametrize(
    "source", [NEEDS, NEEDS.replace("\n", "\r\n"), "import os\n\n" + NEEDS], ids=["n", "rn", "late"]
)
def test_the_packages_of_a_header_are_its_environment(source: str) -> None:
    """One a line, as in a file of requirements."""
    assert Header(("requests<3", "rich")) == header_of(source)
    assert EnvironmentDemand("team", "requests<3\nrich") == demand_of("team", {}, source)


def test_a_python_that_fits_needs_no_environment() -> None:
    """Another one does, without any package."""
    assert demand_of("default", {}, header(f'requires-python = "=={platform.python_version()}"')) is None
    assert EnvironmentDemand("default", python=">=4") == demand_of("default", {}, header('requires-python = ">=4"'))


def test_packages_may_be_those_of_a_day() -> None:
    """The one setting of uv that a header may have."""
    source = header('dependencies = ["rich"]', "[tool.uv]", 'exclude-newer = "2026-01-01T00:00:00Z"')
    assert "2026-01-01T00:00:00Z" == header_of(source).exclude_newer


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (header('requires-python = "three"'), r"requires-python.*\(line 2\)"),
        (header("requires-python = 3"), "requires-python"),
        (header('dependencies = "requests"'), "array"),
        (header("dependencies = ["), r"TOML.*\(line 2\)"),
        ("import os\n" + header("", "a = "), r"TOML.*\(line 4\)"),
        (header("a = " + "[" * 3_000), "TOML"),
        (header(*["# x"] * 2_000), "4096 characters"),
        (header() + header(), r"two headers.*\(line 4\)"),
        (header("dependencies = [", '  "requests",', '  "not a name",', "]"), r"'not a name'.*\(line 4\)"),
        (header('dependencies = ["a\\nb"]'), "line break"),
        (header('dependencies = ["a; ' + "(" * 2_000 + '"]'), "cannot be read"),
        (header('dependencies = ["a"]', "[tool.uv]", 'index-url = "x"'), r"index-url.*\(line 4\)"),
        (header('dependencies = ["a"]', "[tool.uv.sources]", 'a = {git = "x"}'), r"sources.*\(line 3\)"),
        (header('dependencies = ["a"]', "tool = 3"), "table"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(source: str, why: str) -> None:
    """When it is submitted, with the line in the script, and a code of its own."""
    with pytest.raises(Invalid, match=why) as refused:
        PythonKind().check({"kind": "python", "source": source})
    assert ("environment_invalid", "/source") == (refused.value.code, refused.value.pointer)


@pytest.mark.parametrize(
    "requirements",
    [
        "requests<3\n\n# a comment\nrich==14.0  # newest\n",
        "a @ https://example.org/a-1.0-py3-none-any.whl\n",
        "a==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n",
        "--index-url https://example.org/simple\na; python_version < '3.13'\n",
    ],
)
def test_requirements_are_kept_as_they_are(requirements: str) -> None:
    """A further check changes nothing in them."""
    task = {"kind": "python", "source": "pass", "requirements": requirements}
    assert task == PythonKind().check(task) == PythonKind().check(PythonKind().check(task))
    assert EnvironmentDemand("default", requirements) == demand_of("default", task, "pass")


@pytest.mark.parametrize(
    ("requirements", "why"),
    [
        ("rich\n-r other.txt", r"another file.*\(line 2\)"),
        ("--constraint c.txt", "another file"),
        ("-e .", "another file"),
        ("./here", "another file"),
        ("file:///tmp/a.whl", "another file"),
        ("rich\n\nrequests == ", r"cannot be read.*\(line 3\)"),
        ("x" * (MAX_REQUIREMENTS_CHARACTERS + 1), "characters"),
        ("  \n", "empty"),
        ("\ud800", "surrogate"),
    ],
)
def test_requirements_that_cannot_travel_are_refused(requirements: str, why: str) -> None:
    """With their line, at their field."""
    with pytest.raises(Invalid, match=why) as refused:
        PythonKind().check({"kind": "python", "file": "sha256:" + "0" * 64, "requirements": requirements})
    assert "/requirements" == refused.value.pointer


def test_a_lock_is_told_from_other_text() -> None:
    """By its version; it may stand beside a header, and then it counts."""
    task = {"kind": "python", "source": NEEDS, "lock": PYLOCK}
    assert task == PythonKind().check(task)
    assert EnvironmentDemand("default", lock=PYLOCK) == demand_of("default", task, NEEDS)
    for lock in ("requests\n", "", "x" * (MAX_LOCK_CHARACTERS + 1)):
        with pytest.raises(Invalid) as refused:
            PythonKind().check({**task, "lock": lock})
        assert "/lock" == refused.value.pointer


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"source": "pass", "requirements": "a", "lock": PYLOCK}, "/lock"),
        ({"source": NEEDS, "requirements": "a"}, "/requirements"),
    ],
    ids=["lock", "header"],
)
def test_two_declarations_are_refused(fields: dict[str, str], pointer: str) -> None:
    """Of a stored script, whose header is read when it runs, in the same words."""
    with pytest.raises(Invalid) as refused:
        PythonKind().check({"kind": "python", **fields})
    assert ("environment_invalid", pointer) == (refused.value.code, refused.value.pointer)


def test_the_header_of_a_stored_script_is_held_against_its_task() -> None:
    """The task is checked without the script, so the executor looks at both."""
    with pytest.raises(Invalid, match="leave one of them"):
        demand_of("default", {"requirements": "rich"}, NEEDS)


def test_the_last_end_of_a_block_counts() -> None:
    """As the specification says."""
    assert [("script", "a\n///\nb", 1)] == blocks("# /// script\n# a\n# ///\n# b\n# ///\n")
    assert [("a", "", 1), ("b", "x", 4)] == blocks("# /// a\n# ///\n\n# /// b\n# x\n# ///")


@pytest.mark.parametrize("piece", ["# /// script\n", "# /// script\n#\n", "# ///\n", "# /// script\nx\n", "#\n"])
def test_reading_takes_time_that_grows_with_the_length_alone(piece: str) -> None:
    """A source made of beginnings takes a regular expression minutes."""
    before = time.thread_time()
    blocks(piece * (MAX_SOURCE_CHARACTERS // len(piece)))
    assert time.thread_time() - before < 3.0


@pytest.mark.parametrize("piece", ["a\n", "a; (\n", "#" * 100 + "\n", "a==1 \\\n", " #", "a<" * 400 + "\n"])
def test_reading_requirements_takes_little_time(piece: str) -> None:
    """It is done on the event loop of the API, with a text that anybody may have sent."""
    before = time.thread_time()
    requirements = "x\n" + piece * (MAX_REQUIREMENTS_CHARACTERS // len(piece) - 1)
    with contextlib.suppress(Invalid):
        PythonKind().check({"kind": "python", "source": "pass", "requirements": requirements})
    assert time.thread_time() - before < 0.5
