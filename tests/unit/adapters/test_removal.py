"""What a task left is removed, whatever it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tickwise.adapters.runner.process.removal import remove_folder

NEST = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"


def test_folders_within_folders_are_removed_however_deep(tmp_path: Path) -> None:
    """Deeper than Python itself can follow, and longer than a path may be; what a link leads to stays."""
    kept, folder = tmp_path / "kept", tmp_path / "work"
    kept.mkdir()
    (kept / "file").touch()
    folder.mkdir()
    (folder / "link").symlink_to(kept)
    subprocess.run([sys.executable, "-c", NEST], cwd=folder, check=True)
    remove_folder(folder)
    assert not folder.exists()
    assert (kept / "file").exists()


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    """Somebody else was quicker."""
    remove_folder(tmp_path / "gone")
