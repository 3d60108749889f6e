"""Two sides that speak different versions: who is refused, who passes, and who is told to upgrade."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.core import protocol
from leasefs.core.errors import ProtocolMismatch
from leasefs.core.protocol import ANSWERING, ASKING, CLIENT, LEDGER, MOUNT, Speaker

numbers = st.integers(0, 9999)
releases = st.from_regex(r"[0-9]\.[0-9a-z.+-]{0,20}", fullmatch=True)
speakers = st.builds(Speaker, st.sampled_from([CLIENT, MOUNT]), numbers, numbers, releases)


@given(speakers)
def test_what_is_sent_is_what_is_heard(speaker: Speaker) -> None:
    assert protocol.heard(speaker.header, ASKING) == speaker


@given(speakers)
def test_parameters_that_are_added_later_are_passed_over(speaker: Speaker) -> None:
    assert protocol.heard(f"{speaker.header}; color=green; x", ASKING) == speaker


def test_who_says_nothing_speaks_1_0() -> None:
    assert protocol.heard(None, ANSWERING) == Speaker(LEDGER, 1, 0)


@given(st.text(max_size=40))
def test_nobody_passes_for_a_side_that_cannot_be_there(text: str) -> None:
    for value in (text, f"1.0; side={text}", f"1.0; leasefs={text}"):
        them = protocol.heard(value, ASKING)
        assert them is None or (them.side in ASKING and "\n" not in them.leasefs)
    them = protocol.heard("1.0; side=ledger", ASKING)
    assert them is not None
    assert them.side == CLIENT


@pytest.mark.parametrize("value", ["", "1", "1.", ".1", "1.-1", "v1.0", "1.0.0", "1.99999", "².0"])
def test_what_is_no_version_is_not_taken_for_one(value: str) -> None:
    assert protocol.heard(value, ASKING) is None


@given(major=numbers, ours=numbers, theirs=numbers)
def test_a_difference_of_the_minor_version_passes(major: int, ours: int, theirs: int) -> None:
    protocol.require_understanding(Speaker(CLIENT, major, ours), Speaker(LEDGER, major, theirs))


@given(older=speakers, newer=speakers, swapped=st.booleans())
def test_a_difference_of_the_major_version_names_the_older_side(
    older: Speaker, newer: Speaker, *, swapped: bool
) -> None:
    newer = newer._replace(side=LEDGER if swapped else newer.side, major=older.major + 1)
    if newer.side == older.side:
        newer = newer._replace(side=LEDGER)
    for us, them in ((older, newer), (newer, older)):
        with pytest.raises(ProtocolMismatch) as refused:
            protocol.require_understanding(us, them)
        assert f"upgrade the {older.side} to leasefs {newer.leasefs} or later" in str(refused.value)
        assert refused.value.details == {
            "upgrade": older.side,
            "to": {"protocol": newer.protocol, "leasefs": newer.leasefs},
            "sides": {
                side.side: {"protocol": side.protocol, "leasefs": side.leasefs}
                for side in (older, newer)
            },
        }


def test_one_that_names_no_release_is_named_by_its_protocol() -> None:
    with pytest.raises(ProtocolMismatch, match=r"upgrade the ledger to a leasefs of protocol 2\.3"):
        protocol.require_understanding(Speaker(LEDGER, 1, 9, "0.1"), Speaker(CLIENT, 2, 3))


@given(us=speakers, them=speakers)
def test_only_the_older_one_can_lack_something(us: Speaker, them: Speaker) -> None:
    missing = protocol.lacking(us, them._replace(side=LEDGER), "POST /v1/new")
    if (them.major, them.minor) < (us.major, us.minor):
        assert missing is not None
        assert missing.details["upgrade"] == LEDGER
        assert "does not know POST /v1/new" in missing.message
    else:
        assert missing is None
