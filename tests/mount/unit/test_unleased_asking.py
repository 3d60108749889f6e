"""What a request asks for on its own."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasefs.core.policy import Op, Reason, Refused
from leasefs.core.unleased_policy import parse_policy
from leasefs.mount.gate import Unsettled, Wanting
from leasefs.mount.unleased_asking import Obtaining


@pytest.mark.trio
async def test_what_is_not_known_any_more_is_fetched_and_the_attempt_made_anew() -> None:
    """Git's index may change between the description of an operation and the choice of what to claim for it."""
    fetched: list[str] = []

    async def fetch() -> None:
        fetched.append("index")

    def ground(unsettled: Unsettled, pid: int) -> tuple[str, ...]:
        raise Wanting(fetch)

    claims = SimpleNamespace(
        now_s=lambda: 0.0,
        stopped=threading.Event(),
        settings=SimpleNamespace(policy=parse_policy("claim"), wait_s=1.0),
        returning=lambda path: False,
        ground=ground,
    )
    asking = Obtaining(cast("Any", claims), 1)
    await asking.obtain(Unsettled(Refused(Reason.NOT_LEASED, Op.WRITE, b"a")))
    assert fetched == ["index"]
