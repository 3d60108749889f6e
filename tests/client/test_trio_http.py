"""The mount's transport against a real ledger: connections kept, lost, and streams resumed."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from leasefs.client import api
from leasefs.client.clock import BoottimeClock
from leasefs.client.ids import new_credentials, new_key
from leasefs.client.lessee import Identity, Lessee
from leasefs.client.trio_http import TrioLink
from leasefs.core.errors import InvalidRequest, LedgerUnavailable, UnknownLease
from leasefs.testing.canned_server import canned_server, json_answer
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from leasefs.client.ids import Credentials


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerProcess]:
    with LedgerProcess(str(tmp_path)) as ledger:
        yield ledger


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with trio.fail_after(30):
            await test()

    trio.run(bounded)


def link_to(ledger: LedgerProcess, credentials: Credentials | None = None) -> TrioLink:
    return TrioLink(f"unix:{ledger.socket_path}", credentials or new_credentials())


def lessee_at(ledger: LedgerProcess, agent: str = "a") -> tuple[Lessee, TrioLink]:
    credentials = new_credentials()
    link = link_to(ledger, credentials)
    identity = Identity(agent, "h", "t", "mount", "host", os.getpid(), "")
    return Lessee(identity, credentials, link, BoottimeClock()), link


def trust_of(lessee: Lessee, answer: api.Body) -> float:
    return lessee.view.by_token[answer["token"]].trusted_until_s


def _later(lessee: Lessee, answer: api.Body, than_s: float) -> bool:
    return trust_of(lessee, answer) > than_s


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await trio.sleep(0.02)


def test_one_connection_serves_many_requests(ledger: LedgerProcess) -> None:
    async def test() -> None:
        link = link_to(ledger)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            assert (await link.send(api.status(), timeout_s=5))["protocol"] == "1.0"
        assert len(os.listdir("/proc/self/fd")) == before + 1
        link.close()
        assert len(os.listdir("/proc/self/fd")) == before

    run(test)


def test_a_refusal_keeps_the_connection_and_its_own_class(ledger: LedgerProcess) -> None:
    async def test() -> None:
        lessee, link = lessee_at(ledger)
        await lessee.open()
        with pytest.raises(UnknownLease):
            await link.send(api.release("L99", key=new_key()), timeout_s=5)
        with pytest.raises(InvalidRequest):
            await link.send(api.claim([""], key=new_key()), timeout_s=5)
        link.close()

    run(test)


def test_many_at_once_and_few_connections_kept(ledger: LedgerProcess) -> None:
    async def test() -> None:
        link = link_to(ledger)
        before = len(os.listdir("/proc/self/fd"))
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(partial(link.send, api.status(), timeout_s=5))
        assert len(os.listdir("/proc/self/fd")) == before + 4
        link.close()

    run(test)


def test_a_kept_connection_that_died_is_replaced(ledger: LedgerProcess, tmp_path: Path) -> None:
    async def test() -> None:
        link = link_to(ledger)
        await link.send(api.status(), timeout_s=5)
        ledger.kill()
        with pytest.raises(LedgerUnavailable, match="no ledger listens there"):
            await link.send(api.status(), timeout_s=5)
        with LedgerProcess(str(tmp_path)):
            await link.send(api.status(), timeout_s=5)
        link.close()

    run(test)


def test_a_frozen_ledger_is_given_up_in_time(ledger: LedgerProcess) -> None:
    async def test() -> None:
        link = link_to(ledger)
        ledger.process.send_signal(signal.SIGSTOP)
        with pytest.raises(LedgerUnavailable, match=r"did not answer within 0\.2 s"):
            await link.send(api.status(), timeout_s=0.2)
        ledger.process.send_signal(signal.SIGCONT)
        await link.send(api.status(), timeout_s=5)
        link.close()

    run(test)


@pytest.mark.parametrize(
    "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b""]
)
def test_a_broken_answer_is_an_unreachable_ledger(tmp_path: Path, answer: bytes) -> None:
    path = str(tmp_path / "s")

    async def test() -> None:
        with pytest.raises(LedgerUnavailable):
            await TrioLink(f"unix:{path}", new_credentials()).send(api.status(), timeout_s=5)

    with canned_server(path, [answer]):
        run(test)


def test_an_answer_without_a_length_ends_with_its_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    async def test() -> None:
        link = TrioLink(f"unix:{path}", new_credentials())
        assert await link.send(api.status(), timeout_s=5) == {"a": 1}
        assert await link.send(api.status(), timeout_s=5) == {}
        link.close()

    with canned_server(path, [b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}', json_answer(b"{}")]):
        run(test)


def test_a_stream_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    async def test() -> None:
        link = TrioLink(f"unix:{path}", new_credentials())
        async with link.stream(api.follow(after=0), silence_s=0.2) as events:
            with pytest.raises(LedgerUnavailable):
                await anext(events)

    with canned_server(path, [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]):
        run(test)


def test_a_session_lives_through_kills_of_its_ledger(ledger: LedgerProcess, tmp_path: Path) -> None:
    """P12: the same id and secret, the same lease and token, and events that happened meanwhile."""

    async def test() -> None:
        lessee, link = lessee_at(ledger)
        await lessee.open()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lessee.run)
            answer = await lessee.claim(api.claim(["a"], key=new_key(), ttl_s=6))
            lessee.writer_opened(answer["token"], b"a", os.getpid())
            current = ledger
            for _ in range(2):
                current.kill()
                with pytest.raises(LedgerUnavailable):
                    await lessee.claim(api.claim(["b"], key=new_key()))
                assert lessee.view.writable(b"a", lessee.now_s()) is not None
                current = LedgerProcess(str(tmp_path))
                ledgers.append(current)
                await until(partial(_later, lessee, answer, trust_of(lessee, answer)))
            current.ask("POST", f"/v1/leases/{answer['lease']}/revoke", {})
            await lessee.changed()
            assert list(lessee.view.lost) == [answer["token"]]
            await lessee.end()
            nursery.cancel_scope.cancel()
        link.close()

    ledgers: list[LedgerProcess] = []
    try:
        run(test)
    finally:
        for process in ledgers:
            process.kill()
            if process.process.stderr is not None:
                process.process.stderr.close()


def test_a_grant_is_pushed_through_the_stream(ledger: LedgerProcess) -> None:
    async def test() -> None:
        holder, first = lessee_at(ledger, "a")
        waiter, second = lessee_at(ledger, "b")
        async with trio.open_nursery() as nursery:
            for lessee in (holder, waiter):
                await lessee.open()
                nursery.start_soon(lessee.run)
            held = await holder.claim(api.claim(["x/**"], key=new_key()))
            waiting = await waiter.claim(api.claim(["x/y"], key=new_key(), wait=True))
            assert waiting["state"] == "waiting"
            await holder.release(held["lease"], new_key())
            while not waiter.view.leases:
                await waiter.changed()
            assert waiter.view.writable(b"x/y", waiter.now_s()) is not None
            nursery.cancel_scope.cancel()
        first.close()
        second.close()

    run(test)
