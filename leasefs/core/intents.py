"""The words of intents: what happened to a path, what became of it, and what a release asks of it (P8, P9)."""

from __future__ import annotations

from enum import StrEnum

MAX_NOTES = 5_000
"""How many notes, settlements or foreign changes one report carries."""
MAX_RESCUED_PATHS = 100_000
MAX_HANDOFF_LENGTH = 2_000
NAMES_KEPT = 50
"""How many paths a rescue names, and how many intents of others a new holder is told."""


class IntentKind(StrEnum):
    """What is being done to a path.

    Of a rename there are two: the new name came from `other` (RENAME_FROM), the old one went to `other`.
    """

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME_FROM = "rename-from"
    RENAME_TO = "rename-to"
    MODE = "mode"


class IntentState(StrEnum):
    """Where an intent stands: not committed yet, or in a commit that has not landed."""

    DIRTY = "dirty"
    COMMITTED = "committed"


class Outcome(StrEnum):
    """What asking git found of a path. CLEAN and LANDED end its intents."""

    CLEAN = "clean"
    DIRTY = "dirty"
    COMMITTED = "committed"
    LANDED = "landed"


class ForeignChange(StrEnum):
    """What happened to a path that no mount changed."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"


class Unleased(StrEnum):
    """How a change came about that no lease stood for."""

    BESIDE = "beside"
    """Beside all mounts: a host tool, root, an editor outside."""
    GIT = "git"
    """Git moved history through a mount, and the path then differs from HEAD."""
    COMMIT = "commit"
    """A commit holds it, which got past the hooks."""
    OBSERVED = "observed"
    """Through a mount that refuses nothing (unleased policy `observe`)."""


class Require(StrEnum):
    """What must have become of a lease's intents before it is released: a territory's policy."""

    NONE = "none"
    COMMITTED = "committed"
    PUSHED = "pushed"


# How a release with OnDirty.HAND_ON is recorded.
HANDED_ON = "handed-on"


class OnDirty(StrEnum):
    """What a release does with intents that do not meet its requirement.

    RESCUED says that they were snapshot before; what no rescue contains still refuses the release. HAND_ON leaves them for
    whoever writes there next, who has read them and builds upon them: no heir need keep them first.
    """

    REFUSE = "refuse"
    KEEP = "keep"
    FORCE = "force"
    RESCUED = "rescued"
    HAND_ON = "hand-on"


# A name that is new stays new, however often its file is written afterwards.
_NEW_NAME = frozenset({IntentKind.CREATE, IntentKind.RENAME_FROM})
_SAME_NAME = frozenset({IntentKind.MODIFY, IntentKind.MODE})


def stays_new(before: IntentKind, now: IntentKind) -> bool:
    """Whether a path that was new at `before` is no less so after `now`."""
    return before in _NEW_NAME and now in _SAME_NAME
