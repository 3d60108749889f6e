"""The border to pyfuse3: every exception leaves as an errno.

pyfuse3 catches FUSEError alone; any other exception ends its main loop, and with it the mount.
"""

from __future__ import annotations

import errno
import functools
import logging
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyfuse3 import FUSEError

from leasefs.mount.errnos import Refusal, errno_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


def boundary(handler: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Turn what a handler raises into a FUSEError; log what nobody expected, and answer EIO."""

    @functools.wraps(handler)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await handler(*args, **kwargs)
        except FUSEError:
            raise
        except (OSError, Refusal) as error:
            raise FUSEError(errno_of(error)) from error
        except Exception as error:
            log.exception("%s failed", handler.__name__)
            raise FUSEError(errno.EIO) from error

    return guarded
