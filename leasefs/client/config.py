"""What is configured: each setting's value, and who says so.

    from leasefs.client import config
    config.seconds("claim.ttl_s")

The table of all settings is `leasefs.core.settings`; this module brings the sources together. A repository's file is
read by who knows the tree (`leasefs.vcs.project_file`), and is put between what `around` gives.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from leasefs.client.config_files import ConfigFile, forget, own_files
from leasefs.core.errors import BadConfiguration, InvalidRequest
from leasefs.core.layers import Around, Found, Layer, resolve
from leasefs.core.setting import COMMAND_LINE, DEFAULT, ENVIRONMENT, REPOSITORY, USER
from leasefs.core.settings import SETTINGS, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from leasefs.core.setting import Setting, Value

_T = TypeVar("_T", str, float, int, bool)


class Trouble(NamedTuple):
    """Something that is wrong with what is configured: `where` is a file, with its line, or a variable."""

    where: str
    key: str
    line: int
    words: str

    def error(self) -> BadConfiguration:
        """The failure of whoever needed it."""
        return BadConfiguration(self.where, self.key, self.line, self.words)


def found(name: str) -> Found:
    """What the setting is and who says so, for whatever no repository has a say in.

    Raises:
        BadConfiguration: a file of settings is wrong anywhere, or the setting's variable is.
    """
    setting = SETTINGS[name]
    return resolve(setting, [*_said_last(setting), *_files_as_layers()])


def text(name: str) -> str:
    """A setting that is a text; "" if nobody says anything. Raises as `found`."""
    return _as(str, name) or ""


def path(name: str) -> str:
    """A setting that is a path, `~/` replaced by the home directory; "" if nobody says anything. Raises as `found`."""
    return os.path.expanduser(text(name))


def seconds(name: str) -> float:
    """A setting that is a time, in seconds. Raises as `found`."""
    return _as(float, name) or 0.0


def whole(name: str) -> int:
    """A setting that is a whole number. Raises as `found`."""
    return _as(int, name) or 0


def flag(name: str) -> bool:
    """A setting that is true or false. Raises as `found`."""
    return _as(bool, name) or False


def _as(kind: type[_T], name: str) -> _T | None:
    value = found(name).value
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, which is no {kind.__name__}")
    return value


def around() -> Around:
    """What is said below a repository's own file (by other files), and above it (environment and command line).

    Raises as `found`.
    """
    below: dict[str, Value] = {}
    for layer in sorted(_files_as_layers(), key=lambda layer: layer.place == USER):
        below |= _shared(layer.values)
    above: dict[str, Value] = {}
    for setting in SETTINGS.values():
        if REPOSITORY in setting.files:
            said = resolve(setting, _said_last(setting))
            if said.place != DEFAULT:
                above[setting.name] = said.value
    return Around(below, above)


def _shared(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: said for name, said in values.items() if REPOSITORY in SETTINGS[name].files}


def where(name: str, place: str, repository: ConfigFile | None = None) -> str:
    """Where the setting is said at a place: `/path/of/file:line`, a variable, or an option. "" for a default."""
    if place == ENVIRONMENT:
        return SETTINGS[name].variable
    if place == COMMAND_LINE:
        return f"-c {name}"
    for file in (*own_files(), *filter(None, [repository])):
        if file.place == place:
            line = file.parsed.line_of(name)
            return f"{file.path}:{line}" if line else file.path
    return ""


# -- layers ------------------------------------------------------------------------------------


def layers(repository: ConfigFile | None = None) -> list[Layer]:
    """All that is said, leaving out what is wrong: for who shows it. Never raises."""
    files = [*own_files(), *filter(None, [repository])]
    environment: dict[str, Value] = {}
    for setting in SETTINGS.values():
        try:
            environment |= _of_environment(setting)
        except BadConfiguration:
            continue  # `troubles` tells
    said = [Layer(file.place, file.parsed.said) for file in files]
    return [*said, Layer(ENVIRONMENT, environment), Layer(COMMAND_LINE, _given)]


def troubles(repository: ConfigFile | None = None) -> Iterator[Trouble]:
    """All that is wrong with what is configured."""
    for file in (*own_files(), *filter(None, [repository])):
        yield from _troubles_of(file)
    for setting in SETTINGS.values():
        try:
            _of_environment(setting)
        except BadConfiguration as error:
            yield Trouble(setting.variable, setting.name, 0, error.words)


def _troubles_of(file: ConfigFile) -> Iterator[Trouble]:
    for problem in file.parsed.problems:
        at = f"{file.path}:{problem.line}" if problem.line else file.path
        yield Trouble(at, problem.key, problem.line, problem.words)


def _files_as_layers() -> list[Layer]:
    files = own_files()
    for file in files:
        for trouble in _troubles_of(file):
            raise trouble.error()
    return [Layer(file.place, file.parsed.said) for file in files]


def _said_last(setting: Setting) -> list[Layer]:
    return [Layer(ENVIRONMENT, _of_environment(setting)), Layer(COMMAND_LINE, _given)]


def _of_environment(setting: Setting) -> dict[str, Value]:
    """What the setting's variable says; an empty one says nothing."""
    said = os.environ.get(setting.variable, "").strip() if setting.variable else ""
    if not said:
        return {}
    try:
        return {setting.name: _from_text(setting, said)}
    except ValueError as error:
        words = f"`{setting.name}` must be {error}"
        raise BadConfiguration(setting.variable, setting.name, 0, words) from error


def _from_text(setting: Setting, said: str) -> Value:
    read: Value = setting.kind.read(setting.kind.parse(said))
    return read


# -- the command line ---------------------------------------------------------------------------

_given: dict[str, Value] = {}
_texts: dict[str, str] = {}


def give(wish: str) -> None:
    """Take `NAME=VALUE` of the command line, before anything is asked for.

    Raises:
        InvalidRequest: there is no such setting, it is a repository's alone, or it cannot be that.
    """
    name, equals, said = wish.partition("=")
    setting = setting_named(name)
    if not equals:
        raise InvalidRequest(f"-c {name}: give it a value: -c {name}=VALUE")
    if not setting.variable:
        raise InvalidRequest(f"-c {name}: `{name}` is for a repository's own .leasefs.toml to say")
    try:
        _given[name] = _from_text(setting, said)
    except ValueError as error:
        raise InvalidRequest(f"-c {name}: `{name}` must be {error}") from error
    _texts[name] = said


def given() -> dict[str, str]:
    """What was given, as text, for a process that is to go on from here (`give_all`)."""
    return dict(_texts)


def give_all(texts: Mapping[str, str]) -> None:
    """Take over what another process was given. Raises as `give`."""
    for name, said in texts.items():
        give(f"{name}={said}")


def start_afresh() -> None:
    """Forget files and command line: another command begins in this process."""
    _given.clear()
    _texts.clear()
    forget()


def setting_named(name: str) -> Setting:
    """The setting of this name. Raises InvalidRequest, which says which name is nearest."""
    setting = SETTINGS.get(name)
    if setting is None:
        near = nearest(name)
        hint = f"did you mean {near!r}?" if near else "`leasefs config show --all` lists them"
        raise InvalidRequest(f"no setting {name[:80]!r}: {hint}")
    return setting


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Those of the environment's names that look like a setting's, and are none."""
    known = {setting.variable for setting in SETTINGS.values()}
    return sorted(name for name in names if name.startswith("LEASEFS_") and name not in known)
