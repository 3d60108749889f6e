"""What a setting is: a name, what its value may be, and where it may be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.core.setting_kinds import Kind

DEFAULT, SYSTEM, USER, REPOSITORY = "default", "system", "user", "repository"
ENVIRONMENT, COMMAND_LINE = "environment", "command line"
PLACES = (DEFAULT, SYSTEM, USER, REPOSITORY, ENVIRONMENT, COMMAND_LINE)
"""Where a value may come from, the later before the earlier."""

# Whose files may say a setting. What is a `PROJECT`'s can be said nowhere else.
ANYBODY = (SYSTEM, USER, REPOSITORY)
HOST = (SYSTEM, USER)
PERSON = (USER,)
PROJECT = (REPOSITORY,)


Value = str | bool | int | float | tuple[Any, ...] | None
"""What programs are given; None if there is no default and nobody says anything."""


class Setting(NamedTuple):
    """One setting.

    `files` are the places among whose files it may stand; what is for a repository alone can be said nowhere else.
    `default` None: `unset` says in words what holds then. `spelt` is the variable's name where it is not the usual
    one. `in_repository` reads it in place of its kind there. `option` is the option that says it for one command.
    """

    name: str
    kind: Kind
    default: Value
    files: tuple[str, ...]
    help: str
    unset: str = ""
    spelt: str = ""
    option: str = ""
    in_repository: Callable[[object], Value] | None = None

    @property
    def variable(self) -> str:
        """The variable of the environment that says it, or "" if none does."""
        if self.files == PROJECT:
            return ""
        return self.spelt or f"LEASEFS_{self.name.replace('.', '_').upper()}"

    @property
    def key(self) -> tuple[str, ...]:
        """Where it stands in a TOML document."""
        return tuple(self.name.split("."))

    def read(self, value: object, place: str) -> Value:
        """The value, as said at `place`. Raises ValueError, whose message goes on after "must be"."""
        if place == REPOSITORY and self.in_repository is not None:
            return self.in_repository(value)
        read: Value = self.kind.read(value)
        return read
