"""What a mount is about to claim again, on disk: a kill before it has done so loses none of it either.

The agent's former session ends, and its leases with it, in the moment in which the new one begins.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from hashlib import blake2s
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api, paths
from leasefs.client.ids import new_key
from leasefs.client.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.client.lessee import Identity

log = logging.getLogger(__name__)


class Former(NamedTuple):
    """A lease of a former session, and until when nobody else would have got its ground (CLOCK_BOOTTIME)."""

    call: api.Call
    until_s: float

    @property
    def ground(self) -> tuple[tuple[str, ...], str]:
        """What tells one from another: globs and mode."""
        body = self.call.body or {}
        return tuple(body["globs"]), body["mode"]


class KeptFile:
    """The file of one agent in one territory of one ledger."""

    def __init__(self, path: str, boot: str) -> None:
        """`boot` is this boot's id: what an earlier one left is of no use, since its times say nothing now."""
        self._path = path
        self._boot = boot

    def read(self, now_s: float) -> list[Former]:
        """What a mount that was killed had not claimed again, and would not have run out by now."""
        try:
            with open(self._path, encoding="ascii") as file:
                said = json.load(file)
            known = [
                Former(claim_again(_written(api.Call(*call).body)), float(until_s))
                for call, until_s in said["former"]
            ]
            same_boot = said["boot"] == self._boot
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            log.warning(
                "what is left to be claimed again cannot be read: %s: %s", self._path, error
            )
            return []
        return [one for one in known if same_boot and one.until_s > now_s]

    def write(self, former: Iterable[Former]) -> None:
        """Have these there, and nothing else."""
        content = list(former)
        try:
            if content:
                write_whole(self._path, {"boot": self._boot, "former": content})
            else:
                self._remove()
        except OSError as error:
            log.warning("a kill in this moment would lose leases: %s: %s", self._path, error)

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


_KINDS = {"key": str, "mode": str, "ttl_s": float | int, "priority": int, "note": str}


def _written(body: object) -> api.Body:
    """A claim as it was written: whatever else a damaged file says is neither sent nor keeps a mount from starting.

    Raises:
        KeyError, TypeError: it is none.
    """
    if not isinstance(body, dict) or not isinstance(body["globs"], list):
        raise TypeError("a claim is not as it was written")
    right = [isinstance(body[name], kind) for name, kind in _KINDS.items()]
    if not all(right) or not all(isinstance(glob, str) for glob in body["globs"]):
        raise TypeError("a claim is not as it was written")
    return body


def claim_again(of: api.Body) -> api.Call:
    """A claim like this lease or claim, under a key of its own: by a former one an answer of long ago may be given again."""
    return api.claim(
        of["globs"],
        key=new_key(),
        shared=of["mode"] == "shared",
        ttl_s=of["ttl_s"],
        priority=of.get("priority", 0),
        note=of.get("note", ""),
    )


def kept_file(identity: Identity, ledger: str) -> KeptFile:
    """The file of this agent there. Raises as `paths.state_dir`."""
    whose = "\0".join((identity.agent, identity.territory, ledger))
    digest = blake2s(whose.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    # With the namespaces: one may have a clock of its own.
    boot = ":".join(identity.process.split(":")[:2])
    return KeptFile(os.path.join(paths.kept_dir(), digest + ".json"), boot)
