"""A small kubelet for tests: it runs the pods of one node of a real control plane, as processes of this machine.

    API server ──watch──► kubelet ──► process behind bubblewrap, with /tickwise/in from the pod's Secret
               ◄─status──┘    └─ HTTPS: /containerLogs/…, which the API server asks for `kubectl logs`

It does for one container what the real one does: waits for the Secret, fills in `$(NAME)`, reports states, reads the
termination message, sends TERM, waits for the grace and kills. It has no images, no user of the pod's, no cgroups: what
those cause (pulls that fail, OOM kills, evictions) a test has it report (`waits`, `report`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self, cast
from uuid import uuid4

import aiohttp
import psutil
from aiohttp import web

from tests.services.kubernetes import TOKEN
from tests.services.packages import program
from tests.services.server import free_port
from tests.support.process_groups import kill_group

LABEL: Final = "tickwise.tests/node"
TASK: Final = "task"
MESSAGE_BYTES: Final = 4_096
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}


def now(*, exact: bool = False) -> str:
    """RFC 3339; `exact`: with nanoseconds, as a log has them."""
    instant = datetime.now(UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%f000Z" if exact else "%Y-%m-%dT%H:%M:%SZ")


class PodLog:
    """The log of one container: times and pieces, as the runtime writes them."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.is_open = True
        self.changed = asyncio.Event()

    def add(self, content: bytes) -> None:
        """Keep whole lines, and what is left at the end."""
        for line in content.splitlines(keepends=True):
            if self.lines and not self.lines[-1][1].endswith(b"\n"):
                stamp, before = self.lines[-1]
                self.lines[-1] = (stamp, before + line)
            else:
                self.lines.append((now(exact=True), line))
        self.changed.set()

    def close(self) -> None:
        """No more comes."""
        self.is_open = False
        self.changed.set()


