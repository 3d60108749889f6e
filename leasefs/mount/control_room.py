"""Room for so many connections, and who makes place when more come: whoever has been silent longest."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trio


class Room:
    """The connections of one listener. A silent one is between requests, or its request has not come whole."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0
        # By the time since when they are silent, longest first.
        self._silent: dict[trio.CancelScope, None] = {}

    @contextlib.contextmanager
    def place(self) -> Iterator[bool]:
        """A place for as long as the context lasts; False if all are taken by who is being answered."""
        free = self._taken < self._places or self._make_place()
        self._taken += free
        try:
            yield free
        finally:
            self._taken -= free

    @contextlib.contextmanager
    def silent(self, scope: trio.CancelScope) -> Iterator[None]:
        """Wait for the peer within `scope`, which is cancelled when the place is needed."""
        self._silent[scope] = None
        try:
            yield
        finally:
            self._silent.pop(scope, None)

    def _make_place(self) -> bool:
        scope = next(iter(self._silent), None)
        if scope is None:
            return False
        # It leaves within this turn of the loop; until then there is one too many.
        del self._silent[scope]
        scope.cancel()
        return True
