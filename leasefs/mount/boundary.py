"""The border to pyfuse3: every exception leaves as an errno, and whoever has to wait is called again.

pyfuse3 catches FUSEError alone; any other exception ends its main loop, and with it the mount.
"""

from __future__ import annotations

import errno
import functools
import logging
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, TypeVarTuple, cast

from pyfuse3 import FUSEError

from leasefs.mount.errnos import Refusal, errno_of
from leasefs.mount.gate import Unsettled, Wanting
from leasefs.mount.kernel_locks import locked_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasefs.mount.shapes import Caller
    from leasefs.mount.tree import Tree

log = logging.getLogger(__name__)

# How often each handler was called, for whoever asks (`metrics`). There is one mount in a process.
CALLS: dict[str, list[int]] = {}

# What operations answer with; anything else is a fault.
_ANSWERS = OSError, Refusal

P = ParamSpec("P")
A = TypeVarTuple("A")
R = TypeVar("R")


class OverTree(Protocol):
    """Whoever has handlers that change a tree."""

    tree: Tree


H = TypeVar("H", bound=OverTree)


def boundary(handler: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Turn what a handler raises into a FUSEError; log what nobody expected, and answer EIO."""
    calls = _calls_of(handler)

    @functools.wraps(handler)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        calls[0] += 1
        try:
            return await handler(*args, **kwargs)
        except FUSEError:
            raise
        except Exception as error:
            raise _answer(handler, args, error) from error

    return guarded


def at_once(handler: Callable[[*A], R]) -> Callable[[*A], Coroutine[Any, Any, R]]:
    """The same for a handler that never waits: one coroutine less for each request."""
    calls = _calls_of(handler)

    @functools.wraps(handler)
    async def guarded(*args: *A) -> R:
        calls[0] += 1
        try:
            return handler(*args)
        except FUSEError:
            raise
        except Exception as error:
            raise _answer(handler, args, error) from error

    return guarded


def changing(handler: Callable[[H, *A], R]) -> Callable[[H, *A], Coroutine[Any, Any, R]]:
    """The same for one that asks the gate: it is called again once what it wants is there.

    Its last argument says who makes the request.
    """
    calls = _calls_of(handler)

    @functools.wraps(handler)
    async def guarded(over: H, *args: *A) -> R:
        calls[0] += 1
        try:
            try:
                return handler(over, *args)
            except (Wanting, Unsettled):
                pass  # nearly always there is nothing to wait for
            caller = cast("tuple[Caller, ...]", args)[-1]
            locked = locked_directories(over.tree, handler.__name__, args)
            with over.tree.cache.kept_back(locked):
                return await over.tree.gate.settle(caller.pid, lambda: handler(over, *args))
        except FUSEError:
            raise
        except Exception as error:
            raise _answer(handler, (over, *args), error) from error

    return guarded


def _calls_of(handler: Callable[..., object]) -> list[int]:
    """Where its calls are counted: a cell, which costs less than a dictionary's entry."""
    return CALLS.setdefault(handler.__name__, [0])


def _answer(
    handler: Callable[..., object], args: tuple[object, ...], error: Exception
) -> FUSEError:
    if isinstance(error, _ANSWERS):
        code = errno_of(error)
        thread = getattr(args[-1], "pid", None) if args else None
        if code == errno.ESTALE and thread is not None:
            # Its last argument says who asked: the kernel looks again for that thread.
            cast("OverTree", args[0]).tree.lower.retries.told_stale(thread)
        return FUSEError(code)
    log.error("%s failed", handler.__name__, exc_info=error)
    return FUSEError(errno.EIO)
