"""A ledger that wants to be asked more slowly is asked again, for as long as the request may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from leasefs.client import api, limited
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import OverLimit
from leasefs.testing.canned_server import canned_server, json_answer

if TYPE_CHECKING:
    from pathlib import Path


def ask_blocking(url: str, timeout_s: float) -> api.Body:
    return Link(url, timeout_s=timeout_s).send(api.leases())


def ask_trio(url: str, timeout_s: float) -> api.Body:
    async def ask() -> api.Body:
        link = TrioLink(url, new_credentials())
        try:
            return await link.send(api.leases(), timeout_s=timeout_s)
        finally:
            link.close()

    return trio.run(ask)


both = pytest.mark.parametrize("ask", [ask_blocking, ask_trio], ids=["blocking", "trio"])


def slower(retry_after_s: object) -> bytes:
    body = (
        b'{"error":{"code":"over-limit","message":"too fast","details":{"limit":"requests",'
        b'"retry_after_s":%s}}}' % str(retry_after_s).encode()
    )
    return json_answer(body, b"429 Too Many Requests")


@both
def test_it_waits_and_asks_again(tmp_path: Path, ask: Any) -> None:
    answers = [slower(0.01), slower(0.02), json_answer(b'{"leases":[]}')]
    with canned_server(str(tmp_path / "s"), answers) as server:
        assert ask(f"unix:{tmp_path}/s", 20.0) == {"leases": []}
    assert len(server.requests) == 3


@both
def test_it_does_not_wait_longer_than_the_request_may_take(tmp_path: Path, ask: Any) -> None:
    with (
        canned_server(str(tmp_path / "s"), [slower(600)]) as server,
        pytest.raises(OverLimit, match="too fast") as caught,
    ):
        ask(f"unix:{tmp_path}/s", 5.0)
    assert caught.value.details["retry_after_s"] == 600
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"slow down",
        b'{"error":{}}',
        b'{"error":{"details":{"retry_after_s":"soon"}}}',
        b'{"error":{"details":{"retry_after_s":null}}}',
        b'{"error":{"details":{"retry_after_s":-1}}}',
        b'{"error":{"details":{"retry_after_s":NaN}}}',
        b'{"error":{"details":{"retry_after_s":1e999}}}',
    ],
)
def test_an_answer_that_says_no_time_is_not_waited_upon(body: bytes) -> None:
    assert limited.wait_s(429, body, 10.0) is None


def test_other_answers_are_not() -> None:
    body = b'{"error":{"details":{"retry_after_s":1}}}'
    assert limited.wait_s(503, body, 10.0) is None
    assert limited.wait_s(429, body, 10.0) == 1.0
    assert limited.wait_s(429, body, 1.0) is None
