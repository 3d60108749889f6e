"""Deciding what mounts report of their trees: intents, what became of them, and foreign writes (P8).

A fact is never thrown away. What was changed under a token that is no longer that of a live lease is kept like
the rest, marked as fenced, and told to the reporter. Reporting the same again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.answers import ForeignAnswer, HeldPath, IntentsAnswer, SettledAnswer, StaleNote
from leasefs.core.claims import session_of
from leasefs.core.errors import InvalidRequest
from leasefs.core.events import ForeignWrite, ForeignWrites, IntentsNoted, IntentsSettled, Settled
from leasefs.core.globs import globs_of, lies_on, literal_glob
from leasefs.core.granting import settle_territory
from leasefs.core.intents import MAX_NOTES, IntentState, Outcome, stays_new
from leasefs.core.lease import Mode
from leasefs.core.leftovers import ends, settled_as
from leasefs.core.paths import MAX_PATH_BYTES, parse_tree_path, shown
from leasefs.core.queue import ancestors
from leasefs.core.records import Holder, Intent, Lease, Session, replace
from leasefs.core.sessions import is_name

if TYPE_CHECKING:
    from leasefs.core.commands import (
        ForeignReport,
        Note,
        ReportForeignWrites,
        ReportIntents,
        SettleIntents,
        Settlement,
    )
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.records import Claim
    from leasefs.core.state import State

MAX_TEXT_LENGTH = 64 * 1024
_WALL_LIMIT_S = 1e12


def report_intents(draft: Draft, command: ReportIntents) -> Decision:
    """Keep what changed; all notes or, if one of them cannot be true, none."""
    session = session_of(draft.state, command.session)
    check_tree(command.tree, command.host, command.root)
    _check_count(len(command.notes))
    _check_author(session, command)
    found: dict[tuple[str, str, str], Intent] = {}
    stale: list[StaleNote] = []
    for note in command.notes:
        intent = _intent_of(draft.state, session, command, note)
        if intent.fenced:
            stale.append(StaleNote(note.path, note.lease, note.token))
        key = intent.agent, intent.lease, intent.path
        before = found.get(key) or _known(draft.state, session.territory, intent)
        found[key] = intent if before is None else merged(before, intent)
    news = [one for one in found.values() if one != _known(draft.state, session.territory, one)]
    if news:
        draft.emit(
            IntentsNoted(
                session=session.id,
                agent=session.agent,
                territory=session.territory,
                tree=command.tree,
                host=command.host,
                root=command.root,
                intents=tuple(news),
            )
        )
    return draft.done(IntentsAnswer(len(command.notes), tuple(stale)))


def check_tree(*texts: str) -> None:
    """Raises InvalidRequest if an id, a host or a root is missing, or too long to be one."""
    if not texts[0] or any(len(text) > MAX_TEXT_LENGTH for text in texts):
        raise InvalidRequest("a tree needs an id, and its host and root must not be endless")


def _check_count(count: int) -> None:
    if count > MAX_NOTES:
        raise InvalidRequest(f"one report has at most {MAX_NOTES} paths, this one {count}")


def _check_author(session: Session, command: ReportIntents) -> None:
    if command.agent and command.agent != session.agent and not command.recovered:
        raise InvalidRequest(
            f"{session.agent} reports what it changed itself; what {command.agent} did comes from a dead "
            "mount's journal, and is reported as recovered"
        )
    if not all(is_name(name) for name in (command.agent, command.harness) if name):
        raise InvalidRequest("bad agent or harness of the recovered intents")


def _intent_of(state: State, session: Session, command: ReportIntents, note: Note) -> Intent:
    """What the note says. Raises InvalidRequest if that cannot have happened."""
    lease = _live_lease(state, session, note, recovered=command.recovered)
    path = _checked_path(note)
    if lease is not None and not _covers(lease, path):
        raise InvalidRequest(
            f"lease {note.lease} does not cover {shown(path)!r}, so nothing can have changed it under that lease"
        )
    claim = lease.claim if lease is not None else None
    reporter = command.agent or session.agent, command.harness or session.harness
    agent, harness = (claim.agent, claim.harness) if claim is not None else reporter
    return Intent(
        path=note.path,
        kind=note.kind,
        tree=command.tree,
        lease=note.lease,
        token=note.token,
        agent=agent,
        harness=harness,
        pid=note.pid,
        program=note.program,
        first_wall_s=note.wall_s,
        last_wall_s=note.wall_s,
        size=note.size,
        other=note.other,
        fenced=claim is None,
        recovered=command.recovered,
    )


def _live_lease(state: State, session: Session, note: Note, *, recovered: bool) -> Lease | None:
    """The lease that the note names, if its token is that of a lease not taken by anyone yet (P5)."""
    lease = state.leases.get(note.lease)
    if lease is None or lease.token != note.token or lease.claim.territory != session.territory:
        return None
    return lease if recovered or lease.claim.session == session.id else None


def _covers(lease: Lease, path: bytes) -> bool:
    return lease.claim.mode is Mode.EXCLUSIVE and lies_on(path, globs_of(lease.claim.globs))


def _checked_path(note: Note) -> bytes:
    if note.other:
        parse_tree_path(note.other)
    if not note.lease or len(note.lease) > 64 or len(note.program) > MAX_TEXT_LENGTH:
        raise InvalidRequest("bad lease or program of an intent")
    if note.token < 0 or note.size < 0 or note.pid < 0 or not abs(note.wall_s) <= _WALL_LIMIT_S:
        raise InvalidRequest("bad token, size, pid or time of an intent")
    return parse_tree_path(note.path)


def _known(state: State, territory: str, intent: Intent) -> Intent | None:
    work = state.uncommitted.work(territory, intent.lease, intent.agent)
    return work.intents.get((intent.tree, intent.path)) if work is not None else None


def merged(before: Intent, now: Intent) -> Intent:
    """One intent of two: first time of the first, everything else of the second.

    A path that was new stays new while it is only written to. A committed one that is changed begins anew, but
    keeps the commit, which still has to land. What its own mount had told in time is not fenced, or recovered,
    because a journal tells it again.
    """
    again = now.last_wall_s <= before.last_wall_s
    known = replace(
        now,
        fenced=now.fenced and (before.fenced or not again),
        recovered=now.recovered and before.recovered,
    )
    if before.state is IntentState.COMMITTED:
        return replace(known, commit=before.commit, blob=before.blob)
    new = stays_new(before.kind, now.kind)
    return replace(
        known,
        first_wall_s=before.first_wall_s,
        kind=before.kind if new else now.kind,
        other=before.other if new else now.other,
        commit=before.commit,
        blob=before.blob,
    )


def settle_intents(draft: Draft, command: SettleIntents) -> Decision:
    """End or restate the intents of these paths, whoever has them."""
    session = session_of(draft.state, command.session)
    check_tree(command.tree)
    _check_count(len(command.settled))
    settled = [
        _settled(draft.state, session, command, item)
        for item in {item.path: item for item in command.settled}.values()
    ]
    changed = tuple(one for one in settled if one.whose)
    if changed:
        draft.emit(
            IntentsSettled(session.id, session.agent, session.territory, command.tree, changed)
        )
    if session.territory in draft.state.admission:
        settle_territory(draft, session.territory)  # what has landed makes place (P7)
    over = sum(len(one.whose) for one in changed if ends(one.outcome, done=one.done))
    return draft.done(SettledAnswer(sum(len(one.whose) for one in changed), over))


def _settled(state: State, session: Session, command: SettleIntents, item: Settlement) -> Settled:
    _check_settlement(item)
    found = Settled(item.path, item.outcome, (), item.commit, item.blob, item.done)
    whose = tuple(
        Holder(intent.agent, intent.lease)
        for intent in state.uncommitted.of_path(session.territory, command.tree, item.path)
        if not _changed_since(intent, command)
        and not (
            item.leases
            and intent.lease not in item.leases
            and looked_after(state, session, intent.lease)
        )
        and (ends(item.outcome, done=item.done) or settled_as(intent, found) != intent)
    )
    return replace(found, whose=whose)


def looked_after(state: State, session: Session, lease_id: str) -> bool:
    """Whether another mount looks after what is uncommitted under this lease, and would not hear of its end."""
    lease = state.leases.get(lease_id)
    if lease is None:
        return False
    holder = lease.claim.session
    return holder != session.id and holder in state.sessions


def _check_settlement(item: Settlement) -> None:
    parse_tree_path(item.path)
    committed = item.outcome is Outcome.COMMITTED
    if (committed and not item.commit) or (item.done and not committed):
        raise InvalidRequest(
            "what is committed names its commit, and only that is done without landing"
        )
    if max(len(item.commit), len(item.blob)) > 64:
        raise InvalidRequest("bad commit or blob")


def _changed_since(intent: Intent, command: SettleIntents) -> bool:
    return command.as_of_wall_s is not None and intent.last_wall_s > command.as_of_wall_s


def report_foreign_writes(draft: Draft, command: ReportForeignWrites) -> Decision:
    """Write down what came through no mount, and tell whose ground it was."""
    session = session_of(draft.state, command.session)
    check_tree(command.tree)
    _check_count(len(command.changes))
    if len(command.about) > MAX_TEXT_LENGTH:
        raise InvalidRequest("what a report is about must not be endless")
    changes = tuple(
        _foreign_write(draft.state, session.territory, change) for change in command.changes
    )
    if changes or command.events_lost:
        draft.emit(
            ForeignWrites(
                session=session.id,
                agent=session.agent,
                tree=command.tree,
                changes=changes,
                how=command.how,
                about=command.about,
                events_lost=command.events_lost,
            )
        )
    held = tuple(
        HeldPath(one.path, one.holder.agent, one.holder.lease)
        for one in changes
        if one.holder is not None
    )
    return draft.done(ForeignAnswer(held))


def _foreign_write(state: State, territory: str, change: ForeignReport) -> ForeignWrite:
    claim = _holding(state, territory, parse_tree_path(change.path))
    if claim is None:
        return ForeignWrite(change.path, change.what, change.wall_s)
    holder = Holder(claim.agent, claim.id)
    return ForeignWrite(change.path, change.what, change.wall_s, holder, claim.session)


def _holding(state: State, territory: str, path: bytes) -> Claim | None:
    """The claim that holds the path exclusively, if any; of a directory, itself.

    Of a part and what it was carved out of, the part: nobody else may write there.
    """
    plain = path.rstrip(b"/")
    if not plain or len(plain) > MAX_PATH_BYTES:
        return None
    near = state.held.candidates(territory, (literal_glob(plain),))
    over = [
        claim
        for claim in (state.leases[id_].claim for id_ in sorted(near))
        if claim.mode is Mode.EXCLUSIVE and lies_on(plain, globs_of(claim.globs))
    ]
    return max(over, key=lambda claim: len(ancestors(state, claim)), default=None)
