"""How a mount treats changes that no lease covers, put together from its options and `.leasefs.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.unleased_ground import Regions
from leasefs.core.unleased_policy import (
    DEFAULT_IDLE_S,
    DEFAULT_TTL_S,
    DEFAULT_WAIT_S,
    DENY,
    UnleasedPolicy,
    parse_policy,
)

if TYPE_CHECKING:
    from leasefs.vcs.project_file import ProjectFile


class Settings(NamedTuple):
    """What holds for one mount. All times in seconds.

    A write waits `wait_s` at most. A lease that was claimed by a write is given back once it was not used for
    `idle_s`, and lapses `ttl_s` after its last use if it cannot be. `keeps` says that one with uncommitted work is
    given back all the same, the work then stays listed as the agent's; else it is left to lapse.
    """

    policy: UnleasedPolicy = DENY
    regions: Regions = Regions()
    wait_s: float = DEFAULT_WAIT_S
    idle_s: float = DEFAULT_IDLE_S
    ttl_s: float = DEFAULT_TTL_S
    keeps: bool = True


def settings_of(word: str, wait_s: float | None, project: ProjectFile) -> Settings:
    """What the options of whoever mounts say, else the project's file; an empty `word` and None say nothing.

    Raises:
        ValueError: `word` is no policy.
        InvalidRequest: a region of the project's file is none.
    """
    wanted = project.unleased
    keeps = wanted.keep
    if keeps is None:
        keeps = project.require in {None, "none"}
    return Settings(
        policy=parse_policy(word or wanted.policy or DENY.word),
        regions=Regions(wanted.regions),
        wait_s=wanted.wait_s if wait_s is None else wait_s,
        idle_s=wanted.idle_s,
        ttl_s=wanted.ttl_s,
        keeps=keeps,
    )
