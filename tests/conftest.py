"""What every test may rely on, however the run was started."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the markers ask for and is not here is a reason to skip, and said."""
    lacking = {}
    if os.geteuid() != 0:
        lacking["root"] = "needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        lacking["mount"] = "needs /dev/fuse"
    for item in items:
        for marker, reason in lacking.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def nothing_is_configured(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither the machine's settings nor those of the person who runs the tests have a say in them."""
    os.environ["LEASEFS_CONFIG_SYSTEM"] = ""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(autouse=True, scope="session")
def nothing_is_ignored_by_children() -> Iterator[None]:
    """The programs under test get SIGINT and its kind as from a terminal.

    `nohup` and a shell's `&` start a run with them ignored, and what is ignored stays so across exec(2);
    what is caught starts as the default. The run itself goes on not minding them.
    """
    ignored = [
        number
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, lambda _number, _frame: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def nothing_is_logged_for_good() -> Iterator[None]:
    """A command that sets up its log within this process does so for itself: its standard error is gone by the next."""
    root, ours = logging.getLogger(), logging.getLogger("leasefs")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    for handler in list(root.handlers):
        if handler not in handlers:
            root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
