"""Requests as the monitor sees them: by route, never by path."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasefs.core.exposition import Counts, Histogram, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.exposition import Family

NO_ROUTE = "none"
GIVEN_UP = "none"
_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Counts of one application. A route is given as the template of its path, empty: there is none."""

    def __init__(self) -> None:
        self._streams = 0
        self._answered = Counts(
            "leasefs_http_requests_total",
            "Requests that were answered, by the route's path template and the status.",
            ("method", "route", "status"),
        )
        self._seconds = Histogram(
            "leasefs_http_request_seconds",
            "From a request's head to its answer, what callers asked to wait for included.",
            _SECONDS,
            "route",
        )

    def answered(self, method: str, route: str, status: int, took_s: float) -> None:
        """One request is answered."""
        self._count(method, route, str(status))
        self._seconds.observe(took_s, route or NO_ROUTE)

    def given_up(self, method: str, route: str) -> None:
        """Whoever asked left before the answer."""
        self._count(method, route, GIVEN_UP)

    @contextmanager
    def following(self, method: str, route: str) -> Iterator[None]:
        """While an event stream is followed. How long that is says nothing about us."""
        self._count(method, route, "200")
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def _count(self, method: str, route: str, status: str) -> None:
        # What is no method of HTTP was refused, and a caller can think of any number of those.
        self._answered.add(method if method in _METHODS else "other", route or NO_ROUTE, status)

    def families(self) -> Iterator[Family]:
        """As they stand."""
        yield self._answered.family()
        yield self._seconds.family()
        yield gauge("leasefs_event_streams", "Event streams that are followed now.", self._streams)
