"""`leasefs hooks run`: what the hooks call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import click

from leasefs.client import api
from leasefs.client.names import configured_agent
from leasefs.core.errors import ClaimConflict, InvalidRequest, LeasefsError
from leasefs.core.paths import shown, text
from leasefs.vcs.errors import VcsError
from leasefs.vcs.hook_script import NAMES
from leasefs_cli.committing import committer, judge_commit
from leasefs_cli.lease_rows import until, who_is
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.committing import Committer, Uncovered, Verdict

PATHS_SHOWN = 10
PUSH_SHOWN = 3


@teaching_command(
    "run",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    own_codes=[("3", "the commit holds paths that are not under your leases")],
    examples=[
        ("leasefs hooks run pre-commit", "would what is staged pass?"),
        (
            'leasefs hooks run commit-msg "$1" || exit $?',
            "in a hook that you keep yourself",
        ),
    ],
)
@json_option
@click.argument("name", type=click.Choice(NAMES))
@click.argument("arguments", metavar="[ARGS]...", nargs=-1)
def command(name: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Do what hook NAME does, with the ARGS that git gave it, at the top of the working tree.

    pre-commit and commit-msg look at what is staged. Each path must lie under an exclusive lease of the
    committing agent: that of the mount here, else agent.name (LEASEFS_AGENT). Outside any mount, and with no agent
    named, only paths that somebody holds are refused.

    pre-push refuses nothing: it tells which paths the agent changed and did not commit.

    With the ledger away, a mount answers from what it holds; otherwise the commit passes, and what was
    not checked is said.
    """
    who = committer()
    if who is None:
        return
    if name == "pre-push":
        left = _uncommitted(who)
        if as_json:
            say_json({"hook": name, "agent": who.agent, "uncommitted": left})
        return
    try:
        verdict = _judged(who)
        if name == "commit-msg":
            _add_trailers(who, verdict, arguments)
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    if as_json:
        say_json({"hook": name, "agent": who.agent, "leases": verdict.leases})


def _uncommitted(who: Committer) -> int:
    """Tell how many paths the agent changed and did not commit: what is pushed lacks them."""
    if not who.agent:
        return 0
    call = api.intents(who.territory, agent=who.agent, state="dirty", limit=str(PUSH_SHOWN))
    try:
        found = who.link.send(call)
    except LeasefsError as error:
        tell(f"whether you left something uncommitted was not checked: {error.message}")
        return 0
    total = int(found["total"])
    if total:
        first = ", ".join(intent["path"] for intent in found["intents"])
        more = f" and {total - PUSH_SHOWN} more" if total > PUSH_SHOWN else ""
        tell(f"pushing without what you changed and did not commit yet: {first}{more}")
    return total


def _judged(who: Committer) -> Verdict:
    verdict = judge_commit(who)
    if verdict.unchecked:
        tell(verdict.unchecked)
    if verdict.uncovered:
        _refuse(who, verdict)
    return verdict


def _add_trailers(who: Committer, verdict: Verdict, arguments: tuple[str, ...]) -> None:
    """Name the leases, where the project wants that."""
    from leasefs.client.config import around
    from leasefs.vcs.project_file import read_project_file
    from leasefs.vcs.trailers import add_trailers

    root = who.roots.mountpoint
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wanted = read_project_file(root_fd, root, around()).trailer
    finally:
        os.close(root_fd)
    if wanted:
        add_trailers(_message_in(arguments), "Lease", verdict.leases)


def _message_in(arguments: tuple[str, ...]) -> str:
    if len(arguments) != 1:
        raise click.UsageError("commit-msg is given the file of the message, and nothing else")
    return arguments[0]


def _refuse(who: Committer, verdict: Verdict) -> NoReturn:
    """Raises ClaimConflict, after a line for each of the first paths."""
    found = verdict.uncovered
    for one in found[:PATHS_SHOWN]:
        tell(_words(one, who.agent))
    if len(found) > PATHS_SHOWN:
        tell(f"and {len(found) - PATHS_SHOWN} more paths")
    whose = "your leases" if who.agent else "a lease of yours"
    raise ClaimConflict(
        f"not committed: {len(found)} of its paths {'is' if len(found) == 1 else 'are'} not under {whose}; "
        f"{_advice(found, who)}",
        agent=who.agent,
        paths=[{"path": text(one.path), "held": one.held} for one in found],
    )


def _words(one: Uncovered, agent: str) -> str:
    path = shown(one.path)
    if one.held is None:
        return f"{path}: no lease of {agent} covers it"
    lease = one.held
    if lease["agent"] == agent and lease["mode"] == "shared":
        return f"{path}: your lease {lease['lease']} over it is shared, and under that nobody may write"
    ends = until(lease) if lease["state"] == "lapsed" else f"expires in {until(lease)}"
    return f"{path}: held by {who_is(lease)}, {lease['lease']} {' '.join(lease['globs'])} ({ends})"


def _advice(found: Sequence[Uncovered], who: Committer) -> str:
    first = shown(found[0].path)
    steps = [f"take them out (`git restore --staged {first}`)"]
    if any(one.held is None for one in found):
        steps.append(f"claim them (`leasefs claim {first}`)")
    if any(one.held is not None for one in found):
        steps.append(f"wait for them (`leasefs claim {first} --wait`)")
    if not who.agent and not configured_agent():
        steps.append("say which agent you are (LEASEFS_AGENT)")
    return ", or ".join(steps) + ", then commit again"
