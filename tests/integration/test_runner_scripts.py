"""Scripts as people have them, in real processes: their interpreter, their folder, their files, their variables."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import venv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.test_runner_process import Shop
from tickwise.adapters.runner.process import python_gate
from tickwise.ports.blobs import script_key
from tickwise.ports.runner import Assignment, Ending, TaskLimits, Verdict
from tickwise.testing.contracts.runner import assignment, log_of

TELL = """
import json, os, sys
with open(os.environ["TICKWISE_RESULT_FILE"], "w") as file:
    json.dump({tell}, file)
"""
LIMITED = TaskLimits(1 << 20, cpu_seconds=60.0)
"""A task with limits starts behind a gate: another way through the same code."""


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop(tmp_path)
    await made.runner.start(made.listener, time.time)
    yield made
    await made.runner.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a module that only it has."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "only_here.py").write_text("ANSWER = 42\n")
    return folder


def launch(shop: Shop, source: str, fields: dict[str, Any], **changes: Any) -> Assignment:
    given = assignment({"kind": "python", "source": source, **fields}, **changes)
    shop.runner.launch([given])
    return given


async def told(shop: Shop, tell: str, fields: dict[str, Any], **changes: Any) -> Any:
    """The value of an expression in a script with these fields."""
    ending = await shop.ending(launch(shop, TELL.replace("{tell}", tell), fields, **changes))
    assert ending.verdict is Verdict.OK, ending.error
    return json.loads(ending.result or "")


async def failed(shop: Shop, fields: dict[str, Any], source: str = "pass", **changes: Any) -> Ending:
    ending = await shop.ending(launch(shop, source, fields, **changes))
    assert ending.verdict is Verdict.INVALID, ending
    return ending


@pytest.mark.parametrize("limits", [TaskLimits(1 << 20), LIMITED])
async def test_a_script_runs_with_the_interpreter_that_it_names(
    shop: Shop, environment: Path, limits: TaskLimits
) -> None:
    """With the packages of that virtual environment."""
    fields = {"python": str(environment / "bin" / "python")}
    source = "import only_here" + TELL.replace("{tell}", "[only_here.ANSWER, sys.prefix]")
    ending = await shop.ending(launch(shop, source, fields, limits=limits))
    assert (ending.verdict, json.loads(ending.result or "null")) == (Verdict.OK, [42, str(environment)]), ending


async def test_an_interpreter_may_be_named_by_its_program_alone(shop: Shop) -> None:
    """It is looked for on the PATH of the task, which the task may set."""
    fields = {"python": Path(sys.executable).name, "env": {"PATH": str(Path(sys.executable).parent)}}
    assert await told(shop, "sys.version_info[:2]", fields) == list(sys.version_info[:2])


async def test_a_script_sees_no_difference_in_another_interpreter(shop: Shop, environment: Path) -> None:
    """Its own module, its arguments, and a traceback that begins with it."""
    fields = {"python": str(environment / "bin" / "python")}
    tell = "[__name__, sys.argv == [__file__], sys.path[0] == os.path.dirname(__file__), sorted(globals())[:3]]"
    assert await told(shop, tell, fields) == ["__main__", True, True, ["__builtins__", "__doc__", "__file__"]]
    given = launch(shop, "def f():\n    1 / 0\nf()\n", fields)
    ending = await shop.ending(given)
    assert (ending.verdict, ending.reason, ending.symptoms[:3]) == (
        Verdict.FAILED, "exit_code", ("1", "builtins.ZeroDivisionError", "ZeroDivisionError"),
    )  # fmt: skip
    log = await log_of(shop.blobs, given)
    assert log.count("File ") == 2, log
    assert "python_gate" not in log


@pytest.mark.parametrize("limits", [TaskLimits(1 << 20), LIMITED])
async def test_an_interpreter_that_is_not_there_is_no_reason_to_try_again(
    shop: Shop, tmp_path: Path, limits: TaskLimits
) -> None:
    """A virtual environment that was deleted, or whose Python was: the link leads nowhere."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(tmp_path / "gone")
    for python in (str(tmp_path / "bin" / "python"), "/no/such/python3", "python-of-nowhere"):
        ending = await failed(shop, {"python": python}, limits=limits)
        assert ending.reason == "interpreter_missing"
        assert python in (ending.error or "")
        assert "--python" in (ending.error or "")


async def test_a_program_that_is_no_python_has_not_run_the_script(shop: Shop, tmp_path: Path) -> None:
    """Also one that ends well, and a Python that cannot even begin."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module named encodings' >&2\nexit 1\n")
    broken.chmod(0o755)
    for python, words in (("/bin/true", "/bin/true"), (str(broken), "no module named encodings")):
        ending = await failed(shop, {"python": python})
        assert ending.reason == "interpreter_unusable"
        assert words in (ending.error or "")


async def test_a_python_that_is_too_old_is_named(
    shop: Shop, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its version. (There is no old one here, so a later version is asked for.)"""
    gate = tmp_path / "gate.py"
    gate.write_text(Path(python_gate.__file__).read_text().replace("OLDEST = (3, 9)", "OLDEST = (4, 0)"))
    monkeypatch.setattr("tickwise.adapters.runner.process.faults.OLDEST", (4, 0))
    monkeypatch.setattr(python_gate, "__file__", str(gate))
    later = Shop(tmp_path / "later")
    await later.runner.start(later.listener, time.time)
    ending = await failed(later, {"python": str(environment / "bin" / "python")})
    await later.runner.close()
    assert ending.reason == "python_too_old"
    assert sys.version.split()[0] in (ending.error or "")


