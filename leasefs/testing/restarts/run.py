"""The whole run: a ledger, clients, mounts, and restarts; then the verdict."""

from __future__ import annotations

import os
import random
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leasefs.store.sqlite_reading import ReadOnlyStore
from leasefs.testing.restarts.clients import Client
from leasefs.testing.restarts.served import Served, second_build
from leasefs.testing.restarts.verdict import builds, violations
from leasefs.testing.restarts.writers import writing

if TYPE_CHECKING:
    from collections.abc import Callable

MOUNTS_TTL_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what. `passed`: the ledger is given its socket, as by systemd."""

    restarts: int
    clients: int
    mounts: int
    passed: bool
    seed: int = 1
    between_s: tuple[float, float] = (0.0, 0.4)


@dataclass(slots=True)
class Outcome:
    """What happened, the `builds` that served, and `wrong`, what must not have."""

    restarts: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    repeated: int = 0
    grants: int = 0
    writes: int = 0
    longest_request_s: float = 0.0
    longest_write_s: float = 0.0
    events: int = 0
    builds: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)


def play(directory: str, plan: Plan, told: Callable[[str], None]) -> Outcome:
    """Run the plan in an empty directory; `told` hears how far it is."""
    tree, ledger_dir = os.path.join(directory, "tree"), os.path.join(directory, "ledger")
    os.makedirs(ledger_dir, mode=0o700)
    places = [os.path.join(directory, f"mount-{number}") for number in range(plan.mounts)]
    for number, place in enumerate(places):
        os.makedirs(os.path.join(tree, f"mounted-{number}"))
        os.makedirs(place)
    os.makedirs(tree, exist_ok=True)
    other = second_build(os.path.join(directory, "other"))
    ledger = Served(ledger_dir, passed=plan.passed, builds=("", "", other))
    outcome = Outcome()
    try:
        _under_load(ledger, tree, places, plan, outcome, told)
    finally:
        ledger.end()
    return outcome


def _under_load(
    ledger: Served,
    tree: str,
    places: list[str],
    plan: Plan,
    outcome: Outcome,
    told: Callable[[str], None],
) -> None:
    rng, stop = random.Random(plan.seed), threading.Event()  # noqa: S311 - no secret
    clients = [Client(ledger.url, number, stop) for number in range(plan.clients)]
    with ExitStack() as running:
        writers = running.enter_context(writing(tree, places, ledger.url, MOUNTS_TTL_S))
        for client in clients:
            client.start()
        try:
            for number in range(plan.restarts):
                stop.wait(rng.uniform(*plan.between_s))
                how = ledger.again(rng)
                outcome.restarts[how] = outcome.restarts.get(how, 0) + 1
                told(f"restart {number + 1} of {plan.restarts}, by {how}")
            stop.wait(1.0)  # what is left to be answered
        finally:
            stop.set()
            for client in clients:
                client.join(120)
    outcome.writes = sum(writer.written for writer in writers)
    outcome.longest_write_s = max((writer.longest_s for writer in writers), default=0.0)
    outcome.wrong += [refused for writer in writers for refused in writer.refused]
    _judge(ledger, clients, outcome)


def _judge(ledger: Served, clients: list[Client], outcome: Outcome) -> None:
    for client in clients:
        said = client.said
        outcome.requests += said.requests
        outcome.repeated += said.repeated
        outcome.grants += len(said.grants)
        outcome.longest_request_s = max(outcome.longest_request_s, said.longest_gap_s)
        if client.trouble:
            outcome.wrong.append(f"{client.name}: {client.trouble}")
        if client.is_alive():
            outcome.wrong.append(f"{client.name} hangs")
    with closing(ReadOnlyStore(os.path.join(ledger.store, "ledger.sqlite3"))) as store:
        outcome.events = store.head()
        outcome.builds = builds(store)
        outcome.wrong += violations(store, [client.said for client in clients])
