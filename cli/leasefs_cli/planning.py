"""Making a plan of the tree here, and claiming all of its regions in one step."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from leasefs.client import api, api_scheduling
from leasefs.client.clock import BoottimeClock
from leasefs.client.ids import new_key
from leasefs.client.understand import Roots
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.partition import partition
from leasefs.core.partition_types import File
from leasefs.vcs.errors import VcsError
from leasefs.vcs.territory_files import History, history, sizes, tracked_paths
from leasefs_cli.interrupts import deaf_to_signals, stopping_as_exception
from leasefs_cli.place import mount_near, roots_of
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.core.globs import Glob
    from leasefs.core.partition_types import Plan, Region, Task
    from leasefs_cli.place import Place

# Hundreds of leases are decided in one step, and a mount looks at what lies on the ground of each.
_PATIENCE_S = 60.0
_UNDO_TIMEOUT_S = 3.0


class Terms(NamedTuple):
    """What is the same for all leases of a plan."""

    ttl_s: float
    priority: int


def roots_here() -> Roots:
    """The tree here, whether mounted or not.

    Raises:
        InvalidRequest: there is none.
    """
    found = mount_near()
    if found is not None:
        return roots_of(found)
    from leasefs_cli.tree import find_tree

    tree = find_tree(None)
    if tree is None:
        raise InvalidRequest(
            "there is no repository here to plan in; go to one, or put a `.leasefs.toml` at its root"
        )
    return Roots(tree.root)


def planned(
    root: str, tasks: Sequence[Task], apart: Sequence[Glob], *, most_commits: int, exact: bool
) -> tuple[Plan, int]:
    """The plan, and how many commits were looked at for it.

    Raises:
        InvalidRequest: git cannot tell which files there are.
    """
    try:
        paths = tracked_paths(root)
        file_sizes = sizes(root, paths)
    except (VcsError, OSError) as error:
        raise InvalidRequest(f"the files in {root} cannot be listed: {error}") from error
    past = _history(root, most_commits)
    files = [
        File(path, size_bytes, past.changes.get(path, 0))
        for path, size_bytes in zip(paths, file_sizes, strict=True)
    ]
    return partition(tasks, files, apart=apart, commits=past.commits, exact=exact), past.commits


def _history(root: str, most_commits: int) -> History:
    try:
        return history(root, most_commits)
    except VcsError as error:
        tell(f"planned without history: {error}")
        return History({}, 0)


def claim_all(place: Place, plan: Plan, terms: Terms) -> list[api.Body]:
    """A lease for each region, in their order: all or none, at once. Whatever cuts that short gives them back.

    Raises:
        InvalidRequest: there are more regions than can be claimed at once, or one has more globs than a lease may have.
        LeasefsError: what the ledger refuses.
    """
    _check_sizes(plan)
    call = api_scheduling.claim_regions(
        [_asked(region, plan.files) for region in plan.regions],
        key=new_key(),
        ttl_s=terms.ttl_s,
        priority=terms.priority,
    )._replace(patience_s=_PATIENCE_S)
    began_s = BoottimeClock().now_s()
    with stopping_as_exception():
        try:
            leases: list[api.Body] = place.link.send(call)["leases"]
            return leases
        except BaseException as failure:
            with deaf_to_signals():
                if not isinstance(failure, LeasefsError) or failure.code == "unavailable":
                    _undo(place, call, began_s, failure)
                _leave_if_empty(place)
            raise


def _check_sizes(plan: Plan) -> None:
    from leasefs.core.converting import MAX_REGIONS

    if len(plan.regions) > MAX_REGIONS:
        raise InvalidRequest(
            f"{len(plan.regions)} regions are more than the {MAX_REGIONS} that can be claimed at once; plan for fewer tasks, "
            "or for one part of the tree at a time"
        )
    for region in plan.regions:
        if len(region.globs) > MAX_GLOBS:
            raise InvalidRequest(
                f"region {region.id} of {region.task} takes {len(region.globs)} globs to say, and a lease has at most "
                f"{MAX_GLOBS}: what its tasks want cannot be taken apart; give them plainer globs"
            )


def _asked(region: Region, files: int) -> dict[str, Any]:
    then = f", then {', '.join(region.then)}" if region.then else ""
    return {
        "globs": [glob.text for glob in region.globs],
        "note": f"plan: {region.task}{then}"[:400],
        "share": region.files / files if files else 0.0,
    }


def _undo(place: Place, call: api.Call, began_s: float, failure: BaseException) -> None:
    """Give back what was claimed. Asked again under its key, the ledger says what that is (P6)."""
    link = place.link.hurried(_UNDO_TIMEOUT_S)
    try:
        for lease in link.send(call)["leases"]:
            held_for_s = lease.get("held_for_s") or 0.0
            if lease["state"] != "ended" and held_for_s <= BoottimeClock().now_s() - began_s:
                link.send(api.release(lease["lease"], key=new_key()))
    except LedgerUnavailable as error:
        if not isinstance(failure, LedgerUnavailable):
            failure.add_note(f"the regions may have been claimed: {error.message}")
    except LeasefsError:
        pass  # refused now, so nothing was claimed before


def _leave_if_empty(place: Place) -> None:
    from leasefs_cli.own_claims import forget_empty_shell

    with contextlib.suppress(LeasefsError):
        forget_empty_shell(place._replace(link=place.link.hurried(_UNDO_TIMEOUT_S)))
