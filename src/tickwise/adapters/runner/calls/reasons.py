"""The reasons with which an http task fails by what it says of its requests, beside those of every kind."""

from __future__ import annotations

from typing import Final

TEMPLATE_ERROR: Final = "template_error"
"""A value that the request asks for is not there, or cannot stand where it is asked for."""
TLS_ERROR: Final = "tls_error"
"""No connection, because of a certificate: that of the server, or its own."""
TOKEN_ERROR: Final = "token_error"
"""The request for a token failed, so the request of the task was not sent."""
ANSWER_LIMIT: Final = "answer_limit"
"""The answer is larger than the task takes."""

CALL_REASONS: Final = (TEMPLATE_ERROR, TLS_ERROR, TOKEN_ERROR, ANSWER_LIMIT)
