"""What the ledger and the mounts of this machine tell a monitor, as one text.

Each part is asked at the same time as the others and for a few seconds only, so that one that hangs hides none of
the others; it is told as down.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api, paths
from leasefs.client.blocking import Link
from leasefs.client.find import registered_mounts
from leasefs.core.errors import LeasefsError
from leasefs.core.exposition import GAUGE, Family, Labels, Sample, exposition, merged
from leasefs.mount.mountinfo import mounts
from leasefs_cli.asking_a_mount import ask
from leasefs_cli.mount_link import control_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.client.find import MountFound

METRICS = api.Call("GET", "/metrics")
TIMEOUT_S = 5.0
_AT_ONCE = 64


class Part(NamedTuple):
    """One that was asked: `ledger` or `mount`, its labels, what it said; None if it does not answer."""

    kind: str
    labels: Labels
    text: str | None
    problem: str = ""

    @property
    def up(self) -> bool:
        """Whether it answered."""
        return self.text is not None


def scraped() -> list[Part]:
    """The ledgers of this user and of the mounts, then the mounts that this user may ask. Raises Denied."""
    places = sorted({os.fsdecode(mount.mountpoint) for mount in mounts() if mount.is_leasefs})
    agents = {found.mountpoint: found.agent for found, _ in registered_mounts()}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = list(pool.map(ask, places))
        asked = [
            pool.submit(_mount, place, one.facts, agents.get(place, ""))
            for place, one in zip(places, said, strict=True)
            if one.errno != errno.EACCES
        ]
        urls = {paths.ledger_url()[0], *(one.facts.ledger for one in said if one.facts)}
        ledgers = [pool.submit(_part, "ledger", (("ledger", url),), url) for url in sorted(urls)]
        return [one.result() for one in (*ledgers, *asked)]


def text_of(parts: Iterable[Part]) -> str:
    """All of it, in Prometheus' text format."""
    parts = list(parts)
    up = exposition(
        Family(
            f"leasefs_{kind}_up",
            GAUGE,
            f"Whether the {kind} answers.",
            tuple(Sample(int(part.up), part.labels) for part in parts if part.kind == kind),
        )
        for kind in ("ledger", "mount")
    )
    return up + merged((part.labels, part.text) for part in parts if part.text is not None)


def _mount(place: str, facts: MountFound | None, agent: str) -> Part:
    labels = (("agent", facts.agent if facts else agent), ("mountpoint", place))
    if facts is None:
        return Part("mount", labels, None, "it does not answer")
    return _part("mount", labels, control_url(facts))


def _part(kind: str, labels: Labels, url: str) -> Part:
    try:
        link = Link(url, timeout_s=TIMEOUT_S, is_ledger=kind == "ledger")
        return Part(kind, labels, link.text(METRICS))
    except LeasefsError as error:
        return Part(kind, labels, None, error.message)
