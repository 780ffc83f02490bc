"""Back up a SQLite database while it is in use, check the copy, and keep the newest few.

    tickwise run examples/backup_sqlite.py --cron '0 3 * * *' --param db=/srv/shop/app.db --param keep=7

Parameters:
    db      the database. A job runs in a folder of its own, so give the whole path. A bare name such as `app.db` is
            looked for in `~/tickwise-examples`, and a small demonstration database is made there if it is missing:
            the first try works on any machine.
    folder  where the backups go (default: a folder `backups` beside the database)
    keep    how many of them to keep (default 5)

The same run never makes two backups: a retry finds the file of the attempt before and goes on from there.
"""

import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

OWN_FOLDER = Path.home() / "tickwise-examples"


def read_payload() -> dict:
    """The job's parameters: in a variable, or in a file if they are too large for one."""
    if "TICKWISE_PAYLOAD_FILE" in os.environ:
        return json.loads(Path(os.environ["TICKWISE_PAYLOAD_FILE"]).read_text(encoding="utf-8"))
    return json.loads(os.environ.get("TICKWISE_PAYLOAD") or "{}")


def find_database(text: str) -> Path:
    """The database to back up; one that was named by its whole path must be there."""
    path = Path(text).expanduser()
    if path.is_absolute():
        if not path.is_file():
            sys.exit(f"There is no database {path}. Check the parameter `db`.")
        return path
    path = OWN_FOLDER / path
    if not path.is_file():
        print(f"{text} is no whole path, and {path} is not there: making a demonstration database.")
        make_demonstration(path)
    return path


def make_demonstration(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, placed_at TEXT)")
        rows = [(f"item {number}", datetime.now(UTC).isoformat()) for number in range(1_000)]
        database.executemany("INSERT INTO orders (item, placed_at) VALUES (?, ?)", rows)


def back_up(source: Path, target: Path) -> None:
    """Copy a database that may be in use, then check the copy; it has its name only once it is whole."""
    unfinished = target.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    reading = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(reading, uri=True)) as origin, closing(sqlite3.connect(unfinished)) as copy:
        origin.backup(copy)
        verdict = copy.execute("PRAGMA integrity_check").fetchone()[0]
    if verdict != "ok":
        sys.exit(f"The copy of {source} is damaged: {verdict}")
    unfinished.rename(target)


def main() -> None:
    payload = read_payload()
    if not isinstance(payload.get("db"), str):
        sys.exit("Which database? Give the parameter `db`: --param db=/path/to/app.db")
    keep = int(payload.get("keep", 5))
    database = find_database(payload["db"])
    folder = Path(payload.get("folder") or database.parent / "backups").expanduser()
    folder.mkdir(parents=True, exist_ok=True)

    # The nominal time is the same for every attempt of a run, so a repeated one meets its own file.
    nominal = os.environ.get("TICKWISE_NOMINAL_TIME") or datetime.now(UTC).isoformat()
    moment = datetime.fromisoformat(nominal).astimezone(UTC)
    target = folder / f"{database.stem}-{moment:%Y%m%dT%H%M%SZ}.sqlite3"
    if target.exists():
        print(f"{target} is there already: an earlier attempt of this run made it.")
    else:
        back_up(database, target)
        print(f"{database} → {target}, {target.stat().st_size:,} bytes, checked.")

    backups = sorted(folder.glob(f"{database.stem}-*Z.sqlite3"))
    for old in backups[: -keep if keep > 0 else None]:
        old.unlink()
        print(f"Removed {old.name}: {keep} are kept.")

    if "TICKWISE_RESULT_FILE" in os.environ:
        result = {"backup": str(target), "bytes": target.stat().st_size, "kept": min(len(backups), keep)}
        Path(os.environ["TICKWISE_RESULT_FILE"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
