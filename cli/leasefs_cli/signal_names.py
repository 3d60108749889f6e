"""Signals as people name them: `TERM`, `SIGTERM`, `15`."""

from __future__ import annotations

import signal

import click


class SignalName(click.ParamType[signal.Signals]):
    """A click parameter: a signal of this system."""

    name = "signal"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> signal.Signals:
        """The signal. A usage error names some."""
        text = str(value).upper()
        try:
            if text.isascii() and text.isdigit():
                return signal.Signals(int(text))
            return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
        except (ValueError, KeyError):
            self.fail(f"{text[:40]!r} is no signal: give TERM, INT, STOP, USR1, ...", param, ctx)
