"""The surroundings of a script: what a person says of them, and what stands for what is not said."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from tickwise.cli import surroundings, work
from tickwise.cli.session import Session
from tickwise.cli.surroundings import Surroundings

HERE = "http://127.0.0.1:8470"
ELSEWHERE = "https://tickwise.example.com"


def _session(url: str = HERE, **environ: str) -> Session:
    return Session(url=url, key="k", environ={"PATH": os.defpath, **environ})


def _said(**given: Any) -> Surroundings:
    return Surroundings(**{"python": None, "directory": None, "env": (), "files": (), "file_option": "--file", **given})


def _script(folder: Path, text: str = "print(1)\n") -> work.Script:
    path = folder / "report.py"
    path.write_text(text)
    return work.read_script(path)


def _environment(folder: Path) -> Path:
    """What a virtual environment looks like from outside."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder


def _python(
    capsys: pytest.CaptureFixture[str], session: Session, script: work.Script, **given: Any
) -> tuple[str | None, str]:
    """The interpreter that is sent, and what the person is told of it."""
    task = surroundings.of_task(session, _said(**given), work.script_task(script), script=script)
    return task.get("python"), capsys.readouterr().err


def test_python_is_what_the_person_says_before_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program, the folder of a virtual environment, or a name on the PATH. The answer says which."""
    script = _script(tmp_path, "#!/usr/bin/python9\n")
    environment = _environment(tmp_path / "venv")
    whole = str(environment / "bin" / "python")
    session = _session(VIRTUAL_ENV="/else")
    assert _python(capsys, session, script, python=str(environment)) == (whole, f"It runs with {whole} (--python).\n")
    assert _python(capsys, session, script, python=whole)[0] == whole
    assert _python(capsys, session, script, python="sh")[0] in ("/bin/sh", "/usr/bin/sh")


def test_a_folder_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    """So is a program that is not there: before anything is sent."""
    script = _script(tmp_path)
    for named, words in ((str(tmp_path), "no virtual environment"), ("./gone", "no such file"), ("gone", "PATH")):
        with pytest.raises(click.UsageError, match=words):
            surroundings.of_task(_session(), _said(python=named), work.script_task(script), script=script)


def test_the_first_line_is_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole path as it is; `env` looks on the caller's own PATH."""
    environment = _environment(tmp_path / "venv")
    whole = str(environment / "bin" / "python")
    session = _session(PATH=str(environment / "bin"), VIRTUAL_ENV="/else")
    for line in (f"#!{whole} -u", "#!/usr/bin/env python", "#!/usr/bin/env -S python -u"):
        told = _python(capsys, session, _script(tmp_path, line + "\nprint(1)\n"))
        assert told[0] == whole
        assert told[1].startswith(f"It runs with {whole} (the first line of report.py)."), told


def test_a_first_line_that_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """At once, and not at three in the morning."""
    for line in ("#!/no/such/python3", "#!/usr/bin/env python9"):
        script = _script(tmp_path, line + "\nprint(1)\n")
        with pytest.raises(click.UsageError, match="--python PATH"):
            surroundings.of_task(_session(), _said(), work.script_task(script), script=script)


def test_the_active_virtual_environment_is_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the server is on this machine."""
    environment = _environment(tmp_path / "venv")
    whole = str(environment / "bin" / "python")
    script = _script(tmp_path)
    assert _python(capsys, _session(VIRTUAL_ENV=str(environment)), script) == (
        whole, f"It runs with {whole} (your active virtual environment).\n",
    )  # fmt: skip
    assert _python(capsys, _session(ELSEWHERE, VIRTUAL_ENV=str(environment)), script)[0] is None
    gone = _python(capsys, _session(VIRTUAL_ENV=str(tmp_path / "gone")), script)
    assert gone[0] is None
    assert "is not there any more" in gone[1]


def test_packages_that_a_script_declares_are_before_what_stands_for_no_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a first line nor an active virtual environment has them; a Python that is named has what it has."""
    environment = _environment(tmp_path / "venv")
    session = _session(VIRTUAL_ENV=str(environment))
    header = '#!/usr/bin/env python9\n# /// script\n# dependencies = ["requests"]\n# ///\nimport requests\n'
    script = _script(tmp_path, header)
    assert _python(capsys, session, script) == (None, "It runs with the packages that it declares.\n")
    assert _python(capsys, session, script, python=str(environment))[0] == str(environment / "bin" / "python")
    plain = _script(tmp_path)
    declared = {**work.script_task(plain), "requirements": "requests"}
    assert "python" not in surroundings.of_task(session, _said(), declared, script=plain)
    with pytest.raises(click.UsageError, match="--python and --requirements exclude each other"):
        surroundings.of_task(session, _said(python=str(environment)), declared, script=plain)


