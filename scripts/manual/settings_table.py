"""The settings as the documents list them, from the one table in `leasefs.core.settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.setting import REPOSITORY, SYSTEM, USER
from leasefs.core.settings import SETTINGS
from leasefs_cli.config_rows import as_toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.setting import Setting

FIRST = "<!-- settings: written by scripts/man -->\n"
LAST = "<!-- end of settings -->\n"
_FILES = {SYSTEM: "machine", USER: "user", REPOSITORY: "repository"}


def variables() -> Iterator[tuple[str, str]]:
    """Each setting's variable, and what the manual says of it."""
    for setting in SETTINGS.values():
        if setting.variable:
            holds = setting.unset or as_toml(setting.default)
            yield setting.variable, f"The setting {setting.name}. {setting.help} Default: {holds}."


def tables() -> str:
    """All settings, a table of the document for each table of the file."""
    by_table: dict[str, list[Setting]] = {}
    for setting in SETTINGS.values():
        by_table.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    lines = []
    for table, settings in by_table.items():
        lines += ["", f"### `[{table}]`" if table else "### At the top", ""]
        lines += [
            "| key | | is | default | said by | variable, option |",
            "|---|---|---|---|---|---|",
        ]
        lines += map(_row, settings)
    return "\n".join([*lines[1:], ""]) + "\n"


def _row(setting: Setting) -> str:
    default = setting.unset or f"`{as_toml(setting.default)}`"
    ways = [f"`{setting.variable}`"] if setting.variable else []
    ways += [f"`{setting.option}`"] if setting.option else []
    cells = [
        f"`{setting.key[-1]}`",
        setting.help,
        setting.kind.words,
        default,
        ", ".join(_FILES[place] for place in setting.files),
        ", ".join(ways),
    ]
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def written_into(text: str) -> str:
    """The document with its tables as they are to be. Raises ValueError if it has no place for them."""
    head, first, rest = text.partition(FIRST)
    _, last, tail = rest.partition(LAST)
    if not first or not last:
        raise ValueError("the document has no place for the settings")
    return f"{head}{FIRST}\n{tables()}{LAST}{tail}"
