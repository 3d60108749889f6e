"""All that is configured and all that is wrong with it, for whoever shows it. Nothing here raises for a wrong value."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import config
from leasefs.client.config_files import SYSTEM_VARIABLE, ConfigFile, own_files
from leasefs.core.errors import BadConfiguration
from leasefs.core.layers import Found, Layer, resolve
from leasefs.core.setting import COMMAND_LINE, DEFAULT, ENVIRONMENT
from leasefs.core.settings import SETTINGS, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.setting import Value

_PREFIX = "LEASEFS_"
# Variables that are no settings: about one mount, one command, one run of a hook or a check.
OTHER_VARIABLES = frozenset(
    {
        SYSTEM_VARIABLE,
        "LEASEFS_DEBUG",
        "LEASEFS_LEASE",
        "LEASEFS_MOUNTPOINT",
        "LEASEFS_MOUNT_OPTIONS",
        "LEASEFS_PATHS",
        "LEASEFS_RECALL_BY",
        "LEASEFS_RECALL_REASON",
        "LEASEFS_RECALL_WITHIN_S",
        "LEASEFS_SOURCE",
    }
)


class Trouble(NamedTuple):
    """Something that is wrong with what is configured. `where` is a file, with its line, or a variable.

    `line` is 0 and `key` "" if it is about no line and no key. `fatal`: commands that need it refuse to go on.
    """

    where: str
    key: str
    line: int
    words: str
    fatal: bool = True


class Report:
    """What each setting is and who says so, of the machine, the user, and a `repository` if there is one here."""

    def __init__(self, repository: ConfigFile | None = None) -> None:
        self.files = [*own_files(), *filter(None, [repository])]
        self._layers = [Layer(file.place, file.said) for file in self.files]
        self._layers += [Layer(ENVIRONMENT, _environment()), config.given()]

    def found(self, name: str) -> Found:
        """What the setting is by all that can be read."""
        return resolve(SETTINGS[name], self._layers)

    def where(self, name: str, place: str) -> str:
        """Where it is said at that place: `/path/of/file:line`, a variable, an option; "default"."""
        if place == ENVIRONMENT:
            return SETTINGS[name].variable
        if place == COMMAND_LINE:
            return f"-c {name}"
        for file in self.files:
            if file.place == place and file.parsed:
                line = file.parsed.line_of(name)
                return f"{file.path}:{line}" if line else file.path
        return DEFAULT

    def troubles(self) -> Iterator[Trouble]:
        """All that is wrong: with the files, then with variables."""
        for file in self.files:
            for problem in file.problems:
                error = config.wrong_in(file.path, problem)
                yield Trouble(error.where, problem.key, problem.line, problem.words)
        for setting in SETTINGS.values():
            try:
                config.of_environment(setting)
            except BadConfiguration as error:
                yield Trouble(error.where, setting.name, 0, error.words)
        yield from _strange_variables()


def _environment() -> dict[str, Value]:
    said: dict[str, Value] = {}
    for setting in SETTINGS.values():
        try:
            said |= config.of_environment(setting)
        except BadConfiguration:
            continue  # `troubles` tells
    return said


def _strange_variables() -> Iterator[Trouble]:
    """Variables that look like a setting's and are none: nobody reads them, which their writer may not know."""
    known = {setting.variable for setting in SETTINGS.values()} - {""} | OTHER_VARIABLES
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known:
            near = nearest(
                name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in sorted(known)]
            )
            hint = f"; did you mean {_PREFIX}{near}?" if near else ""
            yield Trouble(name, "", 0, f"no setting has this variable{hint}", fatal=False)
