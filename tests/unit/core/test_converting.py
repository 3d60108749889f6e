"""Upgrades, downgrades and several regions at once, case by case (P6, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasefs.core.commands import ClaimRegions, DelegateLease, DowngradeLease, Region, SetAdmission
from leasefs.core.lease import Mode
from leasefs.core.records import Admission

if TYPE_CHECKING:
    from leasefs.core.answers import RegionsAnswer
    from leasefs.testing.ledger_driver import LedgerDriver


def regions(ledger: LedgerDriver, agent: str, *globs: str, **more: Any) -> RegionsAnswer:
    key = more.pop("key", f"key-{ledger.state.seq}")
    asked = tuple(Region((glob,)) for glob in globs)
    return ledger.answered(ClaimRegions(f"session-{agent}", key, asked, **more))


def test_readers_batch_and_a_writer_is_not_starved(ledger: LedgerDriver) -> None:
    first = ledger.claim("a", "x", mode=Mode.SHARED)
    writer = ledger.claim("b", "x", wait=True)
    ledger.open("d")
    readers = [ledger.claim(agent, "x", mode=Mode.SHARED, wait=True) for agent in "cd"]
    assert [one.state for one in readers] == ["waiting"] * 2, "readers queue behind the writer"
    ledger.release("a", first.lease)
    assert ledger.look(writer).state == "granted"
    ledger.release("b", writer.lease)
    assert ledger.happened == ["Released", "Granted", "Granted"]


def test_an_upgrade_waits_its_turn_and_gives_up_what_it_replaces(ledger: LedgerDriver) -> None:
    shared = ledger.claim("a", "x", mode=Mode.SHARED)
    other = ledger.claim("b", "x", mode=Mode.SHARED)
    up = ledger.claim("a", "x", replaces=shared.lease, wait=True)
    assert [one.agent for one in up.waits_for] == ["b"]
    ledger.release("b", other.lease)
    assert ledger.happened == ["Released", "Released", "Granted"]
    assert (ledger.look(up).state, ledger.look(shared).state) == ("granted", "ended")


def test_an_upgrade_that_is_asked_twice_answers_the_same(ledger: LedgerDriver) -> None:
    """P6: the shared lease is gone by then."""
    shared = ledger.claim("a", "x", mode=Mode.SHARED)
    up = ledger.claim("a", "x", replaces=shared.lease, key="k")
    again = ledger.claim("a", "x", replaces=shared.lease, key="k")
    assert (again.lease, again.state, ledger.happened) == (up.lease, "granted", [])


def test_ground_that_an_upgrade_leaves_goes_to_who_waits_for_it(ledger: LedgerDriver) -> None:
    shared = ledger.claim("a", "x/*", mode=Mode.SHARED)
    waiting = ledger.claim("b", "x/2", wait=True)
    up = ledger.claim("a", "x/1", replaces=shared.lease)
    assert up.state == "granted"
    assert ledger.look(waiting).state == "granted"


def test_only_a_shared_lease_of_ones_own_is_replaced(ledger: LedgerDriver, refused: Any) -> None:
    """An exclusive one has a gate of its own: what is uncommitted under it would be left unseen."""
    own, others = ledger.claim("a", "x"), ledger.claim("b", "y", mode=Mode.SHARED)
    with refused("invalid"):
        ledger.claim("a", "x", "z", replaces=own.lease)
    with refused("unknown-lease"):
        ledger.claim("a", "y", replaces=others.lease, wait=True)


def test_a_downgrade_lets_readers_in_under_a_new_token(ledger: LedgerDriver) -> None:
    held = ledger.claim("a", "x")
    reader = ledger.claim("b", "x", mode=Mode.SHARED, wait=True)
    writer = ledger.claim("c", "x", wait=True)
    after = ledger.answered(DowngradeLease("session-a", "k", held.lease))
    assert ledger.happened == ["Downgraded", "Granted"]
    assert (after.lease, after.mode) == (held.lease, Mode.SHARED)
    assert after.token > held.token
    assert [ledger.look(one).state for one in (reader, writer)] == ["granted", "waiting"]
    assert ledger.answered(DowngradeLease("session-a", "k", held.lease)).token == after.token
    assert ledger.happened == []


def test_a_downgrade_needs_the_whole_lease(ledger: LedgerDriver, refused: Any) -> None:
    held = ledger.claim("a", "x/**", ttl_s=10)
    part = ledger.answered(DelegateLease("session-a", "d", held.lease, ("x/1",), "b"))
    for agent, lease in (("a", held), ("b", part)):
        with refused("invalid"):
            ledger.answered(DowngradeLease(f"session-{agent}", "k", lease.lease))
    with refused("not-holder"):
        ledger.answered(DowngradeLease("session-c", "k", held.lease))
    ledger.pass_s(11)
    with refused("lost"):
        ledger.answered(DowngradeLease("session-a", "k", held.lease))


def test_regions_are_granted_all_or_none(ledger: LedgerDriver, refused: Any) -> None:
    ledger.claim("a", "y")
    with refused("conflict"):
        regions(ledger, "b", "x", "y")
    assert ledger.happened == ["ClaimRefused"], "P11"
    assert len(ledger.state.leases) == 1
    with refused("invalid"):
        regions(ledger, "b", "x/*", "x/1")
    assert [one.state for one in regions(ledger, "b", "x", "z").leases] == ["granted"] * 2


def test_many_regions_are_one_request(ledger: LedgerDriver, refused: Any) -> None:
    """P6: of a request with more leases than keys are remembered, too."""
    names = [f"d{number}" for number in range(200)]
    before = ledger.claim("a", "mine", key="earlier")
    first = regions(ledger, "a", *names, key="k")
    again = regions(ledger, "a", *names, key="k")
    assert ledger.happened == []
    assert [one.lease for one in again.leases] == [one.lease for one in first.leases]
    assert ledger.claim("a", "mine", key="earlier").lease == before.lease
    with refused("key-reused"):
        regions(ledger, "a", *names[:3], key="k")


def test_regions_keep_to_caps_together(ledger: LedgerDriver, refused: Any) -> None:
    ledger.answered(SetAdmission("t", Admission(max_leases=2)))
    with refused("over-cap"):
        regions(ledger, "a", "x", "y", "z")
    assert not ledger.state.leases
    assert len(regions(ledger, "a", "x", "y").leases) == 2


def test_regions_close_no_cycle(ledger: LedgerDriver, refused: Any) -> None:
    """They may come before somebody of lower priority who waits, and whom the session waits for."""
    ledger.claim("a", "held-by-a")
    ledger.claim("c", "held-by-c")
    ledger.claim("a", "x", "held-by-c", wait=True)
    ledger.claim("b", "held-by-a", wait=True)
    with refused("deadlock"):
        regions(ledger, "b", "x", priority=2)
    assert len(regions(ledger, "b", "y", priority=2).leases) == 1
