"""The ledger's verbs about checks that succeeded (`leasefs fresh`), as in `leasefs.client.api`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client.api import Body, Call, query

if TYPE_CHECKING:
    from collections.abc import Iterable


def fresh(territory: str, key: str | None = None) -> Call:
    """The last success of each check, or under `key`: `{"fresh": [FreshAnswer]}`."""
    return Call("GET", "/v1/fresh" + query(territory=territory, key=key))


def record_fresh(
    *,
    territory: str,
    key: str,
    content: str,
    command: str,
    globs: Iterable[str],
    files: int,
    agent: str,
    host: str,
    took_s: float,
) -> Call:
    """A check succeeded on `files` files. `content` and `command` are SHA-256 digests, in hexadecimal."""
    body: Body = {
        "territory": territory,
        "key": key,
        "content": content,
        "command": command,
        "globs": list(globs),
        "files": files,
        "agent": agent,
        "host": host,
        "took_s": took_s,
    }
    return Call("POST", "/v1/fresh", body)
