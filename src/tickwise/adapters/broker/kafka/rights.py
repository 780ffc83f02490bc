"""The rights of each role in Kafka: the least with which it works, as ACLs of the cluster.

    api         writes requests and hints                        reads nothing but whose the topics are
    scheduler   writes hints
    executor    reads hints; writes results, and what it parks
    recorder    reads requests and results; writes marks (into requests), hints, and what it parks

Everybody may see that the topics are there, and how they are kept. Nobody may make or change one: `tickwise broker
prepare` does that, by a user who may. An ACL keeps strangers out of a topic; who made a message is proved by its
signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tickwise.adapters.broker.kafka.address import KafkaAddress, read_address
from tickwise.adapters.broker.kafka.library import Complaints, admin_library, client_library
from tickwise.domain.errors import BrokerUnavailable, Misconfigured

ANSWER_SECONDS: Final = 10.0


class Right(NamedTuple):
    """To do something with what is called so, or begins so."""

    operation: str
    """`READ`, `WRITE`, `DESCRIBE`, `DESCRIBE_CONFIGS`."""
    resource: str
    """`TOPIC` or `GROUP`."""
    name: str
    """Behind the prefix of the address and a dot."""
    begins: bool = False
    """Everything that begins with the name."""


_ALL: Final = (
    Right("DESCRIBE", "TOPIC", "", begins=True),
    Right("DESCRIBE_CONFIGS", "TOPIC", "", begins=True),
    Right("READ", "TOPIC", "cluster"),
    Right("READ", "GROUP", "cluster"),
)
_HINTS: Final = Right("WRITE", "TOPIC", "runs.", begins=True)
_PARKS: Final = Right("WRITE", "TOPIC", "dead")
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "api": (*_ALL, Right("WRITE", "TOPIC", "requests"), _HINTS),
    # It tells readers which accepted jobs are on their way, and writes nothing.
    "search": _ALL,
    "scheduler": (*_ALL, _HINTS),
    "executor": (
        *_ALL,
        Right("READ", "TOPIC", "runs.", begins=True),
        Right("READ", "GROUP", "executors.", begins=True),
        Right("WRITE", "TOPIC", "results"),
        _PARKS,
    ),
    "recorder": (
        *_ALL,
        Right("READ", "TOPIC", "requests"),
        Right("WRITE", "TOPIC", "requests"),
        Right("READ", "TOPIC", "results"),
        Right("READ", "GROUP", "recorders.", begins=True),
        _HINTS,
        _PARKS,
    ),
}


def allow(url: str, users: Mapping[str, str]) -> int:
    """Give each user the rights of its role, by the user of the address; how many rights there are then.

    `users`: names as Kafka has them, by role. Existing rights stay. Blocks. Raises `BrokerUnavailable`,
    `Misconfigured`.
    """
    address = read_address(url)
    complaints = Complaints()
    client = admin_library().AdminClient(
        {**address.client(), "error_cb": complaints.errors(lambda _: None)}, logger=complaints
    )
    bindings = [binding for role, user in users.items() for binding in _bindings(address, role, user)]
    for binding, future in client.create_acls(bindings, request_timeout=ANSWER_SECONDS).items():
        try:
            future.result()
        except client_library().KafkaException as failure:
            raise _failed(binding, failure) from failure
    return len(bindings)


def _bindings(address: KafkaAddress, role: str, user: str) -> Iterator[Any]:
    admin = admin_library()
    for right in RIGHTS[role]:
        pattern = admin.ResourcePatternType.PREFIXED if right.begins else admin.ResourcePatternType.LITERAL
        yield admin.AclBinding(
            admin.ResourceType[right.resource],
            f"{address.prefix}.{right.name}",
            pattern,
            f"User:{user}",
            "*",
            admin.AclOperation[right.operation],
            admin.AclPermissionType.ALLOW,
        )


def _failed(binding: Any, failure: Any) -> BrokerUnavailable | Misconfigured:
    error, kinds = failure.args[0], client_library().KafkaError
    detail = f"could not allow {binding.principal} to {binding.operation.name} {binding.name}: {error.str()}"
    if error.code() in (kinds.CLUSTER_AUTHORIZATION_FAILED, kinds.SECURITY_DISABLED):
        return Misconfigured(f"broker_url: {detail}. Give the address of a user who may change ACLs.")
    return BrokerUnavailable(detail)
