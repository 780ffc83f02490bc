"""Functions that the tests of the function runner call, in real workers."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tickwise_sdk import Context, PermanentError, RetryLater, task


@task("tests.nothing")
def nothing() -> None: ...


@task("tests.echo")
def echo(payload: Any) -> Any:
    return payload


@task("tests.context")
def context(context: Context, payload: Any) -> Any:
    return {**context._asdict(), "idempotency_key": context.idempotency_key, "payload": payload}


@task("tests.wait_async")
async def wait_async(payload: Any) -> str:
    """Ends when the file is there: any number at once."""
    while not Path(payload["file"]).exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.01)  # noqa: TID251 - between two looks at a file that the test writes
    return "there"


@task("tests.hold")
def hold(payload: Any) -> None:
    """Holds its worker until the file is there, or it is stopped; says so in another file."""
    try:
        while not Path(payload["file"]).exists():
            time.sleep(0.01)  # noqa: TID251 - between two looks at a file that the test writes
    except BaseException as error:
        Path(payload["file"] + ".stopped").write_text(type(error).__name__)
        raise


@task("tests.hold_stubbornly")
def hold_stubbornly() -> None:
    """Never ends by request."""
    while True:
        try:
            time.sleep(60)  # noqa: TID251 - only a KILL ends it
        except BaseException:  # noqa: BLE001 - it is stubborn
            continue


@task("tests.last")
def last(context: Context, payload: Any) -> None:
    """Runs until it is stopped. While it runs, a file with the name of its run holds the number of its process."""
    file = Path(payload["folder"]) / str(context.run_id)
    file.write_text(f"{os.getpid()}\n")
    try:
        while True:
            time.sleep(0.01)  # noqa: TID251 - until it is stopped
    finally:
        file.unlink()


@task("tests.last_stubbornly")
def last_stubbornly(context: Context, payload: Any) -> None:
    """As `last`, until it is killed."""
    (Path(payload["folder"]) / str(context.run_id)).write_text(f"{os.getpid()}\n")
    hold_stubbornly()


@task("tests.hold_the_interpreter")
def hold_the_interpreter() -> None:
    """Lets no other thread of its worker run: the expression goes through 2 ** 60 ways without a pause."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@task("tests.maybe_hold")
def maybe_hold(payload: Any) -> None:
    """Quick, until one of them is not."""
    if payload.get("file"):
        hold(payload)
    time.sleep(payload.get("seconds", 0))  # noqa: TID251 - a length that the test chooses


@task("tests.die")
def die(payload: Any) -> None:
    """Takes its worker along if the payload says so."""
    if payload.get("die", True):
        os.write(2, b"last words")
        os._exit(9)


@task("tests.die_async")
async def die_async(payload: Any) -> None:
    """Writes a line, and takes its worker along if the payload says so, before anybody is told that it has begun."""
    with Path(payload["file"]).open("a") as file:
        file.write(f"{payload['name']}\n")
    if payload["die"]:
        os._exit(9)
    await asyncio.sleep(payload.get("seconds", 600))  # noqa: TID251 - as a rule until the worker is gone


@task("tests.spawn")
def spawn(payload: Any) -> None:
    """Leaves a child behind and does not stop."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(payload["file"]).write_text(str(child.pid))
    hold_stubbornly()


@task("tests.speak")
def speak(payload: Any) -> None:
    print(payload["text"])  # noqa: T201 - what a task prints is what is tested
    print("to the other stream", file=sys.stderr)  # noqa: T201 - as above


@task("tests.speak_async")
async def speak_async(payload: Any) -> None:
    print("before", payload["text"])  # noqa: T201 - as above
    await asyncio.sleep(0.05)  # noqa: TID251 - lets the others speak in between
    print("after", payload["text"])  # noqa: T201 - as above


@task("tests.fail")
def fail(payload: Any) -> None:
    raise ValueError(payload["text"])


@task("tests.fail_for_good")
def fail_for_good() -> None:
    raise PermanentError("no such customer")


@task("tests.later")
def later(payload: Any) -> None:
    asked = payload.get("pause", "42")
    raise RetryLater("busy", retry_after_seconds=10**400 if asked == "huge" else float(asked))


@task("tests.no_json")
def no_json() -> object:
    return object()


@task("tests.large")
def large() -> str:
    return "x" * 200_000


@task("tests.environment")
def environment() -> dict[str, str]:
    return dict(os.environ)


class Transient(LookupError):
    """An exception that a test's job has a rule for."""


@task("tests.fail_by_name")
def fail_by_name() -> None:
    raise Transient("not yet")


@task("tests.segfault")
def segfault() -> None:
    """Takes its worker along as broken native code does."""
    ctypes.string_at(0)


@task("tests.spawn_unseen")
def spawn_unseen(payload: Any) -> None:
    """Leaves a child behind that has neither our session nor our environment, and does not stop."""
    child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, env={})
    Path(payload["file"]).write_text(str(child.pid))
    hold_stubbornly()


@task("tests.fail_strangely")
def fail_strangely() -> None:
    kind: type[BaseException] = ValueError
    for number in range(100):
        kind = type("x" * 10_000 + str(number), (kind,), {})
    raise kind("strange")


class Untellable(Exception):
    """An exception whose text raises another exception."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Halved(Exception):
    """Says where it comes from with half a character."""


Halved.__module__ = "halved\udcff"


@task("tests.fail_oddly")
def fail_oddly(payload: Any) -> Any:
    """Ends with a text that cannot be encoded, or that cannot be had, as the payload says; well if it says nothing."""
    match payload.get("how"):
        case "text":
            raise ValueError("no file caf\udce9")
        case "class":
            raise Halved("half")
        case "note":
            error = ValueError("noted")
            error.add_note("at caf\udce9")
            raise error
        case "permanent":
            raise PermanentError("no file caf\udce9")
        case "untellable":
            raise Untellable
        case "result":
            return {"name": "caf\udce9"}
        case "print":
            print("caf\udce9")  # noqa: T201 - what a task prints is what is tested
        case "long":
            print("x" * 990)  # noqa: T201 - as above
            raise ValueError("long")
    return None


@task("tests.fail_oddly_async")
async def fail_oddly_async(payload: Any) -> Any:
    return fail_oddly(payload)


@task("tests.trace")
def trace(context: Context, payload: Any) -> Any:
    return {"TRACEPARENT": context.traceparent, "TRACESTATE": context.tracestate}
