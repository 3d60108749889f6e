"""All that is known of a run once it is over, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasefs.core.events import Recorded
    from leasefs.testing.chaos.acts import Act


class Violation(NamedTuple):
    """A promise that was broken: in a word, and the few lines that show it."""

    kind: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class History:
    """A whole run. Trees are named by the runner; paths are relative to a tree's root.

    `texts` are the files at the end, `kept` the contents that the tree's repository has in any commit or rescue.
    `dirty` and `intents` are the uncommitted paths at the end, as git and as the ledger know them; None if nobody
    could look. `rescued` are those that rescues name: what is left in one is no intent any more. `ahead_s` says of a ledger's boot identity how far its CLOCK_BOOTTIME is ahead of the agents'.
    `waiting` are the claims in the queue at the end. `troubles` is what the runner itself could not bring about:
    a mount that serves, a process that ends, a place that is left clean.
    """

    acts: Sequence[Act] = ()
    log: Sequence[Recorded] = ()
    texts: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    kept: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    dirty: frozenset[tuple[str, str]] | None = None
    intents: frozenset[tuple[str, str]] | None = None
    rescued: frozenset[tuple[str, str]] = frozenset()
    ahead_s: Mapping[str, float] = field(default_factory=dict)
    waiting: Sequence[str] = ()
    troubles: Sequence[Violation] = ()
