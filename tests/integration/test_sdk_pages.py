"""The pages of the SDK: their code runs, and prints what they say.

A block that begins with `# name.py` is that file, which workers import; the other blocks of a page are one program, run
on a server with those workers. What it prints are the lines with `# →`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.local_up import OWN_TASKS, ROOT, Local, local_up

PAGES: Final = sorted((ROOT / "docs" / "sdk").glob("*.md"))
_BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (\w+\.py)\n")


def _blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def _files() -> dict[str, str]:
    found = {}
    for page in PAGES:
        for block in _blocks(page):
            named = _FILE.match(block)
            if named is not None:
                assert named[1] not in found, named[1]
                found[named[1]] = block
    return found


def _program(page: Path) -> str:
    return "\n".join(block for block in _blocks(page) if not _FILE.match(block))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the pages."""
    made = tmp_path_factory.mktemp("pages")
    for name, text in _files().items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def up(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A Tickwise whose workers import them."""
    modules = ",".join(name.removesuffix(".py") for name in _files() if not name.startswith("test_"))
    with local_up(
        tmp_path_factory.mktemp("up"), "--database", "memory://",
        TICKWISE_FUNCTION_MODULES=modules, PYTHONPATH=str(folder), **OWN_TASKS,
    ) as made:  # fmt: skip
        yield made


def _ran(command: list[str], folder: Path, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={"PATH": "", **environ}, capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if _program(page)], ids=lambda page: page.stem)
def test_the_program_of_a_page_prints_what_the_page_says(page: Path, up: Local, folder: Path) -> None:
    """Line by line."""
    program = _program(page)
    place = folder / f"page_{page.stem.replace('-', '_')}.py"
    place.write_text(program, encoding="utf-8")
    said = re.findall(r"^ *# → (.*)$", program, re.MULTILINE)
    assert said
    printed = _ran([place.name], folder, TICKWISE_URL=up.url, TICKWISE_API_KEY=up.key)
    assert said == printed.splitlines()


def test_the_tests_of_a_page_pass(folder: Path) -> None:
    """With pytest as a person calls it, which finds the plugin by itself."""
    (named,) = [name for name in _files() if name.startswith("test_")]
    said = _ran(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:asyncio", named], folder
    )
    assert re.search(r"^5 passed", said, re.MULTILINE), said


def test_every_page_is_in_the_list_and_shows_code() -> None:
    """A page without an example says too little."""
    index = (ROOT / "docs" / "sdk" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.name != "README.md":
            assert f"]({page.name})" in index, page.name
            assert _blocks(page), page.name
