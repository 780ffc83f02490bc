"""Builds one environment with uv: `builder_program.py REQUEST`, in the current folder, as the user of the tasks.

    REQUEST (JSON)  uv, python, requirements, lock, exclude_newer; nice: added to the niceness of all processes;
                    from_source: packages without a wheel are built
    venv/           the environment, if the exit status is 0
    output          the words of uv

Without `from_source` nothing of a package runs here: scripts in sandboxes have such environments, and this program is
in none. So no source is built, no option of the requirements says otherwise, and no interpreter of the environment
starts: it would run what wheels leave for its start (`.pth`), or be a program that a wheel put in its place.

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
FROM_WHEELS = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--hash", "--pre")
"""The options that requirements may have where nothing is built: each says where wheels are, and no more. uv lets
`--no-binary` of a file pass before its own `--no-build`, and reads other files (`-r`)."""
SOURCES = ("--no-binary", "--only-binary", "git+")
"""Parts of a line by which a source is built, wherever they stand in it. Nothing that cannot be built is fetched with
git."""


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


def forbidden_option(requirements: str) -> str | None:
    """The part of these requirements that could have a source built; None: there is none."""
    for line in requirements.splitlines():
        begun = line.strip().lstrip("\ufeff").lstrip()
        word = begun.replace("=", " ").split(" ")[0] if begun.startswith("-") else None
        if word is not None and word not in FROM_WHEELS:
            return word[:50]
        found = next((option for option in SOURCES if option in line), None)
        if found is not None:
            return found
    return None


def _write(name: str, text: str) -> str:
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return name


def _run(*command: str) -> None:
    """Run uv; a failure of it ends this program with its exit status."""
    status = subprocess.call(command, stdin=subprocess.DEVNULL)
    if status != 0:
        sys.exit(status if status > 0 else 128 - status)


def built_source(lock: dict[str, object]) -> str | None:
    """The kind of source by which a package of a `pylock.toml` would be built; None: none has one. uv refuses
    them itself; a path of the machine in a stranger's lock is not left to it alone."""
    packages = lock.get("packages")
    listed = packages if isinstance(packages, list) else []
    return next(
        (kind for package in listed if isinstance(package, dict) for kind in ("directory", "vcs") if kind in package),
        None,
    )


def _locked(uv: str, text: str, *, from_source: bool) -> str:
    """The file of requirements that a lock stands for."""
    try:
        lock = tomllib.loads(text)
        if "lock-version" in lock:
            source = None if from_source else built_source(lock)
            if source is not None:
                _refuse(source)
            return _write(PYLOCK, text)
        _write("pyproject.toml", project_of(lock))
    except (ValueError, RecursionError, UnreadableLock) as error:
        sys.stdout.write(f"error: the lock cannot be read: {error}\n")
        sys.stdout.flush()
        sys.exit(EXIT_UNREADABLE)
    _write("uv.lock", text)
    _run(uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "-o", "locked.txt")
    return "locked.txt"


def _check_options(file: str) -> None:
    with open(file, encoding="utf-8", newline="") as opened:
        option = forbidden_option(opened.read())
    if option is not None:
        _refuse(option)


def _refuse(word: str) -> None:
    sys.stdout.write(f"error: the packages of a script in a sandbox are wheels, and {word} says otherwise\n")
    sys.stdout.flush()
    sys.exit(EXIT_UNREADABLE)


def _compile(base: str) -> None:
    """Compile the modules with the interpreter that the environment is made from. What is no Python of this version
    stays as it is: packages have such files."""
    command = [base, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", "venv/lib"]
    subprocess.call(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    """Build what the request asks for."""
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    os.nice(request["nice"])
    uv = request["uv"]
    os.environ["UV_CACHE_DIR"] = request["cache"]
    _run(uv, "venv", "--quiet", "--no-project", "--relocatable", "--python", request["python"], "venv")
    lock, newest = request["lock"], request["exclude_newer"]
    base = os.path.realpath(PYTHON)  # before a package could put another program there
    wanted = (
        _locked(uv, lock, from_source=request["from_source"])
        if lock
        else _write("requirements.txt", request["requirements"])
    )
    options = ["--exclude-newer", newest] if newest else []
    options += ["--compile-bytecode"] if request["from_source"] else ["--no-build"]
    if not request["from_source"] and wanted != PYLOCK:
        _check_options(wanted)
    if wanted == PYLOCK:  # without it uv warns its reader, who cannot give the option
        options += ["--preview-features", "pylock"]
    _run(uv, "pip", "install", "--python", PYTHON, "--link-mode", "copy", *options, "-r", wanted)
    if not request["from_source"]:
        _compile(base)


if __name__ == "__main__":
    main()
