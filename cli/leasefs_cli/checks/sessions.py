"""Checks of sessions: stored ones that the ledger does not know, and leases of those whose process is gone."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials
from leasefs.client.process import process_identity
from leasefs.client.shell_session import forget, stored_sessions
from leasefs.core.errors import LeasefsError
from leasefs.service.liveness import known_dead
from leasefs_cli.checks.finding import OK, UNKNOWN, WARN, Finding, Repair
from leasefs_cli.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.client.shell_session import ShellSession

_TIMEOUT_S = 5.0


def stored_findings() -> Iterator[Finding]:
    """One finding for each stored session of a shell that its ledger knows no more, or cannot be asked about."""
    try:
        stored = stored_sessions()
    except LeasefsError as error:
        yield Finding(UNKNOWN, "stored sessions", error.message, "")
        return
    known: dict[str, set[str] | str] = {
        url: _known_to(url) for url in {session.ledger for session in stored}
    }
    stale = False
    for session in stored:
        found = _stored(session, known[session.ledger])
        if found is not None:
            stale = True
            yield found
    if not stale:
        yield Finding(OK, "stored sessions", f"{len(stored)}, all of them known to their ledger")


def _known_to(url: str) -> set[str] | str:
    """The sessions of a ledger, or why they are not known."""
    try:
        said = Link(url, timeout_s=_TIMEOUT_S).send(api.sessions())
    except LeasefsError as error:
        return error.message
    return {one["session"] for one in said["sessions"]}


def _stored(session: ShellSession, known: set[str] | str) -> Finding | None:
    name = f"stored session of {session.agent} in {session.territory}"
    if isinstance(known, str):
        return Finding(UNKNOWN, name, f"whether it lives is not known: {known}", "")
    if session.credentials.session in known:
        return None
    advice = "leasefs doctor --fix forgets it; the agent's next claim begins another one anyway"
    repair = Repair("forget it", partial(_forgotten, session))
    return Finding(WARN, name, f"{session.ledger} does not know it any more", advice, repair)


def _forgotten(session: ShellSession) -> str:
    return "forgotten" if forget(session) else "a command has taken another session meanwhile"


def holder_findings(url: str) -> Iterator[Finding]:
    """One finding for each session that holds leases or waits, and whose process on this machine is gone."""
    link = Link(url, timeout_s=_TIMEOUT_S)
    try:
        sessions = link.send(api.sessions())["sessions"]
        held = link.send(api.leases())["leases"]
        waiting = link.send(api.queue())["waiters"]
    except LeasefsError as error:
        yield Finding(UNKNOWN, "holders", f"the ledger cannot be asked: {error.message}", "")
        return
    dead = [one for one in sessions if known_dead(one.get("process", ""))]
    gone = False
    for session in dead:
        theirs = [one for one in (*held, *waiting) if one["session"] == session["session"]]
        if theirs:
            gone = True
            yield _without_holder(url, session, theirs)
    if not gone:
        yield Finding(OK, "holders", f"{len(held)} leases, none of a process that is gone")


def _without_holder(url: str, session: dict[str, Any], theirs: list[dict[str, Any]]) -> Finding:
    globs = " ".join(glob for one in theirs for glob in one["globs"])
    longest_s = max((one.get("expires_in_s") or 0.0 for one in theirs), default=0.0)
    until = f" for {in_words(longest_s)} at most" if longest_s > 0 else ""
    return Finding(
        WARN,
        f"holder {session['agent']} in {session['territory']}",
        f"process {session['pid']} is gone and still stands on {globs}{until}",
        "leasefs doctor --fix ends its session; so does the agent's next mount or run",
        Repair("end its session", partial(_ended, url, session)),
    )


def _ended(url: str, session: dict[str, Any]) -> str:
    """As if the agent came back: the ledger sees for itself that the process is gone, and frees its ground at once."""
    credentials = new_credentials()
    link = Link(url, credentials, timeout_s=_TIMEOUT_S)
    link.send(
        api.open_session(
            session=credentials.session,
            secret=credentials.secret,
            agent=session["agent"],
            harness="doctor",
            territory=session["territory"],
            kind="run",
            host=session["host"],
            pid=os.getpid(),
            process=process_identity(os.getpid()),
        )
    )
    link.send(api.end_session(credentials.session))
    return f"the session of process {session['pid']} is over; what is uncommitted stays known (leasefs intents)"
