"""Which of several sources says what a setting is: the highest that says anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.setting import DEFAULT, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from leasefs.core.setting import Setting, Value


class Layer(NamedTuple):
    """What one source says: `place` is one of `PLACES`, `values` are by setting."""

    place: str
    values: Mapping[str, Value]


class Found(NamedTuple):
    """What a setting is, and which place says so; `also` are the places that say it, too, and are not heard."""

    value: Value
    place: str
    also: tuple[str, ...] = ()


class Around(NamedTuple):
    """What stands `below` a repository's own file, and `above` it: by setting, of those that a repository may say."""

    below: Mapping[str, Value]
    above: Mapping[str, Value]


ALONE = Around({}, {})


def resolve(setting: Setting, layers: Iterable[Layer]) -> Found:
    """The setting's value from the highest of the layers, in whatever order they are given, else its default."""
    saying = [layer for layer in layers if setting.name in layer.values]
    saying.sort(key=lambda layer: PLACES.index(layer.place), reverse=True)
    if not saying:
        return Found(setting.default, DEFAULT)
    first, *others = saying
    return Found(first.values[setting.name], first.place, tuple(layer.place for layer in others))