def test_else_it_is_the_executors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is sent. What `env` finds here says nothing of another machine."""
    script = _script(tmp_path, "#!/usr/bin/env python3\nprint(1)\n")
    for session, one in ((_session(), _script(tmp_path, "1\n")), (_session(ELSEWHERE), script)):
        python, told = _python(capsys, session, one)
        assert python is None
        assert told.startswith("It runs with the executor's Python ")


def test_paths_of_another_machine_are_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not looked for here."""
    script, session = _script(tmp_path), _session(ELSEWHERE)
    task = surroundings.of_task(
        session, _said(python="/srv/venv/bin/python", directory="/srv/x"), work.script_task(script), script=script
    )
    assert (task["python"], task["directory"]) == ("/srv/venv/bin/python", "/srv/x")
    for given in ({"python": "venv/bin/python"}, {"directory": "reports"}):
        with pytest.raises(click.UsageError, match="server is elsewhere"):
            surroundings.of_task(session, _said(**given), work.script_task(script), script=script)


def test_a_folder_here_is_sent_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And must be one."""
    monkeypatch.chdir(tmp_path)
    task = surroundings.of_task(_session(), _said(directory="."), {"kind": "shell", "command": "pwd"})
    assert task["directory"] == str(tmp_path)
    with pytest.raises(click.UsageError, match="no such folder"):
        surroundings.of_task(_session(), _said(directory="gone"), {"kind": "shell", "command": "pwd"})


def test_variables_are_name_and_value() -> None:
    """What is no such pair is not repeated: it may be a secret alone."""
    command = {"kind": "shell", "command": "env"}
    task = surroundings.of_task(_session(), _said(env=("A=1", "B==x=", "C=")), command)
    assert task["env"] == {"A": "1", "B": "=x=", "C": ""}
    for given in ("hunter2", "=hunter2"):
        with pytest.raises(click.UsageError) as refused:
            surroundings.of_task(_session(), _said(env=(given,)), command)
        assert "hunter2" not in str(refused.value)


def test_files_have_their_place_below_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder brings all of its files, without what is made by tools; a file from elsewhere has its last name."""
    script = _script(tmp_path)
    for name in ("helpers/dates.py", "helpers/__pycache__/dates.pyc", "helpers/.git/x", "helpers/deep/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("ü")
    (tmp_path / "logo.png").write_bytes(b"\x89\xff")
    given = (str(tmp_path / "helpers"), str(tmp_path / "logo.png"), "/etc/hostname")
    task = surroundings.of_task(_session(), _said(files=given), work.script_task(script), script=script)
    assert task["files"] == {
        "helpers/dates.py": "ü",
        "helpers/deep/a.csv": "ü",
        "logo.png": {"base64": base64.b64encode(b"\x89\xff").decode()},
        "hostname": Path("/etc/hostname").read_text(),
    }


def test_modules_beside_a_script_that_do_not_travel_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of modules beside it too, in any encoding: else a run at night is the first to say so."""
    monkeypatch.chdir(tmp_path)
    script = _script(tmp_path, "import csv\nfrom loader import load\nimport shop.orders, tabulate\nimport data\n")
    (tmp_path / "loader.py").write_text("import texts\nfrom . import siblings\n")
    (tmp_path / "texts.py").write_bytes("# coding: latin-1\nWORD = 'Größe'\nimport prices\n".encode("latin-1"))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "orders.py").write_text("import prices\n")
    for other in ("prices", "siblings", "unused"):
        (tmp_path / f"{other}.py").write_text("")
    (tmp_path / "data").mkdir()
    told = _python(capsys, _session(), script)[1]
    told = " ".join(told.split())
    assert told.endswith("--file loader.py --file shop --file texts.py --file prices.py")
    assert "loader.py, shop, texts.py, prices.py" in told


def test_what_travels_is_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is anything where a variable says where modules are, or in a script that is no Python yet."""
    script = _script(tmp_path, "import shop\nfrom loader import load\n")
    (tmp_path / "loader.py").write_text("")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    told = _python(capsys, _session(), script, files=(str(tmp_path / "shop"),))[1]
    assert (True, False) == (
        "imports loader.py from its own folder; it does not travel" in told,
        "shop" in told.partition("Warning")[2],
    )
    whole = (str(tmp_path / "shop"), str(tmp_path / "loader.py"))
    for quiet in ({"files": whole}, {"env": ("PYTHONPATH=/srv/lib",)}):
        assert "Warning" not in _python(capsys, _session(), script, **quiet)[1]
    assert "Warning" not in _python(capsys, _session(), _script(tmp_path, "import loader\nif"))[1]


def test_files_that_a_shell_script_reads_and_that_do_not_travel_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those beside it. A path of the system, a variable, and a word in a sentence are nobody's to judge."""
    (tmp_path / "clean.sh").write_text(
        '#!/bin/sh\n. ./settings.sh\nsource lib.sh; true\n. /etc/profile\n. "$HOME/x"\necho . notes.txt\n. ./gone.sh\n'
    )
    for name in ("settings.sh", "lib.sh", "notes.txt"):
        (tmp_path / name).write_text("A=1\n")
    script = work.read_script(tmp_path / "clean.sh")

    def told(**given: Any) -> str:
        surroundings.of_task(_session(), _said(**given), work.script_task(script), script=script)
        return " ".join(capsys.readouterr().err.split())

    assert "clean.sh reads settings.sh, lib.sh from its own folder; they do not travel with the job" in told()
    assert "Warning" not in told(files=tuple(str(tmp_path / name) for name in ("settings.sh", "lib.sh")))
    assert "Warning" not in told(directory=str(tmp_path))


def test_files_that_are_too_large_or_none_are_refused(tmp_path: Path) -> None:
    """Before they are read: one of them may be of any size."""
    command = {"kind": "shell", "command": "ls"}
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    for given, words in ((str(tmp_path / "large"), "1 MB"), ("/dev/zero", "no plain file"), ("gone", "no such file")):
        with pytest.raises(click.UsageError, match=words):
            surroundings.of_task(_session(), _said(files=(given,)), command)


def test_an_edit_changes_what_it_names_and_keeps_the_rest() -> None:
    """`none` takes away; a name alone takes one variable away."""
    task = {"kind": "python", "source": "1", "python": "/p", "directory": "/d", "env": {"A": "1", "B": "2"}}
    session = _session(ELSEWHERE)
    assert surroundings.of_task(session, _said(env=("B=3", "A")), task) == task | {"env": {"B": "3"}}
    gone = _said(python="none", directory="none", env=("none",), files=("none",))
    assert surroundings.of_task(session, gone, task) == {"kind": "python", "source": "1"}


@pytest.mark.parametrize("task", [{"kind": "http", "url": "http://h/"}, {"kind": "function", "name": "f"}, {}])
def test_other_tasks_have_no_surroundings(task: dict[str, Any]) -> None:
    """An option that would do nothing is refused."""
    with pytest.raises(click.UsageError, match="--env belongs to scripts"):
        surroundings.of_task(_session(), _said(env=("A=1",)), task)
    assert surroundings.of_task(_session(), _said(), task) == task


def test_a_command_has_no_python() -> None:
    """Its interpreter is a shell, or itself."""
    with pytest.raises(click.UsageError, match="--python is for"):
        surroundings.of_task(_session(), _said(python="sh"), {"kind": "shell", "command": "ls"})


def test_a_script_is_read_as_python_reads_it(tmp_path: Path) -> None:
    """Its coding is the one that it names; a byte order mark says nothing; line ends stay."""
    path = tmp_path / "a.py"
    for content, text in (
        (b"# coding: latin-1\nprint('\xfc')\n", "# coding: latin-1\nprint('ü')\n"),
        (b"\xef\xbb\xbfprint(1)\r\n", "print(1)\r\n"),
    ):
        path.write_bytes(content)
        assert work.read_script(path).source == text
    path.write_bytes(b"print('\xfc')\n")
    with pytest.raises(click.UsageError, match="not UTF-8"):
        work.read_script(path)


def test_a_shell_script_loses_what_no_shell_takes(tmp_path: Path) -> None:
    """A byte order mark, and the line ends of Windows."""
    path = tmp_path / "a.sh"
    path.write_bytes(b"\xef\xbb\xbf#!/bin/sh\r\ndate\r\n")
    assert work.script_task(work.read_script(path)) == {"kind": "shell", "command": "#!/bin/sh\ndate\n"}
