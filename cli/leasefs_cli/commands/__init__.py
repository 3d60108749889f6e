"""One file per command, imported only when it is called."""

from __future__ import annotations
