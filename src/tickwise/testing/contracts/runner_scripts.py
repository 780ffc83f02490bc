"""A look at the syntax of scripts: one finding for each, whatever their text is."""

from __future__ import annotations

import asyncio

import pytest

from tickwise.ports.runner import ScriptCheck, ScriptFinding
from tickwise.testing.contracts.base import Contract

WITHIN_SECONDS = 60.0
BUSY_COMPILER = "lambda:0\n" * 14_000
"""126 kB that keep the compiler of Python 3.11 busy for 20 s."""


class ScriptCheckContract(Contract):
    """The promises of `ScriptCheck`. The adapter's class provides the fixture `checker`, and closes it."""

    async def test_a_script_that_compiles_is_found_good(self, checker: ScriptCheck) -> None:
        """Also one that the compiler only warns of."""
        good = ["print('hello')\n", "x = '\\d'\nassert (x, 1)\n", "# only a comment"]
        assert [ScriptFinding()] * 3 == list(await checker.look(good))

    async def test_each_script_has_its_own_finding(self, checker: ScriptCheck) -> None:
        """In the order of the scripts, with the line of the error."""
        wrong, good, worse = await checker.look(["x = 1\nif x\n    pass\n", "pass", "return 1"])
        assert "line 2" in (wrong.error or "")
        assert ScriptFinding() == good
        assert worse.error
        assert [] == list(await checker.look([]))

    @pytest.mark.parametrize(
        "source",
        ["(" * 10_000, "x = " + "-" * 100_000 + "1", "x = " + "9" * 10_000, "\ud800 = 1", "x = 1\0"],
        ids=["brackets", "nested", "long number", "half a character", "NUL"],
    )
    async def test_a_script_that_breaks_the_compiler_is_found_wrong(self, checker: ScriptCheck, source: str) -> None:
        """Or it is not known whether it compiles; nothing is raised."""
        [found] = await checker.look([source])
        assert found.error or found.unchecked

    async def test_a_script_that_keeps_the_compiler_busy_is_given_up(self, checker: ScriptCheck) -> None:
        """The next script is looked at."""
        async with asyncio.timeout(WITHIN_SECONDS):
            [found] = await checker.look([BUSY_COMPILER])
        assert found.unchecked
        assert found.error is None
        assert [ScriptFinding()] == list(await checker.look(["pass"]))

    async def test_a_look_after_the_close_begins_anew(self, checker: ScriptCheck) -> None:
        """Closing twice is once."""
        await checker.look(["pass"])
        await checker.close()
        await checker.close()
        [found] = await checker.look(["if"])
        assert found.error
