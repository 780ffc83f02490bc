"""One Kafka node, broker and controller in one process, as small and as quick to notice faults as it can be.

    async with Kafka() as kafka:                                         127.0.0.1, no password
    async with Kafka(access=Access(tls=True, users={"ann": "secret"})):  a second listener, `secure_port`, that asks

An empty data folder is made once and copied after that; a class data archive halves the start. Both are kept beside
the jars.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.services.packages import kafka_home, locked, program
from tests.services.server import Server, free_port

CLUSTER: Final = "dGlja3dpc2UtdGVzdHMtMQ"
"""Kafka's name for the cluster: 16 bytes in base64."""
ARCHIVE: Final = "broker.jsa"
HEAP_MEGABYTES: Final = 256
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
JVM: Final = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xlog:disable", "-XX:+ExitOnOutOfMemoryError",
    "-XX:MaxDirectMemorySize=96m", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
)  # fmt: skip

PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAIN",
    "controller.listener.names": "CONTROLLER",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "2",
    # Whoever needs a topic makes it, with the partitions that it is to have.
    "auto.create.topics.enable": "false",
    # One node: one replica of everything, and few partitions of Kafka's own.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # A node that was killed may come back only after its last session has run out: 9 s, if nobody says otherwise.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "200",
    # Members come and go within a test: no wait for the first of a group, and one that died is found in seconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    # Many small topics for a short time: each partition takes 20 MB of address space for its indices, unless told.
    "log.index.size.max.bytes": "131072",
    "log.segment.bytes": "67108864",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "file.delete.delay.ms": "1000",
    "controlled.shutdown.enable": "false",
}


@dataclass(frozen=True, kw_only=True)
class Access:
    """A second listener that lets only some in."""

    tls: bool = False
    client_certificates: bool = False
    """With `tls`: nobody without one that our authority signed."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by name; each user may come by every one of `MECHANISMS`. Nobody is asked if there are none."""

    @property
    def protocol(self) -> str:
        """As Kafka calls it."""
        return ("SASL_" if self.users else "") + ("SSL" if self.tls else "PLAINTEXT")


