"""Attacks on the build of an environment: the packages of a script in a sandbox run nothing outside of it.

A build is a plain process with the network of its executor. Each attack leaves a mark if code of a package ran in it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.environments import opened
from tests.support.packages import add_source, add_wheel
from tickwise.adapters.environments.builder_program import forbidden_option
from tickwise.adapters.environments.environments import UvEnvironments
from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.process.sandbox.interpreter_mounts import interpreter_mounts
from tickwise.adapters.runner.process.script_environments import ScriptEnvironments
from tickwise.adapters.runner.scripts.demand import demand_of
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.environments import ENVIRONMENT_INVALID, EnvironmentDemand, EnvironmentFailure
from tickwise.testing.contracts.environments import ignored


class Packages:
    """An index of packages that attack, and the environments of an executor."""

    def __init__(self, root: Path, environments: UvEnvironments) -> None:
        self.links = root / "links"
        self.mark = root / "ran"
        self.environments = environments

    @property
    def attack(self) -> str:
        """A line of Python that leaves the mark."""
        return f"open({str(self.mark)!r}, 'w').close()"

    async def built(self, requirements: str, *, from_source: bool = False) -> EnvironmentFailure | Path:
        """The failure of a demand, or the folder of its environment."""
        demand = EnvironmentDemand("default", requirements, from_source=from_source)
        found = await self.environments.acquire(demand, ignored)
        if isinstance(found, EnvironmentFailure):
            return found
        found.release()
        return found.program.parent.parent


@pytest_asyncio.fixture
async def packages(tmp_path: Path) -> AsyncIterator[Packages]:
    (tmp_path / "links").mkdir()
    async with opened(tmp_path, find_links=str(tmp_path / "links")) as environments:
        yield Packages(tmp_path, environments)


@probe(13, stopped_by="packages of a script in a sandbox are wheels, and no option of its requirements says otherwise")
@pytest.mark.parametrize(
    "requirements",
    ["evil", "--no-binary evil\nevil", "--no-binary=:all:\nevil", "# x \\\n--no-binary evil\nevil", "evil @ {file}"],
    ids=["plain", "no_binary", "all", "behind_a_comment", "by_its_address"],
)
async def test_no_source_is_built_for_a_script_in_a_sandbox(packages: Packages, requirements: str) -> None:
    """A source distribution whose build runs code, outside of the sandbox of the script that asks for it.

    The failure says what to do.
    """
    source = add_source(packages.links, "evil", packages.attack)
    found = await packages.built(requirements.format(file=source.as_uri()))
    assert isinstance(found, EnvironmentFailure)
    assert ENVIRONMENT_INVALID == found.reason
    assert "isolation process" in found.detail
    assert not packages.mark.exists()


@probe(13, stopped_by="a lock names no folder and no repository where nothing is built")
@pytest.mark.parametrize("is_editable", [True, False])
async def test_a_lock_names_a_folder_to_build(packages: Packages, tmp_path: Path, is_editable: bool) -> None:
    """A `pylock.toml` with a folder of the machine, which another task of the author fills."""
    with tarfile.open(add_source(packages.links, "evil", packages.attack)) as archive:
        archive.extractall(tmp_path / "filled", filter="data")
    folder = tmp_path / "filled" / "evil-1.0"
    backend = folder / "backend.py"
    backend.write_text(backend.read_text() + "\nbuild_editable = build_wheel\n")
    editable = "true" if is_editable else "false"
    lock = (
        'lock-version = "1.0"\ncreated-by = "attack"\n[[packages]]\nname = "evil"\n'
        f"directory = {{ path = {json.dumps(str(folder))}, editable = {editable} }}\n"
    )
    found = await packages.environments.acquire(EnvironmentDemand("default", lock=lock), ignored)
    assert isinstance(found, EnvironmentFailure)
    assert not packages.mark.exists()
    built = await packages.environments.acquire(EnvironmentDemand("default", lock=lock, from_source=True), ignored)
    assert not isinstance(built, EnvironmentFailure), built
    built.release()
    assert packages.mark.exists(), "the attack works where sources are built"


@probe(12, stopped_by="nothing: the build has the rights of the script itself", is_open=True)
async def test_a_source_is_built_for_a_plain_process(packages: Packages) -> None:
    """The same for a script that is a plain process.

    So what stops the other is its demand.
    """
    add_source(packages.links, "evil", packages.attack)
    found = await packages.built("evil", from_source=True)
    assert not isinstance(found, EnvironmentFailure), found
    assert packages.mark.exists()


@probe(13, stopped_by="no interpreter of an environment starts while it is built")
@pytest.mark.parametrize("file", ["evil.pth", "sitecustomize.py", "evil-1.0.data/scripts/python"])
async def test_a_wheel_runs_nothing_while_it_is_installed(packages: Packages, file: str) -> None:
    """A wheel with what an interpreter runs at its start, and with a program by the name of an interpreter.

    Its modules are compiled all the same.
    """
    content = (
        f"import os; {packages.attack}\n" if file.endswith((".pth", ".py")) else f"#!/bin/sh\n: > {packages.mark}\n"
    )
    with zipfile.ZipFile(add_wheel(packages.links, "evil", "WORD = 1\n"), "a") as archive:
        archive.writestr(file, content)
    found = await packages.built("evil")
    assert not packages.mark.exists()
    if isinstance(found, EnvironmentFailure):
        assert file.startswith("evil-1.0.data"), found  # uv may refuse a program in the place of its own
    else:
        assert [*found.glob("lib/python*/site-packages/__pycache__/evil.*.pyc")]


@probe(13, stopped_by="the wall of the script decides, and no field of its task")
@pytest.mark.parametrize("isolation", [*Isolation])
def test_only_a_plain_process_has_packages_from_source(isolation: Isolation) -> None:
    """A script in a sandbox or a container that asks for packages from source."""
    demand = demand_of("default", {"requirements": "evil"}, "pass", isolation)
    assert demand is not None
    assert (isolation is Isolation.PROCESS) == demand.from_source


@probe(13, stopped_by="each line of the requirements is read before uv reads it")
@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("requests<3", None),
        ("psycopg2-binary==2.9 --hash=sha256:00", None),
        ("--index-url=https://example.com/simple", None),
        ("-i https://example.com/simple", None),
        ("\ufeff-r https://example.com/more.txt", "-r"),
        ("requests \\\n    --hash=sha256:00", None),
        ("requests\r--no-binary requests", "--no-binary"),
        ("  --no-binary\t:all:", "--no-binary\t:all:"),
        ("requests --no-binary requests", "--no-binary"),
        ("--only-binary :none:", "--only-binary"),
        ("-c more.txt", "-c"),
        ("--constraint more.txt", "--constraint"),
        ("-e .", "-e"),
        ("evil @ git+https://example.com/evil", "git+"),
    ],
)
def test_only_options_that_say_where_wheels_are_pass(line: str, option: str | None) -> None:
    """Options of requirements that have a source built, or name another file of requirements, behind 400 lines."""
    assert option == forbidden_option("\n" * 400 + line)


@probe(
    13,
    stopped_by="of an environment for scripts, itself and what its links lead to are shown, and nothing that it names",
)
@pytest.mark.parametrize("file", ["evil.pth", "evil-1.0.data/data/pyvenv.cfg"])
async def test_a_package_names_folders_of_the_machine(packages: Packages, tmp_path: Path, file: str) -> None:
    """A wheel whose `.pth` file, or whose `pyvenv.cfg` in the place of the environment's own, names a folder of the
    machine, so that the sandbox of its script shows it."""
    shown = tmp_path / "machine"
    (shown / "lib/python3.11").mkdir(parents=True)
    (shown / "lib/python3.11/os.py").touch()
    with zipfile.ZipFile(add_wheel(packages.links, "evil"), "a") as archive:
        archive.writestr(file, f"{shown}\n" if file.endswith(".pth") else f"home = {shown}/bin\n")
    found = await packages.environments.acquire(EnvironmentDemand("default", "evil"), ignored)
    assert not isinstance(found, EnvironmentFailure), found
    own = Interpreter(program=sys.executable, launcher="")
    built = ScriptEnvironments(packages.environments, own)._python_of(found).interpreter
    mounts = interpreter_mounts(built.program, is_built=built.is_built)
    found.release()
    assert str(found.program.parent.parent) in {mount.target for mount in mounts}
    assert [] == [mount for mount in mounts if mount.source.startswith(str(shown))]