class RunningPod:
    """A pod on this node."""

    def __init__(self, pod: Mapping[str, Any], folder: Path) -> None:
        self.pod = pod
        self.folder = folder
        self.log = PodLog()
        self.process: asyncio.subprocess.Process | None = None
        self.is_reported = False
        """The API server knows that it runs."""
        self.deleted = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Kubelet:
    """`async with Kubelet(port) as node:` — one node, with its pods."""

    def __init__(self, port: int, token: str = TOKEN, cpu: str = "32", pods: str = "2000") -> None:
        self.api = f"https://127.0.0.1:{port}"
        self.token = token
        self.name = f"node-{uuid4().hex[:12]}"
        self.waits: dict[str, tuple[str, str]] = {}
        """By the image: reason and message with which its containers wait for ever."""
        self.holds: set[str] = set()
        """Images whose pods are left as they are."""
        self.pods: dict[str, RunningPod] = {}
        """By their numbers."""
        self.starts: list[str] = []
        """The names of the Jobs whose programs were started, one for each start."""
        self.keeps_logs = True
        self._capacity = {"cpu": cpu, "memory": "64Gi", "pods": pods}
        self._folder = Path(tempfile.mkdtemp(prefix="tickwise-kubelet-"))
        self._port = free_port()
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession
        self._site: web.AppRunner | None = None

    @property
    def template(self) -> Mapping[str, Any]:
        """The pod template that brings pods onto this node."""
        return {"spec": {"nodeSelector": {LABEL: self.name}}}

    # ------------------------------------------------------------------ its life

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.token}"}, connector=aiohttp.TCPConnector(ssl=False, limit=0)
        )
        try:
            await self._join()
        except BaseException:
            await self._leave()
            raise
        return self

    async def _join(self) -> None:
        await self._serve()
        node = {
            "metadata": {"name": self.name, "labels": {LABEL: self.name}},
            "status": {
                "capacity": self._capacity, "allocatable": self._capacity,
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }  # fmt: skip
        await self.ask("POST", "/api/v1/nodes", node)
        self._tasks.append(asyncio.get_running_loop().create_task(self._watch()))

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        for task in [*self._tasks, *(each.task for each in self.pods.values() if each.task)]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for each in self.pods.values():
            self.kill(each)
            if each.process is not None:
                cast("Any", each.process)._transport.close()  # else its pipe is open until a later test finds it
                await each.process.wait()
        try:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self.ask("DELETE", f"/api/v1/nodes/{self.name}")
        finally:
            if self._site is not None:
                await self._site.cleanup()
            await self._session.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The answer of the API server; None to 404."""
        async with self._session.request(
            method, f"{self.api}{path}", json=body if headers is None else None,
            data=json.dumps(body) if headers is not None else None, headers=headers,
        ) as answer:  # fmt: skip
            if answer.status == 404:
                return None
            content = await answer.read()
            if answer.status >= 400 and answer.status != 409:
                raise aiohttp.ClientError(f"{method} {path}: {answer.status} {content!r}")
            return json.loads(content)

    def authorise(self) -> None:
        """Use its token from now on."""
        self._session.headers["Authorization"] = f"Bearer {self.token}"

    async def _serve(self) -> None:
        key, certificate = self._folder / "key.pem", self._folder / "cert.pem"
        openssl = await asyncio.to_thread(program, "openssl")
        await asyncio.to_thread(
            subprocess.run,
            [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
             str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=kubelet"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        self._site = site = web.AppRunner(app, shutdown_timeout=0.1)
        await site.setup()
        await web.TCPSite(site, "127.0.0.1", self._port, ssl_context=context).start()

    # ------------------------------------------------------------------ its pods

    async def _watch(self) -> None:
        path = f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}"
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, ValueError):
                listed = await self.ask("GET", path)
                for pod in listed["items"]:
                    self._see(pod)
                version = listed["metadata"]["resourceVersion"]
                query = f"{path}&watch=true&resourceVersion={version}"
                timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
                async with self._session.get(f"{self.api}{query}", timeout=timeout) as answer:
                    while line := await answer.content.readline():
                        said = json.loads(line)
                        if said["type"] in ("ADDED", "MODIFIED"):
                            self._see(said["object"])
            await asyncio.sleep(0.1)  # noqa: TID251  # between two tries to reach a server that may be down

    def _see(self, pod: Mapping[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self.pods:
            made = RunningPod(pod, self._folder / uid)
            self.pods[uid] = made
            made.task = asyncio.get_running_loop().create_task(self._carry(made))
        if pod["metadata"].get("deletionTimestamp"):
            self.pods[uid].pod = pod
            self.pods[uid].deleted.set()

    async def _carry(self, here: RunningPod) -> None:
        """A pod, from its first sight to its end."""
        image = self._container(here)["image"]
        bare = image.removeprefix("docker.io/")
        if bare in self.waits or image in self.waits:
            reason, message = self.waits.get(bare) or self.waits[image]
            await self.report(here, {"phase": "Pending", "containerStatuses": [
                self._state(here, {"waiting": {"reason": reason, "message": message}})]})  # fmt: skip
        elif image not in self.holds:
            await self._run(here)
        await here.deleted.wait()
        if here.process is None:
            await self.report(here, {"phase": "Failed"})
        path = f"{self._path(here)}?gracePeriodSeconds=0"
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self.ask("DELETE", path)
                return
            await asyncio.sleep(0.2)  # noqa: TID251  # the API server is down

    async def _run(self, here: RunningPod) -> None:
        secret = await self._secret(here)
        if secret is None:
            return  # deleted before it began
        command, environment, mounts = self._command(here, secret)
        here.process = await asyncio.create_subprocess_exec(
            *mounts, *command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.starts.append(here.pod["metadata"]["labels"]["job-name"])
        began = now()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(here))
            ending = tasks.create_task(self._end_when_asked(here))
            # Beside the program, which ends although the API server is down and is not told that it runs.
            tasks.create_task(self._report_running(here, began))
            code = await here.process.wait()
            self.kill(here)
            await reading
            ending.cancel()
            here.log.close()
        message = b""
        file = here.folder / "message"
        if file.exists():
            message = file.read_bytes()[:MESSAGE_BYTES]
        await self.ended(here, 128 - code if code < 0 else code, began=began, message=message.decode(errors="replace"))

    async def _report_running(self, here: RunningPod, began: str) -> None:
        state = self._state(here, {"running": {"startedAt": began}})
        await self.report(here, {"phase": "Running", "containerStatuses": [state]})
        here.is_reported = True

    async def ended(self, here: RunningPod, code: int, *, began: str, reason: str = "", message: str = "") -> None:
        """Report the end of its container."""
        end = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "message": message,
               "startedAt": began, "finishedAt": now()}  # fmt: skip
        phase = "Succeeded" if code == 0 else "Failed"
        await self.report(here, {"phase": phase, "containerStatuses": [self._state(here, {"terminated": end})]})

    async def report(self, here: RunningPod, status: Mapping[str, Any]) -> None:
        """Change the status of a pod, as soon as the API server answers."""
        while True:
            try:
                await self.ask("PATCH", f"{self._path(here)}/status", {"status": status}, _MERGE)
                return
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(0.2)  # noqa: TID251  # the API server is down

    async def _read(self, here: RunningPod) -> None:
        assert here.process is not None
        assert here.process.stdout is not None
        while piece := await here.process.stdout.read(65_536):
            here.log.add(piece)

    async def _end_when_asked(self, here: RunningPod) -> None:
        await here.deleted.wait()
        assert here.process is not None
        if here.process.returncode is not None:
            return  # its number may be that of another by now
        with contextlib.suppress(psutil.Error):
            # bubblewrap waits in between, and passes nothing on.
            walls = psutil.Process(here.process.pid)
            (walls.children() or [walls])[0].terminate()
        waited = 0.0
        while waited < float(here.pod["metadata"].get("deletionGracePeriodSeconds") or 0):
            await asyncio.sleep(0.05)  # noqa: TID251  # a shorter grace may come meanwhile
            waited += 0.05
        self.kill(here)

    def kill(self, here: RunningPod) -> None:
        """Everything that the program has started."""
        if here.process is not None:
            kill_group(here.process)

    def of_job(self, name: str) -> RunningPod | None:
        """The pod of a Job."""
        found = (each for each in self.pods.values() if each.pod["metadata"]["labels"].get("job-name") == name)
        return next(found, None)

    # ------------------------------------------------------------------ parts of a pod

    def _path(self, here: RunningPod) -> str:
        meta = here.pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    def _container(self, here: RunningPod) -> Mapping[str, Any]:
        found: Mapping[str, Any] = next(each for each in here.pod["spec"]["containers"] if each["name"] == TASK)
        return found

    def _state(self, here: RunningPod, state: Mapping[str, Any]) -> Mapping[str, Any]:
        image = self._container(here)["image"]
        return {
            "name": TASK,
            "image": image,
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }

    async def _secret(self, here: RunningPod) -> Mapping[str, bytes] | None:
        """The values of its Secret, as soon as that is there; None: the pod is deleted meanwhile."""
        volumes = here.pod["spec"].get("volumes", ())
        names = [each["secret"]["secretName"] for each in volumes if "secret" in each]
        sources = [each.get("valueFrom") for each in self._container(here).get("env", ())]
        names += [each["secretKeyRef"]["name"] for each in sources if each]
        while names and not here.deleted.is_set():
            with contextlib.suppress(aiohttp.ClientError, OSError):
                found = await self.ask(
                    "GET", f"/api/v1/namespaces/{here.pod['metadata']['namespace']}/secrets/{names[0]}"
                )
                if found is not None:
                    return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
            await asyncio.sleep(0.05)  # noqa: TID251  # the kubelet asks again, too
        return None if names else {}

    def _command(self, here: RunningPod, secret: Mapping[str, bytes]) -> tuple[list[str], Mapping[str, str], list[str]]:
        """Its program, its variables, and the walls with its folders."""
        container, folder = self._container(here), here.folder
        environment: dict[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/"}
        for each in container.get("env", ()):
            if "valueFrom" in each:
                value = secret[each["valueFrom"]["secretKeyRef"]["key"]].decode()
            else:
                value = _filled(each.get("value", ""), environment)
            environment[each["name"]] = value
        for name in ("in", "work", "out"):
            (folder / name).mkdir(parents=True)
        for volume in here.pod["spec"].get("volumes", ()):
            for item in volume.get("secret", {}).get("items", ()):
                (folder / "in" / item["path"]).write_bytes(secret[item["key"]])
        mounts = ["bwrap", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
        for name in ("/bin", "/sbin", "/lib", "/lib64"):
            place = Path(name)
            if place.is_symlink():
                mounts += ["--symlink", str(place.readlink()), name]
            elif place.exists():
                mounts += ["--ro-bind", name, name]
        mounts += [
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
            "--ro-bind",
            str(folder / "in"),
            "/tickwise/in",
        ]
        mounts += ["--bind", str(folder / "work"), "/tickwise/work"]
        message = container.get("terminationMessagePath", "")
        if message.startswith("/tickwise/"):
            (folder / "message").touch()
            mounts += ["--bind", str(folder / "message"), message]
        else:
            mounts += ["--bind", str(folder / "out"), "/tickwise/out"]
        mounts += ["--chdir", container.get("workingDir", "/"), "--"]
        # The image's own program, of a pod that names none: it says which arguments it got.
        command = container.get("command") or ["/bin/echo", "entry"]
        return [_filled(each, environment) for each in (*command, *container.get("args", ()))], environment, mounts

    # ------------------------------------------------------------------ logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["pod"]
        here = next((each for each in self.pods.values() if each.pod["metadata"]["name"] == name), None)
        if here is None or not self.keeps_logs:
            return web.Response(status=404, text=f"no log of {name}")
        follow, since = request.query.get("follow") == "true", request.query.get("sinceTime", "")
        answer = web.StreamResponse()
        await answer.prepare(request)
        place, part = 0, 0
        while True:
            here.log.changed.clear()
            while place < len(here.log.lines):
                stamp, line = here.log.lines[place]
                if stamp[:19] >= since[:19]:
                    head = f"{stamp} ".encode() if part == 0 else b""
                    await answer.write(head + line[part:])
                part = len(line)
                if not line.endswith(b"\n"):
                    break
                place, part = place + 1, 0
            if not follow or not here.log.is_open:
                return answer
            await here.log.changed.wait()


def _filled(text: str, environment: Mapping[str, str]) -> str:
    """As the kubelet does it: `$(NAME)` of a known name, `$$` for a dollar sign."""
    return _REFERENCE.sub(
        lambda found: "$" if found.group() == "$$" else environment.get(found.group(1), found.group()), text
    )