class Kafka(Server):
    """`disks`: folders where its data lies, for disks of their own; Kafka's own record lies on the first. `properties`:
    more of server.properties. `heap_megabytes` holds for Java's heap alone. `deployed`: a server.properties of a
    deployment, with the listeners CLIENTS, LOCAL and CONTROLLER; only places and ports are the tests' own, and `access`
    says who its users are."""

    name = "kafka"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int | None = None,
        disks: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        access: Access | None = None,
        heap_megabytes: int = HEAP_MEGABYTES,
        deployed: Path | None = None,
    ) -> None:
        super().__init__(folder, port=port)
        self.access = access
        self.controller_port = free_port()
        self.secure_port = free_port() if access else 0
        self._deployed = deployed
        self.disks = [*disks] or [self.folder / "data"]
        self.archives = False
        """Set before the start: it leaves a class data archive at its orderly end, if there is none."""
        self._properties = properties or {}
        self._heap = heap_megabytes

    @property
    def url(self) -> str:
        """Without options."""
        return f"kafka://{self.address}"

    @property
    def secure_address(self) -> str:
        """Of the listener of `access`."""
        return f"127.0.0.1:{self.secure_port}"

    @property
    def authority(self) -> Path:
        """The certificate that signed the server's and the client's."""
        return self.folder / "ca.pem"

    @property
    def client_certificate(self) -> tuple[Path, Path]:
        """One that the server accepts, and its key."""
        return self.folder / "client.pem", self.folder / "client.key"

    async def prepare(self) -> Sequence[str]:
        return await asyncio.to_thread(self._prepare)

    def answers(self) -> bool:
        # ApiVersions, version 0, correlation 1, client "t". Kafka opens the port once it is part of its cluster.
        asked = b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x01t"
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(len(asked).to_bytes(4, "big") + asked)
            return len(connection.recv(8)) > 0

    # ------------------------------------------------------------------ what it needs before it starts

    def _prepare(self) -> list[str]:
        home = kafka_home()
        if self.access and self.access.tls and not self.authority.exists():
            self._sign()
        file = self.folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self._all_properties().items()))
        if not (self.disks[0] / "meta.properties").exists():
            self._format(home, file)
        self.archives = self.archives and not (home / ARCHIVE).exists()
        options = [f"-XX:ArchiveClassesAtExit={self.folder / ARCHIVE}"] if self.archives else []
        return self._java(home, *options, "kafka.Kafka", str(file))

    def _java(self, home: Path, *arguments: str) -> list[str]:
        archive = home / ARCHIVE
        options = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        # In order: an archive holds for one class path.
        jars = ":".join(sorted(str(jar) for jar in (home / "jars").glob("*.jar")))
        return [program("java"), f"-Xmx{self._heap}m", *JVM, *options, "-cp", jars, *arguments]

    def keep_archive(self) -> None:
        """After an orderly end: what it left is for all that come later."""
        made = self.folder / ARCHIVE
        if made.exists():
            kept = kafka_home() / ARCHIVE
            part = kept.with_suffix(f".{self.pid}")
            shutil.copyfile(made, part)
            part.rename(kept)

    def _deployed_properties(self, file: Path) -> dict[str, str]:
        """Those of a deployment, at ports and in folders of our own."""
        lines = [line.partition("=") for line in file.read_text().splitlines() if line and not line.startswith("#")]
        ports = {"CLIENTS": self.secure_port, "LOCAL": self.port, "CONTROLLER": self.controller_port}
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
        return {
            **{name: value for name, _, value in lines},
            "log.dirs": ",".join(map(str, self.disks)),
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(text for name, text in addresses.items() if name != "CONTROLLER"),
            **self._properties,
        }

    def _all_properties(self) -> dict[str, str]:
        if self._deployed is not None:
            return self._deployed_properties(self._deployed)
        listeners = {"PLAIN": (self.port, "PLAINTEXT"), "CONTROLLER": (self.controller_port, "PLAINTEXT")}
        properties = {**PROPERTIES, "log.dirs": ",".join(map(str, self.disks))}
        if self.access:
            listeners["SECURE"] = (self.secure_port, self.access.protocol)
            properties |= self._secure_properties(self.access)
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, (port, _) in listeners.items()}
        return {
            **properties,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(text for name, text in addresses.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, (_, how) in listeners.items()),
            **self._properties,
        }

    def _secure_properties(self, access: Access) -> dict[str, str]:
        properties = {}
        here = "listener.name.secure."
        if access.users:
            properties["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            users = " ".join(f'user_{name}="{password}"' for name, password in access.users.items())
            module = "org.apache.kafka.common.security"
            properties[f"{here}plain.sasl.jaas.config"] = f"{module}.plain.PlainLoginModule required {users};"
            for mechanism in MECHANISMS[:2]:
                scram = f"{module}.scram.ScramLoginModule required;"
                properties[f"{here}{mechanism.lower()}.sasl.jaas.config"] = scram
        if access.tls:
            stores = {"keystore": self.folder / "server.both", "truststore": self.authority}
            for store, file in stores.items():
                properties |= {f"{here}ssl.{store}.type": "PEM", f"{here}ssl.{store}.location": str(file)}
            properties[f"{here}ssl.client.auth"] = "required" if access.client_certificates else "none"
        return properties

    def _format(self, home: Path, properties: Path) -> None:
        """An empty data folder: a copy of the one that was made first, unless this one is special."""
        users = self.access.users if self.access else {}
        made = home / "formatted"
        if users or len(self.disks) > 1:
            credentials = [
                f"--add-scram={mechanism}=[name={name},password={password}]"
                for name, password in users.items()
                for mechanism in MECHANISMS[:2]
            ]
            self._run_format(home, properties, credentials)
            return
        with locked(home / "lock"):
            if not made.exists():
                self._run_format(home, properties, [])
                part = made.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                shutil.copytree(self.disks[0], part)
                part.rename(made)
                return
        shutil.copytree(made, self.disks[0], dirs_exist_ok=True)

    def _run_format(self, home: Path, properties: Path, more: Sequence[str]) -> None:
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(properties), *more]
        _run(self._java(home, *tool))

    def _sign(self) -> None:
        """An authority of this folder's own, and a certificate each for the server and for a client."""
        openssl = program("openssl")
        new = [openssl, "req", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        authority = [*new, "-x509", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"]
        _run(authority, self.folder)
        for name in ("server", "client"):
            extensions = self.folder / f"{name}.ext"
            extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
            _run([*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"], self.folder)
            signed = ["x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
            _run([openssl, *signed, "-days", "2", "-extfile", extensions.name, "-out", f"{name}.pem"], self.folder)
        both = "".join((self.folder / f"server.{part}").read_text() for part in ("key", "pem"))
        (self.folder / "server.both").write_text(both)


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, f"{' '.join(command[:1])} … {' '.join(command[-6:])}:\n{done.stdout}{done.stderr}"
