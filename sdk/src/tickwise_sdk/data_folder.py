"""The data folder of a `tickwise up` of this user, which holds the record of its address and key."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def data_folder(environ: Mapping[str, str]) -> Path:
    """The folder that the environment names, else the platform's for the data of a user; for root
    /var/lib/tickwise."""
    named = environ.get("TICKWISE_DATA_DIR")
    if named:
        return Path(named).expanduser()
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/tickwise")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tickwise"
    base = environ.get("XDG_DATA_HOME") or ""
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share") / "tickwise"
