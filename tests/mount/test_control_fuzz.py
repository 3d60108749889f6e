"""A mount's control socket under requests made from its own description: a short form of `scripts/fuzz_api --of mount`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.client.address import parse_url
from leasefs.mount.control_routes import OWN, PASSED_ON
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.api_fuzz import Found, fuzz, fuzz_boundaries, fuzz_sequences
from leasefs.testing.fuzzed_mount import FuzzedMount
from leasefs.testing.own_world import own_world
from leasefs.testing.unix_requests import unix_session

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mount, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    base = tmp_path_factory.mktemp("w")
    os.mkdir(base / "repo")
    with own_world(str(base)), agent_mount(str(base / "repo"), str(base / "repo")) as agent:
        yield agent


@pytest.fixture
def target(agent: Agent) -> Iterator[FuzzedMount]:
    target = FuzzedMount(agent)
    yield target
    target.agrees()
    target.session.close()


def test_it_describes_what_it_serves_and_nothing_else(target: FuzzedMount, agent: Agent) -> None:
    with unix_session(ledger=parse_url(agent.about["ledger"]).socket_path) as link:
        ledgers = link.get("http://ledger/openapi.json", timeout=20).json()["paths"]
    described = {(m.upper(), path) for path, item in target.described.items() for m in item}
    assert {*PASSED_ON, *(one for one in OWN if one[0] != "HEAD")} == described
    for path, item in {**ledgers, **target.described}.items():
        for method in ("GET", "POST", "PUT", "DELETE"):
            if path == "/v1/mount/stop":
                continue
            asked = path.replace("{", "").replace("}", "")
            answer = target.session.request(
                method, target.base_url + asked, timeout=20, stream=True
            )
            unknown = answer.status_code == 405 or '"not-found"' in _first(answer)
            answer.close()
            assert unknown != ((method, path) in described), (method, path, item.keys())


def _first(answer: object) -> str:
    return str(next(answer.iter_content(200), b""))  # type: ignore[attr-defined]


def test_whatever_fits_the_description_or_not_is_answered_as_it_says(target: FuzzedMount) -> None:
    found = Found()
    fuzz(target, 2, 1, found)
    fuzz_boundaries(target, found, one_in=8)
    fuzz_sequences(target, 8, 10, 1, found)
    assert not found.wrong, "\n\n".join(found.wrong.values())
    assert len(found.operations) == sum(map(len, target.document["paths"].values()))


@pytest.mark.long
def test_the_same_for_many_minutes(target: FuzzedMount) -> None:
    found = Found()
    fuzz(target, 200, 1, found)
    fuzz_boundaries(target, found)
    fuzz_sequences(target, 200, 20, 1, found)
    assert not found.wrong, "\n\n".join(found.wrong.values())
