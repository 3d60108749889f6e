"""Async tests in no time: trio's mock clock jumps to the next deadline whenever every task sleeps.

For code that does no I/O. pytest-trio would do it too, but sees a clock only where a test names it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
# On the mock clock: a test that waits for what never comes fails instead of going round for ever.
LONGEST_TEST_S = 50_000.0


class MockTime:
    """A `leasefs.core.clock.Clock` that reads trio's clock."""

    def now_s(self) -> float:
        """Seconds on trio's clock, mocked inside `on_mock_clock`."""
        return trio.current_time()

    def wall_s(self) -> float:
        """The same, from some day on."""
        return 1.7e9 + trio.current_time()


def on_mock_clock(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test to its end on a clock that never waits."""

    async def bounded(*args: P.args, **kwargs: P.kwargs) -> None:
        with trio.fail_after(LONGEST_TEST_S):
            await test(*args, **kwargs)

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(functools.partial(bounded, *args, **kwargs), clock=clock)

    return run
