"""A daemon's file of messages is its user's alone, and one that has grown makes room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.client import log_files
from leasefs.client.log_files import opened_log

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_appended_to_and_private(tmp_path: Path) -> None:
    path = tmp_path / "ledger.log"
    path.write_text("before\n")
    path.chmod(0o644)
    with opened_log(str(path)) as log:
        log.write(b"after\n")
    assert path.read_text() == "before\nafter\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_that_has_grown_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_BYTES", 10)
    path = tmp_path / "ledger.log"
    for words in ("one long enough\n", "another long one\n", "short\n", "last\n"):
        with opened_log(str(path)) as log:
            log.write(words.encode())
    assert path.read_text() == "short\nlast\n"
    assert (tmp_path / "ledger.log.1").read_text() == "another long one\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_nobody_is_led_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        opened_log(str(tmp_path / "link"))
    assert not (tmp_path / "theirs").exists()
