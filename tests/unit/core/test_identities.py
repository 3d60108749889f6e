"""Identities: issued once, known by a token, entitled to their own name and priority, and taken back whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core import tokens
from leasefs.core.commands import (
    AddAgent,
    Beat,
    ChangeAgent,
    ClaimRegions,
    DelegateLease,
    EndSession,
    Heartbeat,
    Region,
    RevokeAgent,
    RotateAgent,
)
from leasefs.core.identifying import TOKENS_KEPT
from leasefs.core.identities import MAX_UID, NOBODY, agents
from leasefs.core.lease import SESSION_TTL_S
from leasefs.core.roles import HUMAN, MAX_GRACE_S, Role
from leasefs.core.views import sessions

if TYPE_CHECKING:
    from leasefs.core.errors import LeasefsError
    from leasefs.testing.ledger_driver import LedgerDriver


def _hash(number: int) -> str:
    return f"{number:064x}"


def _id(number: int) -> str:
    return f"{number:012x}"


def _add(ledger: LedgerDriver, name: str, number: int = 1, **more: Any) -> Any:
    fields: dict[str, Any] = {"role": Role.AGENT} | more
    return ledger.answered(
        AddAgent("op", name, token_id=_id(number), token_sha256=_hash(number), **fields)
    )


def _known(ledger: LedgerDriver, name: str, number: int = 1, **more: Any) -> None:
    """An identity with an open session of its own name."""
    _add(ledger, name, number, **more)
    assert ledger.open(name, identity=name).error is None


def _error(ledger: LedgerDriver, command: Any) -> LeasefsError:
    decision = ledger.run(command)
    assert decision.error is not None
    assert not decision.events
    return decision.error


def test_a_token_is_found_by_its_id_and_kept_as_a_hash() -> None:
    token = tokens.spelled("0123456789ab", "f" * 64)
    assert tokens.id_of(token) == "0123456789ab"
    assert tokens.is_hash(tokens.hashed(token))
    for none in (
        "",
        token[:-1],
        token + "0",
        token.upper(),
        token.replace("leasefs", "github"),
        "x" + token,
        token + "\n",
    ):
        assert tokens.id_of(none) is None


def test_it_is_issued_once_and_a_name_token_or_user_belongs_to_one(ledger: LedgerDriver) -> None:
    first = _add(ledger, "ci", uid=1000, user="ci")
    assert (first.role, first.priority, first.added_by, first.uid) == ("agent", 0, "op", 1000)
    assert _add(ledger, "ci", uid=1000, user="ci") == first  # the same request again (P6)
    assert ledger.happened == []
    for command in (
        AddAgent("op", "ci", Role.OPERATOR, _id(1), _hash(1), 1000, "ci"),
        AddAgent("op", "ci", Role.AGENT, _id(2), _hash(2)),
        AddAgent("op", "other", Role.AGENT, _id(1), _hash(9)),
        AddAgent("op", "other", Role.AGENT, _id(2), _hash(2), 1000),
        RotateAgent("op", "ci", _id(1), _hash(3)),
    ):
        assert _error(ledger, command).code == "denied"


@pytest.mark.parametrize(
    "command",
    [
        AddAgent("op", "a b", Role.AGENT, _id(1), _hash(1)),
        AddAgent("op", "", Role.AGENT, _id(1), _hash(1)),
        AddAgent("op", "ci", Role.AGENT, "short", _hash(1)),
        AddAgent("op", "ci", Role.AGENT, _id(1), "leasefs_0123456789ab_" + "0" * 64),
        AddAgent("op", "ci", Role.AGENT, _id(1), _hash(1), MAX_UID + 1),
        AddAgent("op", "ci", Role.AGENT, _id(1), _hash(1), -1),
        AddAgent("op", "ci", Role.AGENT, _id(1), _hash(1), priority=101),
        AddAgent("op", "ci", Role.AGENT, _id(1), _hash(1), user="u" * 257),
        RotateAgent("op", "nobody", _id(1), _hash(1)),
        RevokeAgent("op", "nobody"),
        RotateAgent("op", "known", _id(2), _hash(2), MAX_GRACE_S + 1),
        RotateAgent("op", "known", _id(2), _hash(2), -1.0),
        RotateAgent("op", "known", "", _hash(2)),
    ],
)
def test_what_makes_no_sense_is_refused(ledger: LedgerDriver, command: Any) -> None:
    _add(ledger, "known", 7)
    assert _error(ledger, command).code == "invalid"


def test_its_sessions_bear_its_name(ledger: LedgerDriver) -> None:
    _add(ledger, "ci")
    _add(ledger, "eye", 2, role=Role.OBSERVER)
    for name, identity in (("ann", "ci"), ("eye", "eye"), ("ci", "nobody")):
        refused = ledger.open(name, identity=identity)
        assert refused.error is not None
        assert refused.error.code == "denied"
        assert not refused.events
    assert ledger.open("ci", identity="ci").error is None
    assert ledger.open("ci", identity="ci").error is None  # the same session
    stolen = ledger.open("ci", identity="eye")  # the same id and secret, and somebody else
    assert stolen.error is not None
    assert stolen.error.code == "denied"
    assert [one.identity for one in sessions(ledger.state, None, ledger.now_s)] == [
        "",
        "",
        "",
        "ci",
    ]


def test_it_claims_with_its_own_priority_at_most(ledger: LedgerDriver, refused: Any) -> None:
    """A background agent cannot claim as a person would, in none of the ways to claim."""
    _known(ledger, "ci", priority=-20)
    assert ledger.claim("ci", "x", priority=-20).state == "granted"
    for priority in (-19, 0, HUMAN):
        with refused("denied"):
            ledger.claim("ci", "y", priority=priority)
        regions = ClaimRegions("session-ci", f"r{priority}", (Region(("y",)),), priority=priority)
        assert _error(ledger, regions).code == "denied"
    with refused("denied"):
        ledger.claim("ci", "y", priority=-20, wait=True, recall_within_s=0.0)
    _known(ledger, "op", 2, role=Role.OPERATOR)
    assert (
        ledger.claim("op", "y", priority=HUMAN, wait=True, recall_within_s=0.0).state == "granted"
    )
    assert ledger.claim("a", "z", priority=HUMAN).state == "granted"  # no identity, no limit


def test_a_former_token_is_good_for_as_long_as_is_said(ledger: LedgerDriver) -> None:
    _add(ledger, "ci", 1)
    rotated = ledger.answered(RotateAgent("op2", "ci", _id(2), _hash(2), 60.0))
    assert (rotated.rotated_by, rotated.former_token_good_for_s) == ("op2", 60.0)
    assert ledger.answered(RotateAgent("op2", "ci", _id(2), _hash(2), 60.0)) == rotated
    first, second = ledger.state.identities["ci"].tokens
    assert first.is_good(ledger.now_s + 59.9)
    assert not first.is_good(ledger.now_s + 60.0)
    assert second.is_good(ledger.now_s + 1e9)
    ledger.answered(RotateAgent("op2", "ci", _id(3), _hash(3)))
    assert [token.is_good(ledger.now_s) for token in ledger.state.identities["ci"].tokens] == [
        False,
        False,
        True,
    ]
    for number in range(4, 30):
        ledger.answered(RotateAgent("op2", "ci", _id(number), _hash(number)))
    assert len(ledger.state.identities["ci"].tokens) == TOKENS_KEPT
    assert set(ledger.state.by_token) == {_id(number) for number in range(30 - TOKENS_KEPT, 30)}


def test_revoking_takes_all_and_leaves_others_alone(ledger: LedgerDriver, refused: Any) -> None:
    """P3: ground that a mount may still trust opens when it says so, or when its time is over."""
    _known(ledger, "ci")
    held = ledger.claim("ci", "x/**", ttl_s=600)
    part = ledger.answered(DelegateLease("session-ci", "d", held.lease, ("x/part",), "c"))
    waiting = ledger.claim("a", "x/a", wait=True)
    ledger.claim("b", "y")
    own_waiting = ledger.claim("ci", "y", wait=True)
    assert ledger.answered(RevokeAgent("op", "ci")).revoked_by == "op"
    assert ledger.happened == ["AgentRevoked", "Withdrawn", "Revoked"]
    assert ledger.look(held).state == "revoked"
    assert ledger.look(waiting).state == "waiting"
    assert ledger.look(part).state == "granted"
    assert ledger.look(own_waiting).state == "ended"
    with refused("session-ended"):
        ledger.claim("ci", "z")
    with refused("session-ended"):
        ledger.release("ci", held.lease)
    answer = ledger.beat("ci", held)
    assert [loss.lease for loss in answer.lost] == [held.lease]
    assert not answer.renewed
    ledger.run(Heartbeat("session-ci", (), (held.lease,)))
    assert ledger.happened[-1] == "SessionEnded"
    assert ledger.look(waiting).state == "granted"
    assert ledger.look(part).state == "granted"
    assert ledger.run(Heartbeat("session-ci")).error is not None


def test_a_revoked_one_that_says_nothing_more_is_waited_out(ledger: LedgerDriver) -> None:
    _known(ledger, "ci")
    held = ledger.claim("ci", "x", ttl_s=600)
    waiting = ledger.claim("a", "x", wait=True)
    ledger.answered(RevokeAgent("op", "ci"))
    for _ in range(7):
        ledger.beat("a")
        ledger.pass_s(80)
    assert ledger.look(waiting).state == "waiting"
    ledger.beat("a")
    ledger.pass_s(41)
    assert ledger.look(waiting).state == "granted"
    assert ledger.look(held).state == "ended"
    ledger.pass_s(SESSION_TTL_S)
    assert "session-ci" not in ledger.state.sessions


def test_a_revoked_session_may_end_itself_and_a_shell_is_over_at_once(ledger: LedgerDriver) -> None:
    _known(ledger, "ci")
    held = ledger.claim("ci", "x")
    _add(ledger, "sh", 2)
    ledger.open("sh", kind="shell", identity="sh")
    in_shell = ledger.claim("sh", "y")
    waiting = ledger.claim("a", "y", wait=True)
    ledger.answered(RevokeAgent("op", "sh"))
    assert (ledger.look(in_shell).state, ledger.look(waiting).state) == ("ended", "granted")
    assert "session-sh" not in ledger.state.sessions
    ledger.answered(RevokeAgent("op", "ci"))
    assert ledger.run(EndSession("session-ci")).error is None
    assert ledger.look(held).state == "ended"


def test_nothing_is_granted_or_given_to_who_was_revoked(ledger: LedgerDriver, refused: Any) -> None:
    _known(ledger, "ci")
    mine = ledger.claim("ci", "x", ttl_s=600)
    ledger.claim("a", "x", wait=True, priority=5, recall_within_s=30.0)
    ledger.pass_s(31)  # revoked by the recall: its holder would get the ground back
    ledger.answered(RevokeAgent("op", "ci"))
    ledger.run(Heartbeat("session-ci", (), (mine.lease,)))
    assert not any(claim.agent == "ci" for claim in ledger.state.waiters.values())
    _known(ledger, "two", 2)
    given = ledger.claim("a", "z")
    ledger.claim("two", "w")
    ledger.answered(RevokeAgent("op", "two"))
    with refused("invalid"):
        ledger.answered(DelegateLease("session-a", "d", given.lease, ("z",), "two"))


def test_a_name_can_be_issued_anew_and_the_former_session_makes_way(ledger: LedgerDriver) -> None:
    _known(ledger, "ci", 1, uid=1000)
    ledger.claim("ci", "x", ttl_s=600)
    ledger.answered(RevokeAgent("op", "ci"))
    assert not ledger.state.by_uid
    assert ledger.answered(RevokeAgent("op2", "ci")).revoked_by == "op"  # the second time nothing
    assert ledger.happened == []
    assert _error(ledger, RotateAgent("op", "ci", _id(9), _hash(9))).code == "denied"
    _add(ledger, "ci", 2, uid=1000)
    assert ledger.open("ci", "-two", identity="ci").error is None
    assert ledger.run(Heartbeat("session-ci", (Beat("L1", 1),))).error is not None
    assert [token.is_good(ledger.now_s) for token in ledger.state.identities["ci"].tokens] == [
        False,
        True,
    ]
    (answer,) = agents(ledger.state, ledger.now_s)
    assert (answer.revoked_ago_s, answer.sessions, answer.used_ago_s) == (
        None,
        ("session-ci-two",),
        0.0,
    )


def test_a_session_of_its_name_is_its_own_whoever_opens_it(
    ledger: LedgerDriver, refused: Any
) -> None:
    """A mount of root, say, whose agent is an identity: its priority holds, and revoking it ends the mount's session."""
    _add(ledger, "a", 1, priority=-20)  # has a session already
    with refused("denied"):
        ledger.claim("a", "x", priority=0)
    assert ledger.claim("a", "x", priority=-20).state == "granted"
    _add(ledger, "root-made", 2)
    assert ledger.open("root-made").error is None
    with refused("denied"):
        ledger.claim("root-made", "y", priority=1)
    assert [one.sessions for one in agents(ledger.state, ledger.now_s)] == [
        ("session-a",),
        ("session-root-made",),
    ]
    ledger.answered(RevokeAgent("op", "root-made"))
    again = ledger.open("root-made", "-two")
    assert again.error is not None
    assert again.error.code == "denied"
    assert "issues a new one" in again.error.message
    _add(ledger, "root-made", 3)
    assert ledger.open("root-made", "-two").error is None
    _add(ledger, "b", 4, role=Role.OBSERVER)  # what it has open stays what it was
    assert ledger.claim("b", "z", priority=HUMAN).state == "granted"


