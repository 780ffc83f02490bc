"""The client of SQS, loaded only when it is needed; its errors in our words; and its troubles, each logged once."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final

import structlog

from tickwise.adapters.broker.sqs.address import SqsAddress
from tickwise.domain.errors import BrokerUnavailable, Misconfigured

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 8.0
"""Beyond what a question waits for messages."""
CONNECTIONS: Final = 64
REFUSALS: Final = frozenset({
    "AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "SignatureDoesNotMatch", "OptInRequired",
    "UnrecognizedClientException", "InvalidAddress", "InvalidSecurity", "InvalidAttributeName", "InvalidAttributeValue",
})  # fmt: skip
"""Codes of answers that no waiting mends."""
ABSENT: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NonExistentQueue"})
DIFFERS: Final = frozenset({"QueueNameExists", "QueueAlreadyExists"})

logger = structlog.get_logger("tickwise.sqs")


class QueueAbsent(Exception):
    """The queue was deleted, or never made."""


class QueueDiffers(Exception):
    """The queue is there with other attributes."""


def make_client(address: SqsAddress) -> Any:
    """An asynchronous context manager that gives the client. Raises `Misconfigured` where the library is not there."""
    try:
        from aiobotocore.config import AioConfig
        from aiobotocore.session import AioSession
    except ImportError as missing:
        raise Misconfigured(
            "broker_url is sqs://, and its client is not installed: pip install 'tickwise[sqs]'"
        ) from missing
    for library in ("aiobotocore", "botocore"):
        logging.getLogger(library).setLevel(logging.WARNING)  # it tells where it found credentials, each time
    config = AioConfig(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS + address.wait_seconds,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1},  # we try again ourselves, in order
        parameter_validation=False,
    )
    return AioSession().create_client(
        "sqs", region_name=address.region, endpoint_url=address.endpoint or None, config=config
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of the library in our words: `BrokerUnavailable`, `Misconfigured`, `QueueAbsent`, `QueueDiffers`."""
    from aiohttp import ClientError as HttpError
    from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, NoCredentialsError

    try:
        yield
    except (NoCredentialsError, CredentialRetrievalError) as failure:
        raise BrokerUnavailable(
            f"SQS: no credentials were found ({failure}): give them by the usual chain of AWS, such as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine"
        ) from None
    except ClientError as failure:
        said = failure.response.get("Error", {})
        code, text = str(said.get("Code", "")), str(said.get("Message", ""))
        if code in ABSENT:
            raise QueueAbsent(text) from None
        if code in DIFFERS:
            raise QueueDiffers(text) from None
        if code in REFUSALS:
            raise Misconfigured(f"SQS refuses {failure.operation_name}: {code}: {text}") from None
        raise BrokerUnavailable(f"SQS: {failure.operation_name}: {code}: {text}") from None
    except (BotoCoreError, HttpError, OSError, TimeoutError) as failure:
        raise BrokerUnavailable(f"SQS is away: {type(failure).__name__}: {failure}") from None


class Troubles:
    """The log of what is wrong: each kind once, until all is well again."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def complain(self, kind: str, detail: str) -> None:
        """Log this, unless this kind was logged since all was well."""
        if kind not in self._said:
            self._said.add(kind)
            logger.warning("sqs_trouble", kind=kind, detail=detail)

    def recovered(self) -> None:
        """Note that all is well again, and log it once."""
        said, self._said = self._said, set()
        if said:
            logger.info("sqs_well_again", after=sorted(said))
