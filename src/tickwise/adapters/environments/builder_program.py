"""Builds one environment with uv: `builder_program.py REQUEST`, in the current folder, as the user of the tasks.

    REQUEST (JSON)  uv, python, requirements, lock, exclude_newer; nice: added to the niceness of all processes
    venv/           the environment, if the exit status is 0
    output          the words of uv

It stands alone: other users must be able to run it where nothing of Tickwise can be imported. A lock is read here, and
not by the executor, because its text is a stranger's and may take long to read.
"""

import json
import os
import subprocess
import sys
import tomllib

EXIT_UNREADABLE = 3
"""The lock cannot be read; uv itself ends with 1 or 2."""
PYTHON = "venv/bin/python"
PYLOCK = "pylock.toml"


class UnreadableLock(Exception):
    """A text that is neither a `uv.lock` of a project nor a `pylock.toml`."""


def project_of(lock: dict[str, object]) -> str:
    """The text of a `pyproject.toml` that a `uv.lock` fits: uv reads a lock only beside one. Raises
    `UnreadableLock`."""
    packages = lock.get("package")
    roots = [
        package
        for package in (packages if isinstance(packages, list) else [])
        if isinstance(package, dict)
        and isinstance(package.get("source"), dict)
        and "." in (package["source"].get("virtual"), package["source"].get("editable"))
    ]
    if len(roots) != 1 or not isinstance(roots[0].get("name"), str):
        raise UnreadableLock("it is no uv.lock of one project; make one with `uv lock` in the folder of the script")
    python = lock.get("requires-python", ">=3.9")
    fields = {"name": roots[0]["name"], "version": "0", "requires-python": python if isinstance(python, str) else ""}
    return "[project]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())


def _write(name: str, text: str) -> str:
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return name


def _run(*command: str) -> None:
    """Run uv; a failure of it ends this program with its exit status."""
    status = subprocess.call(command, stdin=subprocess.DEVNULL)
    if status != 0:
        sys.exit(status if status > 0 else 128 - status)


def _locked(uv: str, text: str) -> str:
    """The file of requirements that a lock stands for."""
    try:
        lock = tomllib.loads(text)
        if "lock-version" in lock:
            return _write(PYLOCK, text)
        _write("pyproject.toml", project_of(lock))
    except (ValueError, RecursionError, UnreadableLock) as error:
        sys.stdout.write(f"error: the lock cannot be read: {error}\n")
        sys.stdout.flush()
        sys.exit(EXIT_UNREADABLE)
    _write("uv.lock", text)
    _run(uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "-o", "locked.txt")
    return "locked.txt"


def main() -> None:
    """Build what the request asks for."""
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    os.nice(request["nice"])
    uv = request["uv"]
    os.environ["UV_CACHE_DIR"] = request["cache"]
    _run(uv, "venv", "--quiet", "--no-project", "--relocatable", "--python", request["python"], "venv")
    lock, newest = request["lock"], request["exclude_newer"]
    wanted = _locked(uv, lock) if lock else _write("requirements.txt", request["requirements"])
    options = ["--exclude-newer", newest] if newest else []
    if wanted == PYLOCK:  # without it uv warns its reader, who cannot give the option
        options += ["--preview-features", "pylock"]
    _run(uv, "pip", "install", "--python", PYTHON, "--compile-bytecode", "--link-mode", "copy", *options, "-r", wanted)


if __name__ == "__main__":
    main()
