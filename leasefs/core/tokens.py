"""How a token is spelled: `leasefs_<id>_<secret>`, so that scanners for leaked secrets can find one.

The id is public: it finds the identity whose token it is. Of the rest only a hash is kept anywhere but with its owner.
"""

from __future__ import annotations

import re
from hashlib import sha256

ID_HEX_DIGITS = 12
SECRET_HEX_DIGITS = 64
_ID = re.compile(rf"[0-9a-f]{{{ID_HEX_DIGITS}}}")
_TOKEN = re.compile(rf"leasefs_([0-9a-f]{{{ID_HEX_DIGITS}}})_[0-9a-f]{{{SECRET_HEX_DIGITS}}}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def spelled(id_: str, secret: str) -> str:
    """The token made of these two, both hexadecimal."""
    return f"leasefs_{id_}_{secret}"


def id_of(token: str) -> str | None:
    """The id in a token; None if the text is none."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else found[1]


def hashed(token: str) -> str:
    """What is kept of a token. It is random, 256 bits of it, so a plain hash is enough."""
    return sha256(token.encode("ascii")).hexdigest()


def is_id(text: str) -> bool:
    """Whether a token can have this id."""
    return _ID.fullmatch(text) is not None


def is_hash(text: str) -> bool:
    """Whether this can be what is kept of a token."""
    return _SHA256.fullmatch(text) is not None