def test_what_it_may_is_changed_without_another_token(ledger: LedgerDriver, refused: Any) -> None:
    _known(ledger, "ci", 1, priority=-20)
    waiting = ledger.claim("ci", "x", priority=-20)
    changed = ledger.answered(ChangeAgent("op", "ci", None, 20, 1000, "ci"))
    assert (changed.role, changed.priority, changed.uid) == ("agent", 20, 1000)
    assert ledger.state.by_uid[1000] == "ci"
    assert ledger.answered(ChangeAgent("op", "ci", None, 20, 1000, "ci")) == changed
    assert ledger.happened == []
    assert ledger.claim("ci", "y", priority=20).state == "granted"
    assert ledger.look(waiting).priority == -20
    with refused("denied"):  # it has a session
        ledger.answered(ChangeAgent("op", "ci", Role.OBSERVER))
    _add(ledger, "two", 2)
    with refused("denied"):  # the user is another's
        ledger.answered(ChangeAgent("op", "two", uid=1000, user="ci"))
    assert ledger.answered(ChangeAgent("op", "ci", uid=NOBODY)).uid is None
    assert ledger.answered(ChangeAgent("op", "two", Role.OBSERVER, uid=1000)).role == "observer"
    for wrong in (
        ChangeAgent("op", "nobody", priority=1),
        ChangeAgent("op", "two", priority=101),
        ChangeAgent("op", "two", uid=-2),
    ):
        with refused("invalid"):
            ledger.answered(wrong)
    ledger.answered(RevokeAgent("op", "two"))
    with refused("denied"):
        ledger.answered(ChangeAgent("op", "two", priority=1))
