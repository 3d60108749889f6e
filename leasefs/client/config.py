"""What is configured: each setting's value, and who says so.

    from leasefs.client import config
    config.seconds("claim.ttl_s")

The table of all settings is `leasefs.core.settings`; this module brings the sources together. A repository's file is
read by who knows the tree (`leasefs.vcs.project_file`), and is put between what `around` gives.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from leasefs.client.config_files import forget, own_files, set_aside
from leasefs.core.errors import BadConfiguration, InvalidRequest
from leasefs.core.layers import Around, Found, Layer, resolve
from leasefs.core.setting import COMMAND_LINE, DEFAULT, ENVIRONMENT, REPOSITORY, USER
from leasefs.core.settings import SETTINGS, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasefs.core.setting import Setting, Value
    from leasefs.core.settings_file import Problem

_T = TypeVar("_T", str, float, int, bool)


def found(name: str) -> Found:
    """What the setting is and who says so, for whatever no repository has a say in.

    Raises:
        BadConfiguration: a file of settings is wrong anywhere, or the setting's variable is.
    """
    setting = SETTINGS[name]
    return resolve(setting, [*_said_last(setting), *_files_as_layers()])


def refused(name: str, words: str) -> BadConfiguration:
    """The failure of who cannot use what the setting says, though it is of its kind; `words` say why."""
    from leasefs.client.config_report import Report

    report = Report()
    return BadConfiguration(report.where(name, report.found(name).place), name, 0, words)


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


# -- layers ------------------------------------------------------------------------------------


def _files_as_layers() -> list[Layer]:
    files = own_files()
    for file in files:
        for problem in file.problems:
            raise wrong_in(file.path, problem)
    return [Layer(file.place, file.said) for file in files]


def wrong_in(path_: str, problem: Problem) -> BadConfiguration:
    """The failure of whoever needed the file at this path."""
    where = f"{path_}:{problem.line}" if problem.line else path_
    return BadConfiguration(where, problem.key, problem.line, problem.words)


def _said_last(setting: Setting) -> list[Layer]:
    return [Layer(ENVIRONMENT, of_environment(setting)), Layer(COMMAND_LINE, _given)]


def of_environment(setting: Setting) -> dict[str, Value]:
    """What the setting's variable says; an empty one says nothing. Raises BadConfiguration."""
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


def set_aside_what_is_wrong() -> str:
    """Go on as if there were no files of settings, if something is wrong with them; what that is, or "".

    For a ledger that a mount needs back, whose files were right when it was first started.
    """
    try:
        _files_as_layers()
    except BadConfiguration as error:
        set_aside()
        return error.message
    return ""


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


def given() -> Layer:
    """What was given."""
    return Layer(COMMAND_LINE, dict(_given))


def given_texts() -> dict[str, str]:
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
