"""How settings are shown."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from leasefs.core.setting import DEFAULT

if TYPE_CHECKING:
    from leasefs.client.config_report import Report
    from leasefs.core.setting import Setting, Value


def as_toml(value: Value) -> str:
    """The value as a file would say it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:.15g}"
    return "" if value is None else str(value)


def plain(value: Value) -> str:
    """The value for a script: a text without quotes, nothing for none."""
    return value if isinstance(value, str) else as_toml(value)


def row(setting: Setting, report: Report) -> tuple[str, str, str]:
    """Name, value, and where that is said."""
    found = report.found(setting.name)
    shown = as_toml(found.value) if found.value is not None else f"({setting.unset})"
    return setting.name, shown, report.where(setting.name, found.place)


def as_json(setting: Setting, report: Report) -> dict[str, object]:
    """All about one setting. `inf` is no JSON, so it is said as a text."""
    found = report.found(setting.name)
    value = found.value
    return {
        "name": setting.name,
        "value": "inf" if isinstance(value, float) and math.isinf(value) else value,
        "place": found.place,
        "where": report.where(setting.name, found.place),
        "also": [
            {"place": place, "where": report.where(setting.name, place)} for place in found.also
        ],
        "default": setting.default,
        "variable": setting.variable,
        "files": list(setting.files),
        "is": setting.kind.words,
        "help": setting.help,
    }


def is_said(setting: Setting, report: Report) -> bool:
    """Whether anybody says it."""
    return report.found(setting.name).place != DEFAULT
