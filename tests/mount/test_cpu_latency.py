"""A real mount keeps processors awake while it is worked in, and lets them halt afterwards."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually
from leasefs.testing.mounted import mounted

if TYPE_CHECKING:
    from pathlib import Path

_DEVICE = "/dev/cpu_dma_latency"

pytestmark = pytest.mark.skipif(not os.access(_DEVICE, os.W_OK), reason="nobody may ask here")


def _asks(pid: int) -> bool:
    """Whether the process has the device open."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return _DEVICE in links


@pytest.mark.parametrize(("word", "asks"), [("low", True), ("any", False)])
def test_the_kernel_is_asked_while_requests_come_in_a_row(
    place: Path, word: str, asks: bool
) -> None:
    for name in ("source", "mount"):
        (place / name).mkdir(exist_ok=True)
    source, root = str(place / "source"), str(place / "mount")

    def works() -> bool:
        for at in range(500):
            os.path.exists(f"{root}/{at}")
        return _asks(mount.process.pid)

    with mounted(source, root, "--cpu-latency", word) as mount:
        assert not _asks(mount.process.pid)
        if asks:
            eventually(works, what="the kernel asked")
            eventually(lambda: not _asks(mount.process.pid), what="the end of it")
        else:
            assert not any(works() for _ in range(20))
