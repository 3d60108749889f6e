"""What a mount says of itself, over its control socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import api

if TYPE_CHECKING:
    from leasefs_cli.place import View


def last_refusal(seen: View, path: str) -> api.Body | None:
    """The newest refusal on exactly this path that the mount still remembers, or None."""
    said = seen.link.send(api.mount())
    return next((refusal for refusal in said["refusals"] if refusal["path"] == path), None)
