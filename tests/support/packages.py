"""Packages for tests of environments, made on the spot: wheels, and source distributions with their own backend."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

BACKEND = """\
import os, sys, time, zipfile
sys.path.insert(0, os.path.dirname(__file__))

def build_wheel(folder, config_settings=None, metadata_directory=None):
{before}
    name = "{name}-{version}-py3-none-any.whl"
    info = "{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("{name}.py", {body!r})
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "{name}"
version = "{version}"
"""


def add_wheel(folder: Path, name: str, body: str = "", *, version: str = "1.0", requires: tuple[str, ...] = ()) -> Path:
    """A wheel with one module of this name."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": body,
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = _record(files) + f"{info}/RECORD,,\n"
    place = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return place


def _record(files: Mapping[str, str]) -> str:
    digests = {path: hashlib.sha256(content.encode()).digest() for path, content in files.items()}
    return "".join(
        f"{path},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(files[path].encode())}\n"
        for path, digest in digests.items()
    )


def add_source(folder: Path, name: str, before: str = "pass", *, body: str = "", version: str = "1.0") -> Path:
    """A source distribution whose build first does `before`: lines of Python, which need nothing installed."""
    indented = "\n".join(f"    {line}" for line in before.splitlines())
    files = {
        "pyproject.toml": PROJECT.format(name=name, version=version),
        "backend.py": BACKEND.format(before=indented, name=name, version=version, body=body),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    place = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(place, "w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(content.encode())
            archive.addfile(entry, io.BytesIO(content.encode()))
    return place


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Nothing: a test reads the answers."""


@contextlib.contextmanager
def index_of(folder: Path) -> Iterator[str]:
    """The address of an index that serves the files of this folder, `NAME/FILE` each, over HTTP."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
