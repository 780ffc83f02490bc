"""A script that asks for an environment of its own (PEP 723) is refused, because there is none yet."""

from __future__ import annotations

import time

import pytest

from tickwise.adapters.runner.kinds import MAX_SOURCE_CHARACTERS
from tickwise.adapters.runner.scripts.header import blocks, check_header
from tickwise.domain.errors import Invalid


def header(*lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" if line else "#" for line in lines), "# ///", "print(1)", ""])


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
        header('requires-python = ">=3.11"', "", "[tool.uv]", 'index-url = "x"'),
        header('requires-python = ">=3.11"').replace("\n", "\r\n"),
    ],
    ids=["text", "open", "interrupted", "indented", "other", "empty", "no packages", "this Python", "Windows"],
)
def test_a_script_that_needs_no_environment_is_taken(source: str) -> None:
    """A header by itself is no reason, and what only looks like one is none."""
    check_header(source)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (header('dependencies = ["requests<3", "rich"]'), "packages .requests<3, rich."),
        (header('dependencies = ["requests"]').replace("\n", "\r\n"), "packages .requests."),
        ("import os\n\n" + header('dependencies = ["requests"]'), "packages"),
        (header('requires-python = ">=4"'), "requires Python >=4"),
        (header('requires-python = "<3"'), "requires Python <3"),
        (header('requires-python = "three"'), "requires-python"),
        (header("requires-python = 3"), "requires-python"),
        (header('dependencies = "requests"'), "array"),
        (header("dependencies = ["), "TOML"),
        (header("a = " + "[" * 3_000), "TOML"),
        (header(*["# x"] * 2_000), "4096 characters"),
        (header() + header(), "two headers"),
    ],
)
def test_a_script_that_needs_an_environment_is_refused(source: str, why: str) -> None:
    """With what it asks for, and a code of its own."""
    with pytest.raises(Invalid, match=why) as refused:
        check_header(source)
    assert ("script_needs_environment", "/source") == (refused.value.code, refused.value.pointer)


def test_the_last_end_of_a_block_counts() -> None:
    """As the specification says."""
    assert [("script", "a\n///\nb")] == blocks("# /// script\n# a\n# ///\n# b\n# ///\n")
    assert [("a", ""), ("b", "x")] == blocks("# /// a\n# ///\n\n# /// b\n# x\n# ///")


@pytest.mark.parametrize("piece", ["# /// script\n", "# /// script\n#\n", "# ///\n", "# /// script\nx\n", "#\n"])
def test_reading_takes_time_that_grows_with_the_length_alone(piece: str) -> None:
    """A source made of beginnings takes a regular expression minutes."""
    before = time.process_time()
    blocks(piece * (MAX_SOURCE_CHARACTERS // len(piece)))
    assert time.process_time() - before < 3.0
