"""Intents as a dictionary has them: what a model of the ledger compares it with."""

from __future__ import annotations

from typing import NamedTuple

from leasefs.core.globs import parse_glob


class Key(NamedTuple):
    """Which intent: no two of them are of the same lease, agent, tree and path."""

    lease: str
    agent: str
    tree: str
    path: str


class Grant(NamedTuple):
    """A lease that is, or was."""

    lease: str
    token: int
    agent: str
    session: str
    globs: tuple[str, ...]


class Known(NamedTuple):
    """What the model knows of an intent."""

    state: str
    commit: str
    first_s: float
    last_s: float


def on(path: str, globs: tuple[str, ...]) -> bool:
    """Whether the path, or for a directory something below it, is on this ground; by trying."""
    raw = path.encode("utf-8", "surrogateescape")
    tried = [raw.rstrip(b"/"), *([raw + b"1", raw + b"2", raw + b"n/1"] if path[-1] == "/" else [])]
    return any(parse_glob(glob).matches(one) for glob in globs for one in tried)
