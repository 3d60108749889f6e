"""What requests and answers about leases look like, for the API's description."""

from __future__ import annotations

from typing import Any

CLAIM: dict[str, Any] = {
    "key": "9b2f0d1e",
    "globs": ["packages/core/**"],
    "mode": "exclusive",
    "ttl_s": 1800.0,
    "priority": 0,
    "wait": True,
    "note": "parser rewrite",
}
GRANTED: dict[str, Any] = {
    "lease": "L42",
    "state": "granted",
    "agent": "agent-07",
    "harness": "claude",
    "session": "s-4f1c2a9be0d74c31",
    "territory": "github.com/octo/widgets",
    "globs": ["packages/core/**"],
    "mode": "exclusive",
    "ttl_s": 1800.0,
    "token": 43,
    "expires_in_s": 1800.0,
    "held_for_s": 0.0,
    "note": "parser rewrite",
    "inherits": {
        "note": {
            "lease": "L17",
            "agent": "agent-09",
            "harness": "codex",
            "globs": ["packages/**"],
            "text": "the parser's tests are red on purpose, see TODO in parse.py",
            "left_ago_s": 310.0,
            "commit": "9fceb02d0ae598e95dc970b74767f19372d61af8",
        },
        "rescues": [],
        "uncommitted": [],
        "uncommitted_count": 0,
        "rescues_count": 0,
    },
}
WAITING: dict[str, Any] = {
    **{
        name: GRANTED[name]
        for name in ("agent", "harness", "session", "territory", "globs", "mode", "ttl_s")
    },
    "lease": "L51",
    "state": "waiting",
    "waiting_for_s": 2.0,
    "position": 1,
    "eta_s": 240.0,
    "eta_low_s": 90.0,
    "eta_high_s": 600.0,
    "eta_from": 12,
    "places": [{"glob": "packages/core/**", "position": 1, "waits_for": ["L40"]}],
    "waits_for": [
        {
            "id": "L40",
            "kind": "lease",
            "session": "s-77aa01b2c3d4e5f6",
            "agent": "agent-09",
            "harness": "codex",
            "mode": "exclusive",
            "glob": "packages/**",
            "wanted": "packages/core/**",
            "witness": "packages/core/a",
            "expires_in_s": 900.0,
            "yields_in_s": 25.0,
        }
    ],
}
ENDED: dict[str, Any] = {"lease": "L42", "state": "ended"}
RECALLED = {
    **GRANTED,
    "recall": {
        "by": "ann",
        "reason": "ann claimed packages/core/parse.py as L51",
        "yields_in_s": 30.0,
        "may_ask_for_s": 30.0,
        "cold": False,
        "claims": ["L51"],
    },
}
FROZEN = {
    "lease": "L60",
    "state": "granted",
    "agent": "ann",
    "harness": "operator",
    "session": "freeze-5d0c",
    "territory": "github.com/octo/widgets",
    "globs": ["packages/core/table.py"],
    "mode": "shared",
    "ttl_s": 7200.0,
    "priority": 1000,
    "token": 60,
    "expires_in_s": 7200.0,
    "held_for_s": 0.0,
    "note": "about to be split",
    "frozen_by": "ann",
}
