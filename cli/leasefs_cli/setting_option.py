"""Options whose default is a setting: of the command line, else of the environment, else of the files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Mapping

_F = TypeVar("_F", bound=Callable[..., Any])


class SettingOption(click.Option):
    """An option that goes by `setting` where it is not given.

    Only for settings that no repository has a say in: the others are put together where the tree is known.
    """

    def __init__(self, declarations: list[str], *, setting: str, **attributes: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(declarations, **attributes)
        self.setting = setting

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The usual line, which names the setting as well."""
        record = super().get_help_record(ctx)
        return None if record is None else (record[0], f"{record[1]}  [setting: {self.setting}]")

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """What was given, else what is configured. Raises BadConfiguration."""
        value, source = super().consume_value(ctx, opts)
        if source is not ParameterSource.DEFAULT or ctx.resilient_parsing:
            return value, source
        from leasefs.client import config

        return config.found(self.setting).value, ParameterSource.DEFAULT_MAP


def setting_option(setting: str, *declarations: str, **attributes: Any) -> Callable[[_F], _F]:  # noqa: ANN401
    """Like `click.option`, for an option that goes by a setting of `leasefs.core.settings` where it is not given."""
    return click.option(*declarations, cls=SettingOption, setting=setting, **attributes)
