"""Random histories of a ledger, as hypothesis makes them: commands of every kind, sensible and not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from msgspec import structs

from leasefs.core.commands import (
    AddAgent,
    AskForTime,
    Beat,
    ChangeAgent,
    ClaimLease,
    DelegateLease,
    DowngradeLease,
    DropRescue,
    EndSession,
    Freeze,
    Heartbeat,
    Note,
    OpenSession,
    RecallLease,
    ReleaseLease,
    ReportIntents,
    ReportRescue,
    RevokeAgent,
    RevokeLease,
    RotateAgent,
    SetAdmission,
    SetHold,
    SettleIntents,
    Settlement,
    StartLedger,
    Tick,
    Unfreeze,
)
from leasefs.core.intents import IntentKind, OnDirty, Outcome
from leasefs.core.lease import Mode
from leasefs.core.ledger import decide
from leasefs.core.records import Admission, Rescue
from leasefs.core.roles import Role
from leasefs.core.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.commands import AnyCommand
    from leasefs.core.draft import Decision

GLOBS = ["a/**", "a/b", "**/x.py", "c/*", "\udce9/**", "d/[ab]"]
SESSIONS = [f"session-{number}" for number in range(4)]

_opens = st.builds(
    lambda number, replace: OpenSession(
        SESSIONS[number], "0" * 64, f"agent-{number % 3}", "h", "t", "shell", "host", 1, "", replace
    ),
    st.integers(0, 3),
    st.booleans(),
)
_claims = st.builds(
    ClaimLease,
    st.sampled_from(SESSIONS),
    st.uuids().map(str),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2).map(tuple),
    st.sampled_from(Mode),
    st.sampled_from([1.0, 60.0, 3600.0]),
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["", "why \udcff"]),
)
_ids = st.integers(1, 60).map(lambda number: f"L{number}")
_keys = st.sampled_from(["", "k1", "k2", "k3"])
_releases = st.builds(ReleaseLease, st.sampled_from(SESSIONS), st.uuids().map(str), _ids)
_beats = st.builds(
    lambda session, id_: Heartbeat(session, (Beat(id_, int(id_[1:]), ("1 vi \udce9",)),)),
    st.sampled_from(SESSIONS),
    _ids,
)
_ticks = st.builds(lambda id_: Tick(tuple(f"L{n}" for n in range(60)), (*SESSIONS, id_)), _ids)
_texts = st.sampled_from(["a/b", "a/x.py", "c/d/", "\udce9/q", "zz"])
_agents = st.sampled_from([f"agent-{number}" for number in range(3)])
_trees = st.sampled_from(["t-1", "t-2"])
_reports = st.builds(
    lambda session, tree, id_, paths, wall_s, agent: ReportIntents(
        session,
        tree,
        "host",
        "/r\udce9",
        tuple(Note(path, IntentKind.MODIFY, id_, int(id_[1:]), wall_s) for path in paths),
        True,
        agent,
        "h",
    ),
    st.sampled_from(SESSIONS),
    _trees,
    _ids,
    st.lists(_texts, max_size=3),
    st.floats(0, 9),
    _agents,
)
_settlements = st.builds(
    lambda session, tree, paths, outcome: SettleIntents(
        session, tree, tuple(Settlement(path, outcome, "c") for path in paths)
    ),
    st.sampled_from(SESSIONS),
    _trees,
    st.lists(_texts, max_size=3),
    st.sampled_from(Outcome),
)
_rescues = st.builds(
    lambda session, tree, id_, agent, paths, globs: ReportRescue(
        session,
        Rescue(id_, "", tree, id_, 1, agent, "h", globs, "r", "c", 1, paths, "", 1.0),
    ),
    st.sampled_from(SESSIONS),
    _trees,
    _ids,
    _agents,
    st.lists(_texts, max_size=3).map(tuple),
    st.lists(st.sampled_from(GLOBS), max_size=2).map(tuple),
)
_leftovers = st.one_of(
    _reports,
    _settlements,
    _rescues,
    st.builds(DropRescue, st.sampled_from(SESSIONS), _ids),
    st.builds(
        lambda session, key, id_, text, on_dirty: ReleaseLease(
            session, key, id_, on_dirty=on_dirty, note=text
        ),
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        _ids,
        st.sampled_from(["", "half \udcff"]),
        st.sampled_from([OnDirty.KEEP, OnDirty.HAND_ON]),
    ),
)
_recallers = st.builds(
    lambda session, key, globs, priority, within_s: ClaimLease(
        session, key, globs, priority=priority, wait=True, recall_within_s=within_s
    ),
    st.sampled_from(SESSIONS),
    st.uuids().map(str),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2).map(tuple),
    st.integers(1, 3),
    st.sampled_from([0.0, 30.0, 600.0]),
)
_scheduled = st.one_of(
    _recallers,
    _recallers,
    st.builds(
        lambda session, key, id_: ReleaseLease(session, key, id_, commit="c0ffee", again=True),
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        _ids,
    ),
    st.builds(
        DelegateLease,
        st.sampled_from(SESSIONS),
        st.uuids().map(str),
        _ids,
        st.just(("a/b",)),
        _agents,
    ),
    st.builds(DowngradeLease, st.sampled_from(SESSIONS), st.uuids().map(str), _ids),
    st.builds(RecallLease, _ids, st.sampled_from([0.0, 30.0]), st.just("why"), st.just("op")),
    st.builds(AskForTime, st.sampled_from(SESSIONS), _ids, st.just(20.0), _keys),
    st.builds(SetHold, st.just("op"), _ids, st.sampled_from([0.0, 5000.0]), _keys),
    st.builds(
        lambda most, hold_s, key: SetAdmission(
            "t", Admission(most, most, None, None, hold_s, "r", "b"), key
        ),
        st.sampled_from([None, 0, 1, 5]),
        st.sampled_from([None, 60.0]),
        _keys,
    ),
    st.builds(
        lambda key, glob, ttl_s: Freeze("op", key, "t", (glob,), "split it", 30.0, ttl_s),
        st.uuids().map(str),
        st.sampled_from(GLOBS),
        st.sampled_from([None, 60.0]),
    ),
    st.builds(Unfreeze, st.just("op"), _ids, _keys),
)
_token_numbers = st.integers(0, 20)
_names = st.sampled_from(["agent-0", "agent-1", "agent-2"])
_identified = st.one_of(
    st.builds(
        lambda name, number, uid, role: AddAgent(
            "op", name, role, f"{number:012x}", f"{number:064x}", uid, "user"
        ),
        _names,
        _token_numbers,
        st.sampled_from([None, 1000, 1001]),
        st.sampled_from(list(Role)),
    ),
    st.builds(
        lambda name, number, grace_s: RotateAgent(
            "op", name, f"{number:012x}", f"{number:064x}", grace_s
        ),
        _names,
        _token_numbers,
        st.sampled_from([0.0, 60.0]),
    ),
    st.builds(RevokeAgent, st.just("op"), _names),
    st.builds(
        ChangeAgent,
        st.just("op"),
        _names,
        st.sampled_from([None, *Role]),
        st.sampled_from([None, -20, 20]),
        st.sampled_from([None, -1, 1001, 1002]),
    ),
    st.builds(
        lambda number: structs.replace(
            open_command(number), kind="mount", replace=True, identity=f"agent-{number}"
        ),
        st.integers(0, 2),
    ),
)
_commands = st.one_of(
    _leftovers,
    _identified,
    _scheduled,
    _scheduled,
    _opens,
    _claims,
    _claims,
    _releases,
    _beats,
    _ticks,
    st.builds(EndSession, st.sampled_from(SESSIONS)),
    st.builds(RevokeLease, st.just("op"), _ids),
    st.just(StartLedger("s", "boot", 5.0)),
)
histories = st.lists(st.tuples(_commands, st.sampled_from([0.0, 0.5, 100.0, 1e6])), max_size=60)


def open_command(number: int) -> OpenSession:
    """The command that opens one of `SESSIONS`."""
    return OpenSession(SESSIONS[number], "0" * 64, f"agent-{number}", "h", "t", "shell", "host", 1)


def decisions(history: Iterable[tuple[AnyCommand, float]]) -> Iterator[tuple[State, Decision]]:
    """Play a history of (command, seconds passed before it): each decision, with the state before it."""
    state, now_s = State(), 0.0
    for command, passed_s in history:
        now_s += passed_s
        decision = decide(state, command, now_s)
        yield state, decision
        state = decision.state
