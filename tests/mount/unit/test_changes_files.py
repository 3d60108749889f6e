"""The files `.leasefs/changes-TOKEN` that git's hook reads, without a kernel."""

from __future__ import annotations

import errno
import stat

import pytest
import trio

from leasefs.mount.changes import ChangeLog
from leasefs.mount.control_dir import ControlDir


def covered() -> ChangeLog:
    log = ChangeLog("ab")
    log.cover()
    return log


def read(control: ControlDir, name: bytes) -> list[bytes]:
    return trio.run(control.read, control.find(name)).split(b"\0")


def test_what_is_read_leads_to_the_next() -> None:
    log = covered()
    control = ControlDir({}, 0, 0, log, directories=lambda: [b"d"])
    weak, everything, _ = read(control, b"changes-")
    assert everything == b"/"
    token, *paths, _ = read(control, b"changes-" + weak)
    assert paths == [b".leasefs", b"d/.leasefs"]
    log.changed(b"a")
    assert read(control, b"changes-" + token)[1:] == [b"a", b""]


@pytest.mark.parametrize(
    "token", [b"", b"x" * 247, b"..", b"\xff\n", b"leasefs:ab:99999999999999999w"]
)
def test_any_token_has_a_file_that_says_everything(token: bytes) -> None:
    control = ControlDir({}, 0, 0, covered())
    number = control.find(b"changes-" + token)
    assert control.owns(number)
    assert number < 1 << 64
    assert stat.S_IMODE(control.stat(number).st_mode) == 0o444
    assert read(control, b"changes-" + token)[1:] == [b"/", b""]


def test_looking_at_one_ends_no_epoch_and_lists_none() -> None:
    log = covered()
    control = ControlDir({"agent": bytes}, 0, 0, log)
    before = log.epoch
    for token in range(1000):
        control.stat(control.find(b"changes-leasefs:ab:%d" % token))
    assert log.epoch == before
    assert [name for name, _ in control.files()] == [b"agent"]


def test_what_was_done_beneath_is_known_before_the_answer() -> None:
    log = covered()

    async def settle() -> None:
        log.changed(b"foreign")

    control = ControlDir({}, 0, 0, log, settle, list)
    weak = read(control, b"changes-")[0]
    assert b"foreign" in read(control, b"changes-" + weak)


def test_without_a_log_there_are_none() -> None:
    with pytest.raises(FileNotFoundError) as error:
        ControlDir({}, 0, 0).find(b"changes-x")
    assert error.value.errno == errno.ENOENT
