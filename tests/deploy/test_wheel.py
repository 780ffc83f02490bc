"""The wheel of this tree works where nothing of the tree is: installed into a fresh environment, with one command.

It is what `pip install 'tickwise[local]'` will install once a release is published.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from tests.support.local_up import environment
from tests.support.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]


def said(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = Path("/")) -> str:
    """What a program writes; an AssertionError with its words if it fails."""
    ran = subprocess.run([*map(str, command)], env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our two wheels and the versions that we lock, in which nothing else is."""
    folder = tmp_path_factory.mktemp("wheel")
    for source in (ROOT / "sdk", ROOT):
        said(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    [wheel], [sdk] = folder.glob("tickwise-*.whl"), folder.glob("tickwise_sdk-*.whl")
    uv, place = Path(sys.executable).with_name("uv"), folder / "env"
    environ = {**os.environ, "UV_SYSTEM_CERTS": os.environ.get("UV_SYSTEM_CERTS", "true")}
    said(uv, "venv", "--quiet", "--python", sys.executable, place)
    install = (uv, "pip", "install", "--quiet", "--python", place / "bin" / "python")
    said(*install, "-c", ROOT / "requirements/local.txt", sdk, f"tickwise[local] @ {wheel.as_uri()}", env=environ)
    return place / "bin" / "tickwise"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A short path that the server's user can reach."""
    made = Path(tempfile.mkdtemp(prefix="tw-wheel-", dir=scratch()))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.mark.takes_up_to(240)
def test_the_wheel_brings_all_that_it_needs(fresh: Path, data_dir: Path) -> None:
    """Database, migrations, pages with their files, command line: `up`, a run, a page, `down`."""
    environ = environment(TICKWISE_DATA_DIR=str(data_dir), PATH=os.environ["PATH"])
    environ = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    assert said(fresh, "version", env=environ).startswith("tickwise ")
    up = said(fresh, "up", "--background", "--port", "0", env=environ)
    try:
        url = next(line.split()[1] for line in up.splitlines() if line.strip().startswith("address"))
        assert "hello" in said(fresh, "run", "--shell", "echo hello", "--now", "--follow", env=environ)
        with httpx2.Client(base_url=url, trust_env=False) as browser:
            page = browser.get("/login")
            assert (200, True) == (page.status_code, "<form" in page.text)
            script = next(part.split('"')[0] for part in page.text.split('src="')[1:])
            assert 200 == browser.get(script).status_code
    finally:
        said(fresh, "down", env=environ)


def test_the_readme_says_that_no_release_is_published_yet() -> None:
    """Apart from what works today; the wheel above shows that it will."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, after = readme.partition("pip install 'tickwise[local]'")
    assert "Once a release is published" in before.rpartition("\n\n")[0].rpartition("\n\n")[2] + before[-200:]
    assert "make up" in before
    assert after
