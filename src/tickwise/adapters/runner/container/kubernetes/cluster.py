"""The API of a Kubernetes cluster, with our errors.

    no connection, cut off, no answer, 429, 5xx, 401   ClusterAway      wait, then ask again
    any other answer of the 4xx class                  ClusterRefused   `status`, `reason` and the cluster's words

kubernetes-asyncio reads the credentials (service account, kubeconfig, its plugins), renews them, and makes the calls.
The answers are read by us, only what is needed of them: its own models take a hundred times the memory.

A 401 may mean that a token was rotated: the credentials are read anew, and the call is made once more.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from tickwise.adapters.runner.container.kubernetes.pods import (
    ApiStatus,
    JobList,
    JobObject,
    Pod,
    PodEvent,
    PodEventList,
    PodList,
    WatchLine,
)
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock

if TYPE_CHECKING:
    from aiohttp import ClientResponse

CALL_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 290
"""The API server ends a watch after so long; it is opened again from where it was."""
SILENT_SECONDS: Final = 330.0
"""A watch without a line for longer than its life is cut off somewhere on the way."""
PAGE: Final = 500
CALLS_AT_ONCE: Final = 64
"""Calls on their way, without logs and watches. Each holds a connection with 100 kB of TLS, and a thousand runs that
are due at one instant would open a thousand of them: 100 MiB, which the process keeps."""
TLS_BUFFER_BYTES: Final = 16 << 10
"""Of each connection of asyncio's in this process, from then on: one record of TLS. Its own 256 KiB are held, filled,
for each pod whose log is followed: a quarter of a gigabyte for a thousand."""
REREAD_SECONDS: Final = 5.0
"""Between two readings of the credentials."""
SCHEME: Final = "kubernetes://"
OWN_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
_AWAY: Final = frozenset({401, 408, 429, 500, 502, 503, 504})
_MERGE: Final = "application/merge-patch+json"


class ClusterAway(Exception):
    """The API cannot be reached, or does not let us in just now; whether it did what was asked is not known."""

    def __init__(self, message: str, *, is_answer: bool = False) -> None:
        """`is_answer`: it answered that it cannot do it just now."""
        super().__init__(message)
        self.is_answer = is_answer


class ClusterRefused(Exception):
    """The API answered that it does not do it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class JobCluster:
    """The client of one cluster. For one event loop."""

    def __init__(self, url: str, kubeconfig: Path | None, clock: Clock) -> None:
        """`url`: `kubernetes://`, with the service account of its own pod, else kubeconfig's current context; or
        `kubernetes://NAME`, a context of kubeconfig. Raises `Misconfigured` if the library is not there."""
        try:
            import kubernetes_asyncio.client
            import kubernetes_asyncio.config
        except ImportError as error:
            raise Misconfigured(
                "Jobs of Kubernetes need the extra `kubernetes`: pip install 'tickwise[kubernetes]', or unset "
                "TICKWISE_CONTAINER_ENGINE"
            ) from error
        self._library = kubernetes_asyncio
        self._context = url.removeprefix(SCHEME).strip("/") or None
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._client: Any = None
        self._old: list[Any] = []
        self._read_at = -REREAD_SECONDS
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._answered_at = clock.monotonic()
        self.url = url
        self.namespace = "default"
        """The namespace of its context, or of its own pod."""

    async def close(self) -> None:
        """Close its connections."""
        for client in (*self._old, self._client):
            if client is not None:
                await client.close()
        self._client, self._old = None, []

    # ------------------------------------------------------------------ credentials

    async def _connect(self) -> None:
        """Read the credentials, the first time or anew. Raises `Misconfigured`, and `ClusterAway`: they may come."""
        library = self._library
        configuration = library.client.Configuration()
        try:
            if self._context is None and self._kubeconfig is None and OWN_NAMESPACE_FILE.exists():
                library.config.load_incluster_config(client_configuration=configuration)
                self.namespace = OWN_NAMESPACE_FILE.read_text().strip() or "default"
            else:
                file = None if self._kubeconfig is None else str(self._kubeconfig)
                await library.config.load_kube_config(
                    config_file=file, context=self._context, client_configuration=configuration, persist_config=False
                )
                _, current = library.config.list_kube_config_contexts(config_file=file)
                chosen = self._context_of(file) if self._context else current
                self.namespace = (chosen or {}).get("context", {}).get("namespace") or "default"
        except (library.config.ConfigException, OSError) as wrong:
            raise ClusterAway(f"no credentials for {self.url}: {wrong}") from wrong
        # A pod that runs holds a connection for its log, so their number has no limit of its own.
        configuration.connection_pool_maxsize = 0
        known = self._client and self._client.configuration
        if known and (known.host, known.cert_file, known.ssl_ca_cert) == (
            configuration.host, configuration.cert_file, configuration.ssl_ca_cert,
        ):  # fmt: skip
            known.api_key, known.refresh_api_key_hook = configuration.api_key, configuration.refresh_api_key_hook
            return
        SSLProtocol.max_size = TLS_BUFFER_BYTES
        if self._client is not None:
            self._old.append(self._client)  # logs are being read through it
        self._client = library.client.ApiClient(configuration)
        self._client.user_agent = "tickwise"

    def _context_of(self, file: str | None) -> Any:
        contexts, _ = self._library.config.list_kube_config_contexts(config_file=file)
        return next((each for each in contexts if each["name"] == self._context), None)

    # ------------------------------------------------------------------ calls

    @contextlib.asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        content: str = "application/json",
        silent_seconds: float | None = None,
    ) -> AsyncIterator[ClientResponse]:
        import aiohttp

        timeout = aiohttp.ClientTimeout(
            total=None if silent_seconds else CALL_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=silent_seconds
        )
        if self._client is None:
            await self._connect()
        for again in (False, True):
            try:
                response = await self._client.call_api(
                    path, method, query_params=list((query or {}).items()), body=body,
                    header_params={"Accept": "application/json, */*", "Content-Type": content},
                    auth_settings=["BearerToken"], _preload_content=False, _request_timeout=timeout,
                )  # fmt: skip
            except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
                raise ClusterAway(_words(error)) from error
            self._answered_at = self._clock.monotonic()
            if response.status == 401 and not again and self._clock.monotonic() - self._read_at >= REREAD_SECONDS:
                response.release()
                self._read_at = self._clock.monotonic()
                await self._connect()
                continue
            break
        try:
            if response.status >= 400:
                raise await _refusal(response)
            yield response
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterAway(_words(error)) from error
        finally:
            response.close() if silent_seconds else response.release()

    async def ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None, *, content: str = ""
    ) -> bytes:
        """The body of an answer. Raises `ClusterAway` and `ClusterRefused`."""
        await self._turn()
        try:
            async with self._asked(method, path, query, body, content=content or "application/json") as response:
                return await response.read()
        finally:
            self._calls.release()

    async def _turn(self) -> None:
        """Return when there is room for one more call. Raises `ClusterAway` where no other call is answered: a caller
        that waits must not wait for each of those before it to give up, one after the other."""
        while True:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    await self._calls.acquire()
                return
            except TimeoutError:
                if self._clock.monotonic() - self._answered_at >= CALL_SECONDS:
                    raise ClusterAway(f"it has answered no call for {CALL_SECONDS:.0f} s") from None

    # ------------------------------------------------------------------ Jobs and Secrets

    async def create_job(self, namespace: str, manifest: Mapping[str, Any]) -> JobObject:
        """Make a Job. Refused with 409 if there is one of its name."""
        body = await self.ask("POST", _jobs(namespace), {"fieldValidation": "Strict"}, manifest)
        return msgspec.json.decode(body, type=JobObject)

    async def job(self, namespace: str, name: str) -> JobObject | None:
        """The Job of a name; None: it is not there."""
        try:
            return msgspec.json.decode(await self.ask("GET", _jobs(namespace, name)), type=JobObject)
        except ClusterRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise

    async def jobs(self, namespace: str, selector: str) -> Sequence[JobObject]:
        """All Jobs with these labels."""
        found: list[JobObject] = []
        page = ""
        while True:
            query = {"labelSelector": selector, "limit": PAGE, **({"continue": page} if page else {})}
            listed = msgspec.json.decode(await self.ask("GET", _jobs(namespace), query), type=JobList)
            found += listed.items
            page = listed.metadata.next_page
            if not page:
                return found

    async def mark(self, path: str, labels: Mapping[str, str], version: str) -> JobObject:
        """Change labels of an object that nobody has changed since this version. Refused with 409 otherwise."""
        body = {"metadata": {"resourceVersion": version, "labels": dict(labels)}}
        return msgspec.json.decode(await self.ask("PATCH", path, None, body, content=_MERGE), type=JobObject)

    async def delete(self, path: str, found: JobObject | Pod, *, grace_seconds: int | None = None) -> bool:
        """Delete exactly this object, if nobody has changed it; False: it has changed. One that is gone is no fault."""
        body: dict[str, Any] = {
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground",
            "preconditions": {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version},
        }  # fmt: skip
        if grace_seconds is not None:
            body |= {"gracePeriodSeconds": grace_seconds}
        try:
            await self.ask("DELETE", path, None, body)
        except ClusterRefused as refused:
            if refused.status == CONFLICT:
                return False
            if refused.status != NOT_FOUND:
                raise
        return True

    async def create_secret(self, namespace: str, manifest: Mapping[str, Any]) -> None:
        """Make a Secret; one that is there already is left as it is."""
        try:
            await self.ask("POST", f"/api/v1/namespaces/{quote(namespace)}/secrets", None, manifest)
        except ClusterRefused as refused:
            if refused.status != CONFLICT:
                raise

    async def change_secret(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Set values of a Secret, in base64."""
        path = f"/api/v1/namespaces/{quote(namespace)}/secrets/{quote(name)}"
        await self.ask("PATCH", path, None, {"data": dict(data)}, content=_MERGE)

    # ------------------------------------------------------------------ pods

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of a name; None: it is not there."""
        try:
            return msgspec.json.decode(await self.ask("GET", pod_path(namespace, name)), type=Pod)
        except ClusterRefused as refused:
            if refused.status == NOT_FOUND:
                return None
            raise

    async def pods(self, namespace: str, selector: str) -> tuple[Sequence[Pod], str]:
        """All pods with these labels, and the version of the cluster that they are of."""
        found: list[Pod] = []
        page = ""
        while True:
            query = {"labelSelector": selector, "limit": PAGE, **({"continue": page} if page else {})}
            body = await self.ask("GET", pod_path(namespace), query)
            listed = msgspec.json.decode(body, type=PodList)
            found += listed.items
            page = listed.metadata.next_page
            if not page:
                return found, listed.metadata.resource_version

    async def watch(self, namespace: str, selector: str, version: str) -> AsyncIterator[WatchLine]:
        """The changes of these pods since a version, until the API server ends the watch. Raises `ClusterRefused` with
        410 if it does not know so old a version any more."""
        query = {
            "labelSelector": selector, "resourceVersion": version, "watch": "true", "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }  # fmt: skip
        async with self._asked("GET", pod_path(namespace), query, silent_seconds=SILENT_SECONDS) as response:
            while line := await response.content.readline():
                try:
                    said = msgspec.json.decode(line, type=WatchLine)
                except msgspec.DecodeError as broken:
                    raise ClusterAway("the watch broke off") from broken
                if said.type == "ERROR":
                    status = msgspec.json.decode(said.object, type=ApiStatus)
                    if status.code in _AWAY:
                        raise ClusterAway(status.message)
                    raise ClusterRefused(status.code, status.reason, status.message)
                yield said

    async def log(self, namespace: str, name: str, *, since: str | None, follow: bool) -> AsyncIterator[bytes]:
        """The output of the task of a pod, with a time before each line. `since`: RFC 3339, in whole seconds."""
        query = {"container": "task", "timestamps": "true", "follow": str(follow).lower()}
        if since is not None:
            query["sinceTime"] = since
        path = f"{pod_path(namespace, name)}/log"
        async with self._asked("GET", path, query, silent_seconds=86_400.0 if follow else CALL_SECONDS) as response:
            while piece := await response.content.readany():
                yield piece

    async def events(self, namespace: str, name: str) -> Sequence[PodEvent]:
        """The words of Kubernetes about an object of this name, the oldest first."""
        query = {"fieldSelector": f"involvedObject.name={name}", "limit": PAGE}
        body = await self.ask("GET", f"/api/v1/namespaces/{quote(namespace)}/events", query)
        found = msgspec.json.decode(body, type=PodEventList).items
        return sorted(found, key=lambda each: each.last_timestamp or "")

    async def has_network_policy(self, namespace: str, name: str) -> bool:
        """Check whether the policy that shuts pods off is there."""
        path = f"/apis/networking.k8s.io/v1/namespaces/{quote(namespace)}/networkpolicies/{quote(name)}"
        try:
            await self.ask("GET", path)
        except ClusterRefused as refused:
            if refused.status == NOT_FOUND:
                return False
            raise
        return True

    async def version(self) -> str:
        """The version of the API server."""
        return str(msgspec.json.decode(await self.ask("GET", "/version")).get("gitVersion", ""))


def _jobs(namespace: str, name: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{quote(namespace)}/jobs" + (f"/{quote(name)}" if name else "")


def job_path(namespace: str, name: str) -> str:
    """The path of a Job."""
    return _jobs(namespace, name)


def pod_path(namespace: str, name: str = "") -> str:
    """The path of a pod, or of all."""
    return f"/api/v1/namespaces/{quote(namespace)}/pods" + (f"/{quote(name)}" if name else "")


async def _refusal(response: ClientResponse) -> Exception:
    content = await response.read()
    try:
        said = msgspec.json.decode(content, type=ApiStatus)
    except msgspec.DecodeError:
        said = ApiStatus(message=content[:500].decode(errors="replace"))
    if response.status in _AWAY:
        return ClusterAway(f"{response.status}: {said.message}", is_answer=True)
    return ClusterRefused(response.status, said.reason, said.message[:1_000])


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