@pytest.mark.parametrize("limits", [TaskLimits(1 << 20), LIMITED])
async def test_a_script_runs_in_the_folder_that_it_names(shop: Shop, tmp_path: Path, limits: TaskLimits) -> None:
    """Its own folder stays known, and is empty."""
    fields = {"directory": str(tmp_path)}
    tell = "[os.getcwd(), os.listdir(os.environ['TICKWISE_WORK_FOLDER'])]"
    assert await told(shop, tell, fields, limits=limits) == [str(tmp_path), []]


@pytest.mark.parametrize("limits", [TaskLimits(1 << 20), LIMITED])
async def test_a_folder_that_is_not_there_is_no_reason_to_try_again(
    shop: Shop, tmp_path: Path, limits: TaskLimits
) -> None:
    """A file is none either."""
    (tmp_path / "file").touch()
    for folder in ("/no/such/folder", str(tmp_path / "file")):
        ending = await failed(shop, {"directory": folder}, limits=limits)
        assert ending.reason == "directory_missing"
        assert folder in (ending.error or "")


async def test_files_travel_with_a_script(shop: Shop) -> None:
    """It imports them as modules, and reads them by its own path and from its folder."""
    content = b"\x00\xff"
    digest = hashlib.sha256(b"apart").hexdigest()
    await shop.blobs.put(script_key("default", digest), b"apart")
    files = {
        "helpers/__init__.py": "",
        "helpers/dates.py": "DAY = 'Monday'\n",
        "logo.png": {"base64": "AP8="},
        "stored": {"sha256": digest},
    }
    source = "from helpers.dates import DAY\nfrom pathlib import Path\n" + TELL.replace(
        "{tell}",
        "[DAY, Path('logo.png').read_bytes().hex(), Path(__file__).with_name('stored').read_text(), os.getcwd()]",
    )
    for fields in ({}, {"directory": "/tmp"}):
        where = source.replace("Path('logo.png')", "Path(os.environ['TICKWISE_WORK_FOLDER'], 'logo.png')")
        ending = await shop.ending(launch(shop, where if fields else source, {"files": files, **fields}))
        assert ending.verdict is Verdict.OK, ending.error
        day, logo, stored, folder = json.loads(ending.result or "")
        assert [day, bytes.fromhex(logo), stored] == ["Monday", content, "apart"]
        assert folder == fields.get("directory", folder)


async def test_files_travel_with_a_command(shop: Shop) -> None:
    """They lie in its folder."""
    task = {"kind": "shell", "command": ". ./lib.sh; say", "files": {"lib.sh": "say() { echo said; }\n"}}
    given = assignment(task)
    shop.runner.launch([given])
    assert (await shop.ending(given)).verdict is Verdict.OK
    assert await log_of(shop.blobs, given) == "said\n"


async def test_a_file_that_is_not_stored_ends_the_run_for_good(shop: Shop) -> None:
    """As a script does that is not."""
    ending = await failed(shop, {"files": {"a": {"sha256": "0" * 64}}})
    assert ending.reason == "invalid"


async def test_variables_reach_the_task_and_none_of_ours_can_be_taken(shop: Shop) -> None:
    """The context comes last. What was stored by other means than a check cannot change it either."""
    env = {"REGION": "eu\nwest", "LANG": "de_DE.UTF-8", "TICKWISE_RUN_ID": "forged"}
    tell = "[os.environ['REGION'], os.environ['LANG'], os.environ['TICKWISE_RUN_ID']]"
    given = launch(shop, TELL.replace("{tell}", tell), {"env": env})
    ending = await shop.ending(given)
    assert json.loads(ending.result or "") == ["eu\nwest", "de_DE.UTF-8", str(given.run_id)]


@pytest.mark.parametrize("names_errors", [False, True])
async def test_a_module_that_is_not_installed_is_no_reason_to_try_again(
    shop: Shop, environment: Path, names_errors: bool
) -> None:
    """The error says what helps, and keeps the traceback."""
    for fields in ({}, {"python": str(environment / "bin" / "python")}):
        ending = await failed(shop, fields, "import no_such.module", names_errors=names_errors)
        error = ending.error or ""
        assert ending.reason == "module_missing"
        assert "the module no_such " in error
        assert "--python" in error
        assert "Traceback" in error


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import no_such\nexcept ImportError:\n    raise SystemExit(2)",
        "print(\"ModuleNotFoundError: No module named 'a'\\nbut that is not why\"); raise SystemExit(1)",
        "raise ImportError('cannot')",
    ],
)
async def test_another_failure_is_tried_again(shop: Shop, source: str) -> None:
    """Only the exception that ended the script counts."""
    ending = await shop.ending(launch(shop, source, {}))
    assert (ending.verdict, ending.reason) == (Verdict.FAILED, "exit_code")


async def test_a_script_is_written_in_its_own_coding(shop: Shop) -> None:
    """Python reads what the person wrote. So it does after a byte order mark, and with the line ends of Windows."""
    for source in (
        "# coding: latin-1\nword = 'ü'\n",
        "\ufeffword = 'ü'\n",
        "# -*- coding: utf-8 -*-\r\nword = 'ü'\r\n",
    ):
        ending = await shop.ending(launch(shop, source + TELL.replace("{tell}", "word"), {}))
        assert json.loads(ending.result or "null") == "ü", source
