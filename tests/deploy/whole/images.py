"""The images of a whole deployment, built from Debian's packages and Maven's jars in place of those of registries.

Each stands in for an image that `deploy/compose` names: the same user, folders, variables and programs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.deploy.engine import Docker, base
from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.tools import said
from tests.services.cassandra import CONF as NODE
from tests.services.packages import KAFKA_VERSION, cache, cassandra_home, fetched_jars, kafka_home
from tickwise import __version__

PLACE: Final = Path(__file__).with_name("images")
BUILD_SECONDS: Final = 900.0
SERVERS: Final = ("nginx", "postgres", "kafka", "redis", "prometheus")
"""There is no Grafana in Debian or any registry of packages, so it is left out of the stack."""
ON_CASSANDRA: Final = ("nginx", "cassandra", "kafka", "redis", "prometheus")
"""The same with Cassandra in the place of PostgreSQL."""


def image_of(name: str) -> str:
    """The name of an image of `images/`."""
    return f"localhost/tickwise-{name}:check"


def made(docker: Docker, name: str) -> str:
    """One of `images/`, built where it is not there; what has not changed comes from the engine's cache."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / name
        shutil.copytree(PLACE, context)
        if name == "kafka":
            _add_jars(context / "jars")
        if name == "cassandra":
            _add_node(context)
        if name == "systemd":
            _add_tree(context / "tree")
        docker(
            "build", "--network", "host", "--build-arg", f"BASE={base(docker)}", "--tag", image_of(name),
            "--file", context / f"{name}.Dockerfile", context, seconds=BUILD_SECONDS,
        )  # fmt: skip
    return image_of(name)


def _add_jars(folder: Path) -> None:
    """Kafka's server and its commands."""
    home = cache() / f"kafka-commands-{KAFKA_VERSION}"
    commands = fetched_jars(home, PLACE / "pom.xml", "kafka.version", KAFKA_VERSION)
    folder.mkdir()
    for jar in (*(kafka_home() / "jars").glob("*.jar"), *commands.glob("*.jar")):
        shutil.copy2(jar, folder)


def _add_node(context: Path) -> None:
    """Cassandra's jars, and the options of Java that the nodes of other tests have."""
    shutil.copytree(cassandra_home() / "jars", context / "jars")
    for name in ("jvm.options", "logback.xml"):
        shutil.copy2(NODE / name, context)


def _add_tree(folder: Path) -> None:
    """What the wheels of this tree are made of."""
    unwanted = shutil.ignore_patterns("__pycache__", "dist")
    for name in ("src", "sdk", "requirements"):
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)


def tickwise(docker: Docker, tag: str, *, label: str) -> str:
    """Our own image, by the project's Dockerfile. `label`: sets two images of one source apart, as two releases are."""
    said(["sh", ROOT / "requirements" / "browser.sh"], folder=ROOT, seconds=300)
    image = f"localhost/tickwise:{tag}"
    docker(
        "build", "--network", "host", "--build-arg", f"BASE={base(docker)}",
        "--build-arg", f"VERSION={__version__}", "--label", f"step={label}",
        "--file", DEPLOY / "Dockerfile", "--tag", image, ROOT, seconds=BUILD_SECONDS,
    )  # fmt: skip
    return image


def variables(images: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the compose file takes these images."""
    return {f"IMAGE_{name.upper()}": image for name, image in images.items()}
