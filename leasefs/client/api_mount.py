"""What is asked of a mount about its unleased policy, by its control socket; see `leasefs.client.api`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client.api import Call

if TYPE_CHECKING:
    from collections.abc import Iterable


def take_back(paths: Iterable[str], *, wait_s: float) -> Call:
    """Claim again what it changed at these paths and has not seen committed.

    For mounts whose unleased policy claims; where one of the paths is not such, nothing is claimed. `wait_s` is how long
    the mount may wait for it.
    """
    return Call("POST", "/v1/mount/take-back", {"paths": list(paths)}, patience_s=wait_s)
