"""What one mount tells a monitor. Imported when somebody asks: a mount that nobody watches does not carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import leasefs
from leasefs.client.process_metrics import process_families
from leasefs.core.exposition import (
    CONTENT_TYPE,
    COUNTER,
    GAUGE,
    Family,
    Sample,
    by_label,
    counter,
    exposition,
    gauge,
)
from leasefs.core.lease import Mode
from leasefs.core.policy import Reason
from leasefs.mount.boundary import CALLS
from leasefs.mount.control_http import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client.lessee import Lessee
    from leasefs.mount.parts import Parts
    from leasefs.mount.tree import Tree
    from leasefs.mount.work import Work


def mount_text(parts: Parts) -> Text:
    """Everything, as Prometheus reads it."""
    return Text(exposition(_families(parts)), CONTENT_TYPE)


def _families(parts: Parts) -> Iterator[Family]:
    yield _about(parts)
    yield by_label(
        "leasefs_mount_operations_total",
        COUNTER,
        "Requests of the kernel, by operation.",
        "operation",
        {name: calls[0] for name, calls in sorted(CALLS.items())},
    )
    yield _refusals(parts)
    yield from _lessee(parts.lessee)
    yield from _work(parts.work)
    if parts.tree is not None:
        yield from _tree(parts.tree)
    unwatched = parts.foreign.facts()["unwatched_directories"]
    yield gauge(
        "leasefs_mount_unwatched_directories",
        "Directories in which changes by others are not seen for want of room; none if nothing can be watched.",
        unwatched,
    )
    redirects = len(parts.about["redirects"])
    yield gauge("leasefs_mount_redirects", "Directories that are served natively.", redirects)
    yield from process_families()


def _about(parts: Parts) -> Family:
    said = parts.about
    labels = tuple((name, str(said[name])) for name in ("agent", "harness", "territory"))
    labels += (("version", leasefs.__version__),)
    return Family("leasefs_mount_info", GAUGE, "Whose mount it is; always 1.", (Sample(1, labels),))


def _refusals(parts: Parts) -> Family:
    counts = parts.refusals.counts
    samples = tuple(
        Sample(
            counts.get((reason, observed), 0),
            (("reason", _label(reason)), ("observed", "yes" if observed else "no")),
        )
        for reason in Reason
        for observed in (False, True)
        if not observed or (reason, observed) in counts
    )
    meaning = "Changes that were not let through, or would not have been (observe), by reason."
    return Family("leasefs_mount_refusals_total", COUNTER, meaning, samples)


def _label(reason: Reason) -> str:
    return reason.name.lower().replace("_", "-")


def _lessee(lessee: Lessee) -> Iterator[Family]:
    leases, now_s = lessee.view.leases, lessee.now_s()
    yield by_label(
        "leasefs_mount_leases",
        GAUGE,
        "Leases held, trusted or not.",
        "mode",
        {mode.value: sum(lease.mode is mode for lease in leases) for mode in Mode},
    )
    yield gauge(
        "leasefs_mount_trust_seconds",
        "How long the lease with the least time left may still be written under; none if no lease is held.",
        max(0.0, min(lease.trusted_until_s for lease in leases) - now_s) if leases else None,
    )
    recalls = sum(1 for _ in lessee.recalls)
    yield gauge("leasefs_mount_recalls", "Recalls that are being seen to.", recalls)
    yield gauge(
        "leasefs_mount_ledger_reachable",
        "Whether the last heartbeat was answered.",
        int(lessee.ledger_reachable),
    )
    heard_ago_s = lessee.heard_ago_s
    yield gauge(
        "leasefs_mount_ledger_heard_seconds",
        "How long ago the last heartbeat was sent that was answered; none if none was.",
        heard_ago_s if heard_ago_s != float("inf") else None,
    )


def _work(work: Work) -> Iterator[Family]:
    dirty = len(work.intents)
    yield gauge("leasefs_mount_dirty_paths", "Paths changed here and not committed.", dirty)
    size = work.journal.size_bytes
    yield gauge("leasefs_mount_journal_bytes", "Size of the journal.", size)
    yield gauge(
        "leasefs_mount_journal_untold",
        "Changes in it that the ledger has not confirmed yet.",
        work.journal.untold,
    )


def _tree(tree: Tree) -> Iterator[Family]:
    opened, writers = len(tree.handles), len(tree.handles.writers())
    yield gauge("leasefs_mount_open_handles", "What is open through the mount.", opened)
    yield gauge("leasefs_mount_open_writers", "Files open for writing.", writers)
    yield gauge("leasefs_mount_inodes", "Inodes that the kernel remembers.", len(tree.inodes))
    watched = tree.outside.watched
    yield gauge("leasefs_mount_watched_directories", "Directories that are watched.", watched)
    yield counter(
        "leasefs_mount_lost_events_total",
        "How often the kernel dropped events of changes by others, so that all was looked at again.",
        tree.outside.losses,
    )
