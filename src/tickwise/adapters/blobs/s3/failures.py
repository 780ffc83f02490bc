"""The answers of a bucket, in sentences that say what to do.

obstore gives a text with the status and the answer's XML in it; the code of S3 in that XML tells cases apart.
"""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"<Code>\s*([A-Za-z0-9]{1,80})\s*</Code>")
_STATUS: Final = re.compile(r"(?:status(?: code)?:?\s*|HTTP\s+)(\d{3})\b", re.IGNORECASE)
SHOWN: Final = 300
"""Of a text that no case below explains."""
RIGHTS: Final = (
    "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload on it"
)
_BY_CODE: Final = {
    "AccessDenied": f"{{where}} denies this. Give the credentials of this process {RIGHTS}",
    "AllAccessDisabled": "{where} is closed by its provider",
    "NoSuchBucket": "{where} is not there. Create it, or mend blobs_url",
    "InvalidAccessKeyId": "{where} does not know the access key. Mend blobs_access_key_id, or what AWS_… names",
    "SignatureDoesNotMatch": "{where} got a signature of another secret. Mend blobs_secret_access_key, or AWS_…",
    "ExpiredToken": "the credentials for {where} have expired. Renew them",
    "InvalidToken": "{where} does not accept the session token. Renew the credentials",
    "RequestTimeTooSkewed": "the clocks of this machine and of {where} differ too much. Run an NTP client on both",
    "SlowDown": "{where} answers 503 SlowDown: too many requests. They are tried again more slowly",
    "ServiceUnavailable": "{where} is overloaded (503). It is tried again",
    "PermanentRedirect": "{where} is in another region. Set region= in blobs_url",
    "AuthorizationHeaderMalformed": "{where} is in another region. Set region= in blobs_url",
    "IllegalLocationConstraintException": "{where} is in another region. Set region= in blobs_url",
    "NoSuchUpload": "{where} has forgotten an upload in parts. It is sent again",
    "InvalidPart": "{where} has forgotten a part of an upload. It is sent again",
    "QuotaExceeded": "{where} is full. Make room, or raise its quota",
    "KMS.DisabledException": "the key of the encryption of {where} is disabled. Enable it",
    "NotImplemented": "{where} does not know this request. See delete= and encryption= of blobs_url",
}
_OF_OTHERS: Final = {"XAdminUserNotFound": "InvalidAccessKeyId"}
"""Codes that S3 does not have: versitygw answers an unknown key with its own one, and 404."""
_BY_STATUS: Final = {"403": "AccessDenied", "503": "SlowDown", "429": "SlowDown", "301": "PermanentRedirect"}


def code_of(text: str) -> str | None:
    """The code of S3 in the text of an error, such as `AccessDenied`; None: there is none."""
    found = _CODE.search(text)
    if found is not None:
        return _OF_OTHERS.get(found[1], found[1])
    status = _STATUS.search(text)
    return None if status is None else _BY_STATUS.get(status[1])


def sentence_of(error: Exception, where: str) -> str:
    """A sentence with the failure and the cure. `where`: the bucket, for people."""
    text = str(error)
    code = code_of(text)
    if code in _BY_CODE:
        return f"{_BY_CODE[code].format(where=where)} ({code})"
    if type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
        return f"{_BY_CODE['AccessDenied'].format(where=where)} ({type(error).__name__})"
    plain = " ".join(text.split("\n\nDebug source")[0].split())
    return f"{where} could not be reached: {plain[:SHOWN]}"
