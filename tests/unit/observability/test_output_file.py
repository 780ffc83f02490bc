"""The output of a background process is one file and its predecessor, however much it writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from tickwise.observability.output_file import OutputFile

PROGRAM = """
import os, sys
from pathlib import Path
from tickwise.observability.output_file import OutputFile
output = OutputFile(Path(sys.argv[1]), bytes_most=1_000)
for number in range(100):
    os.write(1, b"line %03d of the output\\n" % number)
    os.write(2, b"line %03d of errors\\n" % number)
    output.bound()
os.write(2, b"the end\\n")
"""


def test_a_file_over_its_limit_is_begun_anew(tmp_path: Path) -> None:
    """Both streams go on in the new one; the last lines are there, and nobody else may read them."""
    file = tmp_path / "up.log"
    with file.open("ab") as output:
        subprocess.run([sys.executable, "-c", PROGRAM, str(file)], stdout=output, stderr=output, check=True)
    assert ["up.log", "up.log.1"] == sorted(os.listdir(tmp_path))
    assert all(each.stat().st_size <= 1_100 for each in tmp_path.iterdir())
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    both = (tmp_path / "up.log.1").read_text() + file.read_text()
    lines = both.splitlines()
    assert "the end" == lines[-1]
    numbers = [int(line.split()[1]) for line in lines if line.endswith("output")]
    assert [*range(numbers[0], 100)] == numbers


def test_a_file_that_was_moved_is_left_to_its_mover(tmp_path: Path) -> None:
    """The open file is another one than that of the name."""
    file = tmp_path / "up.log"
    with file.open("ab") as output:
        output.write(b"x" * 2_000)
        output.flush()
        file.rename(tmp_path / "moved")
        assert not OutputFile(file, bytes_most=1_000, streams=(output.fileno(),)).bound()
        file.write_text("new")
        assert not OutputFile(file, bytes_most=1_000, streams=(output.fileno(),)).bound()
    assert "new" == file.read_text()
