"""A real mount's control socket as a target of `api_fuzz`, as `fuzzed_ledger` has the ledger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leasefs.client.address import parse_url
from leasefs.testing.fuzzed_ledger import asks_briefly, learn_ids, season_body
from leasefs.testing.unix_requests import unix_session

if TYPE_CHECKING:
    import random

    from schemathesis.core.transport import Response

    from leasefs.testing.agents import Agent
    from leasefs.testing.api_fuzz import Case

# What ends the mount, and what answers without end.
NOT_FUZZED = ("/v1/mount/stop", "/v1/mount/uses")


class FuzzedMount:
    """The target. What `agent` mounts has no path but those of leases that the fuzzing claims."""

    base_url = "http://mount"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.session = unix_session(mount=parse_url(agent.about["control"]).socket_path)
        answer = self.session.get(f"{self.base_url}/openapi.json", timeout=20)
        assert answer.status_code == 200, answer.text
        self.document: dict[str, Any] = answer.json()
        self.described = self.document["paths"]
        self.document = {
            **self.document,
            "paths": {
                path: item for path, item in self.described.items() if path not in NOT_FUZZED
            },
        }
        self._ids: list[str] = ["L1"]

    def season(self, case: Case, chance: random.Random) -> None:
        """As `api_fuzz.Target`."""
        asks_briefly(case)
        for name, value in case.path_parameters.items():
            if chance.random() < 0.8 or not isinstance(value, str) or not value.strip("./"):
                case.path_parameters[name] = "7" if name == "seq" else chance.choice(self._ids)
        season_body(case, self._ids, chance, self._agent.about["territory"])
        if "territory" in case.query and chance.random() < 0.5:
            case.query["territory"] = self._agent.about["territory"]

    def headers(self, chance: random.Random) -> dict[str, str]:
        """As `api_fuzz.Target`: who asks is known by the kernel's word."""
        return {}

    def answered(self, case: Case, response: Response) -> None:
        """As `api_fuzz.Target`: the daemon goes on, and what it believes to hold the ledger knows."""
        learn_ids(response, self._ids)
        assert response.status_code != 503 or case.path == "/v1/compactions", response.text
        assert os.path.exists(f"/proc/{self._agent.pid}"), "the daemon is gone"

    def agrees(self) -> None:
        """The mount and its ledger mean the same leases. Raises AssertionError."""
        held = {lease["id"]: lease["token"] for lease in self._agent.held()}
        for lease_id, token in held.items():
            answer = self.session.get(f"{self.base_url}/v1/leases/{lease_id}", timeout=20).json()
            assert answer["token"] == token, (lease_id, token, answer)
