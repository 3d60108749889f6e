"""`leasefs release`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError
from leasefs_cli.durations import in_words
from leasefs_cli.exit_codes import DONE, exit_code_of
from leasefs_cli.own_claims import forget_empty_shell, ids_named, is_lease_id, own_claims
from leasefs_cli.place import holding_place, ledger_here
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Callable


@teaching_command(
    "release",
    examples=[
        ('leasefs release "$id"', "what `leasefs claim` printed"),
        ("leasefs release 'packages/core/**'", "by the globs that were claimed"),
        ("leasefs release --all", "everything that this mount holds or waits for"),
        ("leasefs release --force L17", "as operator: end somebody else's lease"),
    ],
)
@click.argument("names", metavar="[LEASE|GLOB]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that you hold or wait for.")
@click.option(
    "--force", is_flag=True, help="As operator, end leases of others, by id. Written into the log."
)
@click.option("--agent", metavar="NAME", help="Who you are outside a mount.")
@json_option
def command(
    names: tuple[str, ...], everything: bool, force: bool, agent: str | None, as_json: bool
) -> int:
    """Give leases back, or withdraw waiting claims. The next in the queue has the ground at once.

    A lease is named by its id or by its globs, and is released whole. From then on writes there fail.
    Releasing what you do not hold fails (5).

    --force ends a lease whoever holds it: it is never renewed again, and its ground is free as soon as
    its holder has heard of that, at the latest when it would have expired.
    """
    if bool(names) == everything:
        raise click.UsageError("name leases (ids or globs), or give --all, not both")
    if force:
        return _revoke(names, as_json=as_json)
    place = holding_place(agent, names)
    ids = ids_named(place, names) or [claim["lease"] for claim in own_claims(place)]
    code = _each(ids, lambda id_: place.link.send(api.release(id_, key=new_key())), as_json=as_json)
    if not ids and not as_json:
        tell("nothing is held, so there was nothing to release")
    forget_empty_shell(place)
    return code


def _revoke(names: tuple[str, ...], *, as_json: bool) -> int:
    strange = [name for name in names if not is_lease_id(name)]
    if strange or not names:
        raise click.UsageError(
            "--force takes lease ids; `leasefs leases` and `leasefs who PATH` list them"
        )
    link = ledger_here()

    def revoke(id_: str) -> api.Body:
        answer = link.send(api.revoke(id_))
        if answer["state"] == "revoked" and not as_json:
            left = in_words(max(0.0, answer.get("expires_in_s") or 0.0))
            tell(f"{id_} of {answer['agent']} is revoked; its ground is free within {left}")
        return answer

    return _each(list(names), revoke, as_json=as_json)


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
