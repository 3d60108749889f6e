"""Completion of settings' names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.settings import SETTINGS

if TYPE_CHECKING:
    import click


def names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Settings that begin like this."""
    return [name for name in SETTINGS if name.startswith(begun)]


def assignments(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """`NAME=` of settings that the command line may say."""
    return [
        f"{one.name}=" for one in SETTINGS.values() if one.variable and one.name.startswith(begun)
    ]
