"""Which leases of a former session are claimed again, and what becomes of those that could not be yet."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from leasefs.core.errors import ClaimConflict, Denied, LedgerUnavailable
from leasefs.mount.kept_file import KeptFile
from leasefs.mount.kept_leases import KeptLeases
from leasefs.mount.unleased_claims import NOTE

if TYPE_CHECKING:
    from pathlib import Path

    from leasefs.client import api
    from leasefs.client.lessee import Lessee
    from leasefs.client.transport import Transport

pytestmark = pytest.mark.trio


def lease(glob: str, **fields: Any) -> dict[str, Any]:
    usual = {"lease": f"L-{glob}", "agent": "ada", "state": "granted", "mode": "exclusive"}
    return {**usual, "globs": [glob], "ttl_s": 60.0, "priority": 0, "note": "", **fields}


class Ledger:
    """Answers for both the lessee and the transport; `asked` are the claims that came by each."""

    def __init__(self, *held: dict[str, Any]) -> None:
        self.held = held
        self.identity = SimpleNamespace(agent="ada", territory="t")
        self.adopted: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.tried: list[str] = []
        self.fault: Exception | None = None
        self.answers = trio.Event()
        self.answers.set()

    async def send(self, call: api.Call, *, timeout_s: float) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        if call.method == "GET":
            return {"leases": list(self.held)}
        self.sent.append(cast("dict[str, Any]", call.body))
        return {"lease": "new"}

    async def claim(self, call: api.Call) -> dict[str, Any]:
        self.tried.append(cast("dict[str, Any]", call.body)["key"])
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault
        self.adopted.append(cast("dict[str, Any]", call.body))
        return {"lease": "new"}


def kept(
    ledger: Ledger, *, file: KeptFile | None = None, now_s: float = 0.0, wanted: bool = True
) -> KeptLeases:
    file = file or KeptFile("/dev/null/none", "boot")
    return KeptLeases(
        cast("Lessee", ledger), cast("Transport", ledger), file, lambda: now_s, wanted=wanted
    )


@pytest.fixture
def file(tmp_path: Path) -> KeptFile:
    return KeptFile(str(tmp_path / "kept.json"), "boot")


def globs(bodies: list[dict[str, Any]]) -> list[str]:
    return [glob for body in bodies for glob in body["globs"]]


async def test_as_they_were_and_no_others() -> None:
    ledger = Ledger(
        lease("a", mode="shared", ttl_s=7.0, priority=2, note="why"),
        lease("others", agent="bob"),
        lease("lapsed", state="lapsed"),
        lease("part", parent="L9"),
        lease("by-a-write", note=NOTE),
        lease("z"),
    )
    keeping = kept(ledger)
    await keeping.look()
    await keeping.claim_again()
    assert globs(ledger.adopted) == ["a", "z"]
    first = ledger.adopted[0]
    assert (first["mode"], first["ttl_s"], first["priority"], first["note"], first["wait"]) == (
        "shared",
        7.0,
        2,
        "why",
        False,
    )
    await keeping.hand_on()
    assert ledger.sent == []


async def test_what_somebody_else_has_by_now_is_left() -> None:
    ledger = Ledger(lease("a"), lease("b"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.fault = ClaimConflict("bob holds it")
    await keeping.claim_again()
    ledger.fault = None
    await keeping.hand_on()
    assert ledger.adopted == ledger.sent == []


async def test_a_ledger_that_is_away_is_asked_again_with_the_same_key(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ledger = Ledger(lease("a"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.fault = LedgerUnavailable("away")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.claim_again)
        await trio.sleep(10)
        ledger.fault = None
    assert globs(ledger.adopted) == ["a"]
    assert len(ledger.tried) > 1
    assert len(set(ledger.tried)) == 1


async def test_an_end_amid_it_hands_on_the_rest_under_the_same_keys() -> None:
    ledger = Ledger(lease("a"), lease("b"))
    keeping = kept(ledger)
    await keeping.look()
    ledger.answers = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.claim_again)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await keeping.hand_on()
    assert globs(ledger.sent) == ["a", "b"]
    # The first may have been granted already: asked again, it is the same claim.
    assert ledger.tried == [ledger.sent[0]["key"]]


async def test_asked_to_give_back_it_hands_on_nothing() -> None:
    ledger = Ledger(lease("a"))
    keeping = kept(ledger)
    await keeping.look()
    keeping.gives_back = lambda: True
    assert not keeping.keeps
    await keeping.hand_on()
    assert ledger.sent == []


async def test_unwanted_it_asks_nobody() -> None:
    ledger = Ledger(lease("a"))
    ledger.fault = LedgerUnavailable("away")
    keeping = kept(ledger, wanted=False)
    await keeping.look()
    await keeping.claim_again()
    assert not keeping.keeps


async def test_no_session_begins_before_it_is_known_what_was_held() -> None:
    ledger = Ledger(lease("a"))
    ledger.fault = LedgerUnavailable("away")
    with pytest.raises(LedgerUnavailable):
        await kept(ledger).look()
    ledger.fault = Denied("no")
    await kept(ledger).look()


async def test_a_kill_before_they_were_claimed_again_loses_none(file: KeptFile) -> None:
    before = Ledger(lease("a"), lease("b", ttl_s=7.0, mode="shared"), lease("c"))
    killed = kept(before, file=file)
    await killed.look()
    before.fault = ClaimConflict("bob holds it")  # as good an end of the first as any
    before.answers = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(killed.claim_again)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    # Of the killed mount's session the ledger knows `a` alone.
    after = Ledger(lease("a"))
    keeping = kept(after, file=file)
    await keeping.look()
    await keeping.claim_again()
    assert globs(after.adopted) == ["a", "b", "c"]
    assert (after.adopted[1]["ttl_s"], after.adopted[1]["mode"]) == (7.0, "shared")
    assert before.tried[0] not in after.tried
    last = Ledger()
    nothing_left = kept(last, file=file)
    await nothing_left.look()
    await nothing_left.claim_again()
    assert last.adopted == []


@pytest.mark.parametrize(
    ("now_s", "boot", "again"), [(59.0, "boot", ["a"]), (60.0, "boot", []), (1.0, "other", [])]
)
async def test_what_would_have_run_out_since_is_not_claimed(
    tmp_path: Path, now_s: float, boot: str, again: list[str]
) -> None:
    path = str(tmp_path / "kept.json")
    await kept(Ledger(lease("a")), file=KeptFile(path, "boot")).look()
    after = Ledger()
    keeping = kept(after, file=KeptFile(path, boot), now_s=now_s)
    await keeping.look()
    await keeping.claim_again()
    assert globs(after.adopted) == again


@pytest.mark.parametrize("how", ["not wanted", "given back", "refused"])
async def test_who_needs_nothing_claimed_again_leaves_nothing_to_claim(
    file: KeptFile, how: str
) -> None:
    first = kept(Ledger(lease("a")), file=file)
    await first.look()
    if how == "not wanted":
        await kept(Ledger(), file=file, wanted=False).look()
    elif how == "given back":
        first.gives_back = lambda: True
        await first.hand_on()
    else:
        first.not_begun()
    assert file.read(0.0) == []


async def test_a_session_that_did_not_begin_leaves_what_a_kill_left(file: KeptFile) -> None:
    await kept(Ledger(lease("a")), file=file).look()
    refused = kept(Ledger(lease("b")), file=file)
    await refused.look()
    refused.not_begun()
    assert [one.ground for one in file.read(0.0)] == [(("a",), "exclusive")]


def _damaged(**fields: Any) -> str:
    """One claim with these fields, as in a file of this boot."""
    body = {"key": "k", "globs": ["x"], "mode": "shared", "ttl_s": 9.0, "priority": 0, "note": ""}
    call = ["POST", "/v1/leases", {**body, **fields}, True, 0.0]
    return json.dumps({"boot": "boot", "former": [[call, 9e9]]})


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            "{",
            "[]",
            '{"boot": "boot"}',
            '{"boot": "boot", "former": [1]}',
            "\xff",
            "[" * 100_000,
        ),
        '{"boot": "boot", "former": [[["POST", "/v1/leases"], 9e9]]}',
        '{"boot": "boot", "former": [[["DELETE", "/v1/sessions/S", null, true, 0], 9e9]]}',
        '{"boot": "boot", "former": [[["POST", "/v1/leases", ["x"], true, 0], 9e9]]}',
        _damaged(globs=5),
        _damaged(globs=[5]),
        _damaged(globs="src"),
        _damaged(mode=[]),
        _damaged(ttl_s="9"),
        _damaged(priority=0.5),
        _damaged(note=None),
    ],
)
async def test_a_file_that_cannot_be_read_is_told_and_as_good_as_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (tmp_path / "kept.json").write_text(content, encoding="latin-1")
    ledger = Ledger(lease("a"))
    keeping = kept(ledger, file=KeptFile(str(tmp_path / "kept.json"), "boot"))
    await keeping.look()
    await keeping.claim_again()
    assert globs(ledger.adopted) == ["a"]
    assert "cannot be read" in caplog.text


async def test_a_full_disk_is_told_and_claims_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(lease("a"))
    keeping = kept(ledger, file=KeptFile(str(tmp_path / "no-directory" / "kept.json"), "boot"))
    await keeping.look()
    await keeping.claim_again()
    assert globs(ledger.adopted) == ["a"]
    assert "would lose leases" in caplog.text
