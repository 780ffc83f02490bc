"""Several processes of pytest read the same files, each from another one on."""

from __future__ import annotations

from pathlib import Path

from tests.style import tree
from tests.support.order import FOLDERS, begun_elsewhere

WORKERS = 4


def test_each_worker_reads_all_files_and_begins_at_another_one(tmp_path: Path) -> None:
    """Of the folders of a command line, and of the files; what is no test is left."""
    for name in ("a/test_one.py", "a/test_two.py", "b/test_one.py", "b/help.py", "c/test_one.py", "long.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    args = ["a", "b", "c/test_one.py", "long.py::test_it"]
    found = [begun_elsewhere(args, tmp_path, worker=number, workers=WORKERS) for number in range(WORKERS)]
    wanted = [str(tmp_path / name) for name in ("a/test_one.py", "a/test_two.py", "b/test_one.py")]
    assert [*wanted, "c/test_one.py", "long.py::test_it"] == found[0]
    assert [sorted(found[0])] * WORKERS == [sorted(each) for each in found]
    assert WORKERS == len({each[0] for each in found})


def test_each_folder_but_those_of_units_has_a_place() -> None:
    """One that has none comes after the units: a file of minutes in it would be the last, alone on one process."""
    files = [Path(place) for place in tree.python_files("tests") if not place.startswith("tests/unit/")]
    assert set(FOLDERS) == {file.parent.name for file in files if file.name.startswith("test_")}
