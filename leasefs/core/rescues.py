"""Deciding rescues: a snapshot was made, a snapshot is not wanted any more (P9)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from leasefs.core.answers import Dropped, RescueAnswer
from leasefs.core.claims import session_of
from leasefs.core.errors import InvalidRequest
from leasefs.core.events import Rescued, RescueDropped
from leasefs.core.globs import globs_of
from leasefs.core.granting import settle_territory
from leasefs.core.intents import MAX_RESCUED_PATHS, NAMES_KEPT
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.paths import parse_tree_path
from leasefs.core.records import Rescue, Session, replace
from leasefs.core.reports import MAX_TEXT_LENGTH, check_tree, looked_after
from leasefs.core.sessions import is_name
from leasefs.core.uncommitted import Work, ground_of

if TYPE_CHECKING:
    from leasefs.core.commands import DropRescue, ReportRescue
    from leasefs.core.draft import Decision, Draft
    from leasefs.core.state import State

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def report_rescue(draft: Draft, command: ReportRescue) -> Decision:
    """Keep the rescue; the intents that it contains end, for their bytes are safe.

    Of a lease that another open session holds they do not: that its bytes are safe is for its own mount to say.
    """
    session = session_of(draft.state, command.session)
    contained = command.rescue.names if command.contained is None else command.contained
    _check(session, command.rescue, contained)
    given = command.rescue
    work = draft.state.uncommitted.work(session.territory, given.lease, given.agent)
    known = draft.state.rescues_of(session.territory).get(given.id)
    _refuse_another(known, given)
    others = looked_after(draft.state, session, given.lease)
    ended = () if others else _ended(work, given.tree, contained)
    rescue = known or replace(
        given,
        territory=session.territory,
        by=session.agent,
        globs=given.globs or _ground(draft.state, work, given, contained),
        names=given.names[:NAMES_KEPT],
    )
    if known is None or ended:
        draft.emit(Rescued(session.id, session.agent, rescue, ended))
    if ended and session.territory in draft.state.admission:
        settle_territory(draft, session.territory)
    return draft.done(RescueAnswer(rescue, len(ended)))


def _check(session: Session, rescue: Rescue, contained: tuple[str, ...]) -> None:
    if rescue.territory not in {"", session.territory}:
        raise InvalidRequest(f"the rescue is one of {rescue.territory}, the session of another")
    check_tree(rescue.tree, rescue.host, rescue.root)
    texts = (rescue.id, rescue.lease, rescue.ref, rescue.commit, rescue.agent)
    if not all(texts) or any(len(text) > MAX_TEXT_LENGTH for text in (*texts, rescue.reason)):
        raise InvalidRequest("a rescue needs an id, a lease, an agent, a ref and a commit")
    if not _ID.fullmatch(rescue.id) or not is_name(rescue.agent):
        raise InvalidRequest(
            f"bad id {rescue.id[:80]!r} or agent {rescue.agent[:80]!r} of a rescue"
        )
    if len(contained) > MAX_RESCUED_PATHS or len(rescue.globs) > MAX_GLOBS or rescue.paths < 0:
        raise InvalidRequest(
            f"one report has at most {MAX_RESCUED_PATHS} paths; send it again with the rest"
        )
    globs_of(rescue.globs)
    for path in (*contained, *rescue.names):
        parse_tree_path(path)


def _refuse_another(known: Rescue | None, given: Rescue) -> None:
    if known is not None and (known.commit, known.tree) != (given.commit, given.tree):
        raise InvalidRequest(
            f"rescue {given.id} is another snapshot ({known.commit} in {known.host}:{known.root}); this one needs "
            "an id of its own"
        )


def _ended(work: Work | None, tree: str, contained: tuple[str, ...]) -> tuple[str, ...]:
    if work is None:
        return ()
    return tuple(path for path in dict.fromkeys(contained) if (tree, path) in work.intents)


def _ground(
    state: State, work: Work | None, rescue: Rescue, contained: tuple[str, ...]
) -> tuple[str, ...]:
    """Where the rescued paths lie, when the reporter no longer knows the lease's globs."""
    lease = state.leases.get(rescue.lease)
    if lease is not None:
        return lease.claim.globs
    if work is not None:
        return work.globs
    return ground_of([parse_tree_path(path) for path in contained or rescue.names])


def drop_rescue(draft: Draft, command: DropRescue) -> Decision:
    """Forget the rescue, whoever made it; the log says who did."""
    session = session_of(draft.state, command.session)
    rescue = draft.state.rescues_of(session.territory).get(command.id)
    if rescue is not None:
        draft.emit(RescueDropped(session.id, session.agent, rescue))
    return draft.done(Dropped(rescue is not None))
