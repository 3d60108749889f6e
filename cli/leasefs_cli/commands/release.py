"""`leasefs release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable, UnknownLease
from leasefs_cli.durations import in_words
from leasefs_cli.exit_codes import DONE, exit_code_of
from leasefs_cli.operating import operator_here
from leasefs_cli.own_claims import forget_empty_shell, ids_named, is_lease_id, own_claims
from leasefs_cli.place import holding_place
from leasefs_cli.printing import say_json, tell
from leasefs_cli.release_checks import Gate
from leasefs_cli.teaching import json_option, teaching_command
from leasefs_cli.tree import checked_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs_cli.place import Place

# A mount asks git about every changed path first, and a rescue reads them all.
PATIENCE_S = 60.0


@teaching_command(
    "release",
    examples=[
        ('leasefs release "$id"', "what `leasefs claim` printed"),
        ("leasefs release 'packages/core/**'", "by the globs that were claimed"),
        ("leasefs release --all", "everything that this mount holds or waits for"),
        (
            "leasefs release L12 --note 'parser done, its tests are not'",
            "and tell the next holder where things stand",
        ),
        ("leasefs release L12 --rescue", "keep what is uncommitted in a rescue, then release"),
        ("leasefs release --force L17", "as operator: end somebody else's lease"),
    ],
)
@click.argument("names", metavar="[LEASE|GLOB]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that you hold or wait for.")
@click.option(
    "--require",
    type=click.Choice(["none", "committed", "pushed"]),
    help="What the changes under the lease must be. Default release.require, which .leasefs.toml may say, else committed.",
)
@click.option(
    "--rescue", is_flag=True, help="Keep uncommitted changes in a rescue first (in a mount)."
)
@click.option(
    "--keep", is_flag=True, help="Leave uncommitted changes in the tree; they stay listed as yours."
)
@click.option(
    "--force",
    is_flag=True,
    help="Release without any gate; leases of others (by id) are ended, as operator. It is logged.",
)
@click.option(
    "--note", default="", metavar="TEXT", help="For the next holder, who is shown it once."
)
@click.option(
    "--again",
    is_flag=True,
    help="If it was recalled, claim it again at once, behind those that it was recalled for.",
)
@click.option("--agent", metavar="NAME", help="Who you are outside a mount.")
@json_option
def command(
    names: tuple[str, ...],
    everything: bool,
    require: str | None,
    rescue: bool,
    keep: bool,
    force: bool,
    note: str,
    again: bool,
    agent: str | None,
    as_json: bool,
) -> int:
    """Give leases back, or withdraw waiting claims. The next in the queue has the ground at once.

    A lease is named by its id or by its globs, and is released whole. From then on writes there fail.
    Releasing what you do not hold fails (5).

    A lease under which something is uncommitted is not released (6): commit it, or choose --rescue, --keep or
    --force. Neither is one whose project has checks in .leasefs.toml that fail; those are run here, on what was
    changed and has not landed. --rescue, --keep and --force leave them out.

    --force on the lease of somebody else ends it: it is never renewed again, and its ground is free as soon as its
    holder has heard of that, at the latest when it would have expired.
    """
    if bool(names) == everything:
        raise click.UsageError("name leases (ids or globs), or give --all, not both")
    if rescue + keep + force > 1:
        raise click.UsageError("choose one of --rescue, --keep and --force")
    dirty = "rescue" if rescue else "keep" if keep else "force" if force else "refuse"
    wish = Wish(require, dirty, note)
    place = _place(agent, names, wish)
    if place is None:
        return _each(list(names), _revoke, as_json=as_json)
    ids, strange = _ids(place, names, wish)
    gate = Gate(place) if dirty == "refuse" else None
    link = place.link
    # A mount knows by itself what is checked out.
    commit = "" if place.mount else checked_out(place.roots.mountpoint)

    def release(id_: str) -> api.Body:
        if id_ in strange:
            return _revoke(id_)
        asked = require
        if gate is not None:
            gate.check(id_, require)
            asked = require or (gate.require if place.mount else None)
        call = api.release(
            id_,
            key=new_key(),
            require=asked,
            dirty=dirty,
            note=note,
            commit=commit,
            again=again,
        )
        return link.send(call._replace(patience_s=PATIENCE_S) if place.mount else call)

    code = _each(ids, release, as_json=as_json)
    if not ids and not as_json:
        tell("nothing is held, so there was nothing to release")
    try:
        forget_empty_shell(place)
    except LedgerUnavailable as error:
        # What became of the leases is said already; the name is free once the session has been silent.
        if code == DONE:
            tell(f"{place.agent}'s session was not ended: {error.message}")
    return code


class Wish(NamedTuple):
    """What the release is to look at, do with uncommitted work, and leave for the next holder."""

    require: str | None
    dirty: str
    note: str


def _place(agent: str | None, names: tuple[str, ...], wish: Wish) -> Place | None:
    """Where the leases are held; None for an operator, who holds nothing here and ends those of others.

    Raises:
        UnknownLease, InvalidRequest: as `holding_place`, unless it is for the operator.
        InvalidRequest: a rescue is asked for where no mount can make it.
    """
    by_id = bool(names) and all(map(is_lease_id, names))
    as_operator = wish.dirty == "force" and by_id and agent is None
    try:
        place = holding_place(agent, names)
    except (UnknownLease, InvalidRequest):
        if as_operator:
            return None
        raise
    if as_operator and place.mount is None:
        return None  # a shell has nothing uncommitted that --force could be about
    if wish.dirty == "rescue" and place.mount is None:
        raise InvalidRequest(
            "only a mount can make a rescue, and this is not one; go to the mount that holds the lease"
        )
    return place


def _ids(place: Place, names: tuple[str, ...], wish: Wish) -> tuple[list[str], set[str]]:
    """The leases that are meant, and which of them are held by somebody else."""
    if not names:
        return [claim["lease"] for claim in own_claims(place)], set()
    ids = ids_named(place, names)
    if wish.dirty != "force":
        return ids, set()
    return ids, set(ids) - {claim["lease"] for claim in own_claims(place)}


def _revoke(id_: str) -> api.Body:
    """End somebody else's lease."""
    answer = operator_here().link.send(api.revoke(id_))
    if answer["state"] == "revoked":
        left = in_words(max(0.0, answer.get("expires_in_s") or 0.0))
        tell(f"{id_} of {answer['agent']} is revoked; its ground is free within {left}")
    return answer


def _each(ids: list[str], act: Callable[[str], api.Body], *, as_json: bool) -> int:
    """Do it for each; one that fails does not keep the others. The code is the first failure's."""
    done: list[api.Body] = []
    failed: list[dict[str, object]] = []
    code = DONE
    for id_ in ids:
        try:
            done.append(act(id_))
        except LeasefsError as error:
            tell(error.message)
            failed.append(
                {
                    "lease": id_,
                    "code": error.code,
                    "message": error.message,
                    "details": error.details,
                }
            )
            code = code or exit_code_of(error.code)
    if as_json:
        first = {"error": {**failed[0], "exit_code": code}} if failed else {}
        say_json({"released": done, "failed": failed, **first})
    return code
