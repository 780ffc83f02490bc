"""`make clients`: clients made by programs of others, from the description as it is served, against a real API.

    tickwise api ──/openapi.json──► spectral (its oas rules)
                                ──► openapi-python-client ─────────────────────► Python
                                ──► openapi-generator ──► Python, TypeScript, Go, Java
    each: generate, build, create a job, find it in a list, cancel it, read the code and pointer of a refusal

No generator gets a switch. What is made lies in `.clients/` and is not committed; the programs that use it lie beside
this file. CLIENTS="go java" chooses. Needs node, go, a JDK and Maven; a missing one is a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients.server import RunningApi, running_api
from tests.style.tree import ROOT

HERE: Final = Path(__file__).parent
PLACE: Final = ROOT / ".clients"
BIN: Final = PLACE / "venv" / "bin"
NODE: Final = PLACE / "node"
DOCUMENT: Final = PLACE / "openapi.json"
MAX_SECONDS: Final = 900


def run(*command: str | Path, cwd: Path = PLACE, env: dict[str, str] | None = None) -> str:
    """Its output. Raises `AssertionError` with all that it said."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=MAX_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def fresh(name: str) -> Path:
    """An empty folder."""
    folder = PLACE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def generated(language: str) -> Path:
    """What openapi-generator makes."""
    folder = fresh(language)
    run(BIN / "openapi-generator-cli", "generate", "-i", DOCUMENT, "-g", language, "-o", folder)
    return folder


# ------------------------------------------------------------------------------------------ each of them


def spectral(_env: dict[str, str]) -> None:
    """Its rules for OpenAPI find nothing, not even a hint."""
    rules = PLACE / "spectral.yaml"
    rules.write_text('extends: ["spectral:oas"]\n', encoding="utf-8")
    program = NODE / "node_modules" / ".bin" / "spectral"
    run(program, "lint", "--fail-severity", "hint", "--ruleset", rules, DOCUMENT)


def openapi_python_client(env: dict[str, str]) -> str:
    folder = fresh("openapi-python-client")
    run(BIN / "openapi-python-client", "generate", "--path", DOCUMENT, "--output-path", folder / "made")
    return run(BIN / "python", HERE / "openapi_python_client.py", env={**env, "PYTHONPATH": str(folder / "made")})


def python(env: dict[str, str]) -> str:
    folder = generated("python")
    return run(BIN / "python", HERE / "openapi_generator_python.py", env={**env, "PYTHONPATH": str(folder)})


def typescript(env: dict[str, str]) -> str:
    made = generated("typescript-fetch")
    folder = fresh("typescript")
    for name in ("main.ts", "tsconfig.json"):
        shutil.copy(HERE / "typescript" / name, folder)
    shutil.copytree(made, folder / "client")
    # The compiler looks for packages upwards from its sources.
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    run(NODE / "node_modules" / ".bin" / "tsc", "--project", folder)
    return run("node", folder / "built" / "main.js", env=env)


def go(env: dict[str, str]) -> str:
    made = generated("go")
    # Its tests want a library that its go.mod does not name; a user of the client runs none of them.
    shutil.rmtree(made / "test")
    run("go", "mod", "tidy", cwd=made)
    run("go", "vet", "./...", cwd=made)
    folder = fresh("go-main")
    shutil.copy(HERE / "go" / "main.go", folder)
    module = "github.com/GIT_USER_ID/GIT_REPO_ID"
    run("go", "mod", "init", "example.com/main", cwd=folder)
    run("go", "mod", "edit", f"-replace={module}={made}", cwd=folder)
    run("go", "mod", "tidy", cwd=folder)
    return run("go", "run", ".", cwd=folder, env=env)


def java(env: dict[str, str]) -> str:
    made = generated("java")
    paths = PLACE / "java-classpath.txt"
    maven = ("mvn", "--quiet", "--batch-mode")
    run(*maven, "-DskipTests", "package", "dependency:build-classpath", f"-Dmdep.outputFile={paths}", cwd=made)
    classpath = f"{made / 'target' / 'classes'}:{paths.read_text().strip()}"
    return run("java", "--class-path", classpath, HERE / "java" / "Main.java", env=env)


JUDGES: Final[dict[str, Callable[[dict[str, str]], None]]] = {"spectral": spectral}
CLIENTS: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "openapi-python-client": openapi_python_client,
    "python": python,
    "typescript": typescript,
    "go": go,
    "java": java,
}


# ------------------------------------------------------------------------------------------ all of them


def check_told(api: RunningApi, name: str, output: str) -> None:
    """What a client told is what is there."""
    told = json.loads(output.strip().splitlines()[-1])
    job = api.get(f"/api/v1/jobs/{told['job_id']}")
    assert (name, "CANCELLED", "0 3 * * *") == (job["name"], job["status"], job["cron_expression"])
    assert {"kind": "shell", "command": "date"} == job["task"]
    assert [told["job_id"]] == told["listed"]
    assert (3, "CANCELLED") == (told["hour"], told["cancelled"])
    assert ("cron_invalid", "/cron") == (told["code"], told["pointer"])


def prepare() -> None:
    """The generators and judges, in their pinned versions, once."""
    PLACE.mkdir(exist_ok=True)
    wanted = (ROOT / "requirements" / "clients.txt").read_text(encoding="utf-8")
    stamp = PLACE / "requirements.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        run(sys.executable, "-m", "venv", "--clear", PLACE / "venv")
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes")
        run(BIN / "python", "-m", "pip", "install", *options, "-r", ROOT / "requirements" / "clients.txt")
        stamp.write_text(wanted, encoding="utf-8")
    locked = HERE / "typescript" / "package-lock.json"
    if not (NODE / "package-lock.json").exists() or (NODE / "package-lock.json").read_bytes() != locked.read_bytes():
        NODE.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "typescript" / name, NODE)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=NODE)


async def check(names: list[str]) -> int:
    """How many of them failed."""
    await asyncio.to_thread(prepare)
    bad = 0
    async with running_api(PLACE / "api.log") as api:
        DOCUMENT.write_text(json.dumps(api.get("/openapi.json")), encoding="utf-8")
        for name in names:
            env = api.environment(CLIENT_NAME=f"made by {name}")
            try:
                if name in JUDGES:
                    await asyncio.to_thread(JUDGES[name], env)
                else:
                    check_told(api, f"made by {name}", await asyncio.to_thread(CLIENTS[name], env))
                print(f"good  {name}", flush=True)
            except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as failure:
                bad += 1
                print(f"bad   {name}: {type(failure).__name__}: {failure}", flush=True)
    print(f"{len(names) - bad} good, {bad} bad")
    return bad


def main() -> int:
    """The command."""
    known = [*JUDGES, *CLIENTS]
    parser = argparse.ArgumentParser(prog="make clients", description=__doc__)
    parser.add_argument("clients", nargs="*", default=known, metavar="CLIENT")
    names = parser.parse_args().clients
    for name in names:
        if name not in known:
            parser.error(f"there is no client {name}; there are {', '.join(known)}")
    return 1 if asyncio.run(check(names)) else 0


if __name__ == "__main__":
    sys.exit(main())
