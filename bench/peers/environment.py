"""The environments of the Python peers: one for each, with pinned packages, never ours."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.peers.peer import INSTALLED


@dataclass(frozen=True)
class Environment:
    """The virtual environment of the peer whose `requirements.txt` and `program.py` are in `folder`."""

    folder: Path

    @property
    def place(self) -> Path:
        return INSTALLED / "python" / self.folder.name

    @property
    def python(self) -> Path:
        return self.place / "bin" / "python"

    @property
    def command(self) -> tuple[str, ...]:
        """Calls the peer's program."""
        return (str(self.python), str(self.folder / "program.py"))

    @property
    def variables(self) -> dict[str, str]:
        """Lets the program import what all of them share, and nothing else of ours."""
        return {"PYTHONPATH": str(Path(__file__).parent / "python")}

    def version(self, package: str) -> str:
        """Of a package, as pinned."""
        for line in (self.folder / "requirements.txt").read_text().splitlines():
            name, _, version = line.partition("==")
            if name == package:
                return version
        raise LookupError(f"{self.folder.name}/requirements.txt does not pin {package}")

    def install(self) -> None:
        """Make it, unless it is there with just these packages. Raises CalledProcessError with pip's words."""
        wanted = (self.folder / "requirements.txt").read_text()
        installed = self.place / "installed.txt"
        if installed.exists() and installed.read_text() == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.place)], check=True)
        subprocess.run(
            [str(self.python), "-m", "pip", "install", "--quiet", "-r", str(self.folder / "requirements.txt")],
            check=True,
        )
        installed.write_text(wanted)
