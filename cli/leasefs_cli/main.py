"""Entry point of the `leasefs` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its documented code."""
