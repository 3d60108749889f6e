"""kill -9 of the ledger at random points under load: nothing acknowledged is forgotten (P1, P6, P8)."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials, new_key
from leasefs.core.errors import ClaimConflict, LedgerUnavailable
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUND = ["hot/**", "hot/a", "warm/*", "warm/x", "cold/**"]


class Worker(threading.Thread):
    """Claims and releases until told to stop; every request is repeated until it is answered."""

    def __init__(self, url: str, number: int, stop: threading.Event, up: threading.Event) -> None:
        super().__init__()
        self.credentials = new_credentials()
        self.link = Link(url, self.credentials)
        self.number, self.stop, self.up = number, stop, up
        self.random = random.Random(number)
        self.held: dict[str, dict[str, Any]] = {}
        self.released: set[str] = set()
        self.tokens: list[int] = []
        self.trouble: list[str] = []

    def run(self) -> None:
        try:
            self.insist(self.opening())
            while not self.stop.is_set():
                self.step()
        except Exception as error:  # noqa: BLE001 -- the test reports it
            self.trouble.append(repr(error))

    def opening(self) -> Callable[[], api.Call]:
        call = api.open_session(
            session=self.credentials.session,
            secret=self.credentials.secret,
            agent=f"worker-{self.number}",
            harness="test",
            territory="t",
            kind="shell",
            host="here",
            pid=1,
            process="",
        )
        return lambda: call

    def insist(self, call_of: Callable[[], api.Call]) -> api.Body:
        """Send one and the same call until the ledger has answered it (P6)."""
        call = call_of()
        while True:
            self.up.wait()
            try:
                return self.link.send(call)
            except LedgerUnavailable:
                if self.stop.is_set():
                    raise

    def step(self) -> None:
        if self.held and self.random.random() < 0.5:
            lease = self.random.choice(list(self.held))
            self.insist(lambda: api.release(lease, key=new_key()))
            self.released.add(lease)
            del self.held[lease]
            return
        glob = self.random.choice([*GROUND, f"own/{self.number}/{self.random.randrange(99)}"])
        try:
            answer = self.insist(lambda: api.claim([glob], key=new_key(), ttl_s=3600.0))
        except ClaimConflict:
            return
        if answer["token"] not in self.tokens:
            self.tokens.append(answer["token"])
        self.held[answer["lease"]] = answer


def run_kills(tmp_path: Path, kills: int) -> int:
    stop, up = threading.Event(), threading.Event()
    rng = random.Random(1)
    ledger = LedgerProcess(str(tmp_path))
    workers = [Worker(f"unix:{ledger.socket_path}", n, stop, up) for n in range(6)]
    try:
        for worker in workers:
            worker.start()
        for _ in range(kills):
            up.set()
            stop.wait(rng.uniform(0.0, 0.1))
            up.clear()
            ledger.kill()
            ledger.process.stderr.close()  # type: ignore[union-attr] -- it is a pipe
            ledger = LedgerProcess(str(tmp_path))
        up.set()
        stop.wait(0.3)
    finally:
        stop.set()
        up.set()
        for worker in workers:
            worker.join(60)
    with ledger:
        check(ledger, workers)
    return sum(len(worker.tokens) for worker in workers)


def check(ledger: LedgerProcess, workers: list[Worker]) -> None:
    assert [worker.trouble for worker in workers] == [[]] * len(workers)
    kept = {lease["lease"]: lease for lease in ledger.ask("GET", "/v1/leases").json["leases"]}
    for worker in workers:
        for lease, answer in worker.held.items():
            assert kept[lease]["token"] == answer["token"], "no granted lease is forgotten"
        assert not worker.released & set(kept), "no released lease comes back"
        assert worker.tokens == sorted(worker.tokens), "tokens only grow"
    tokens = [token for worker in workers for token in worker.tokens]
    assert len(tokens) == len(set(tokens)), "no token is granted twice"
    hot = [lease for lease in kept.values() if lease["globs"][0].startswith("hot/")]
    assert len({lease["session"] for lease in hot if lease["globs"] == ["hot/**"]}) <= 1


def test_the_ledger_is_killed_a_few_times_under_load(tmp_path: Path) -> None:
    assert run_kills(tmp_path, kills=5) > 20


@pytest.mark.slow
@pytest.mark.chaos
def test_the_ledger_is_killed_a_hundred_times_under_load(tmp_path: Path) -> None:
    assert run_kills(tmp_path, kills=100) > 1000
