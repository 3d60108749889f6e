"""Tables that have to be complete: handlers, errnos, advice; and the border that no exception crosses."""

from __future__ import annotations

import errno
import inspect
from pathlib import Path

import pyfuse3
import pytest

from leasefs.core.policy import Op, Reason, Refused
from leasefs.mount.boundary import boundary
from leasefs.mount.control_server import STATUS_OF
from leasefs.mount.errnos import ERRNO_OF, Refusal
from leasefs.mount.mountinfo import parse
from leasefs.mount.operations import CHANGES, READS
from leasefs.mount.refusals import ADVICE
from leasefs.service.errors_http import STATUS

NOT_HANDLERS = {"supports_dot_lookup", "enable_writeback_cache", "enable_acl"}


def test_every_handler_is_classed() -> None:
    """A handler that a newer pyfuse3 brings cannot slip past the gate: this fails first."""
    known = {name for name in dir(pyfuse3.Operations) if not name.startswith("_")} - NOT_HANDLERS
    assert known == READS | CHANGES
    assert not READS & CHANGES


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_an_errno_and_an_advice(reason: Reason) -> None:
    assert ERRNO_OF[reason] in errno.errorcode
    assert ADVICE[reason].format(path="x")


@pytest.mark.parametrize(
    ("raised", "answered"),
    [
        (OSError(errno.ENOSPC, "full"), errno.ENOSPC),
        (OSError("no number"), errno.EIO),
        (Refusal(Refused(Reason.NOT_LEASED, Op.WRITE, b"f")), errno.EACCES),
        (Refusal(Refused(Reason.LOST, Op.WRITE, b"f")), errno.ESTALE),
        (pyfuse3.FUSEError(errno.ENOSYS), errno.ENOSYS),
    ],
)
@pytest.mark.trio
async def test_known_exceptions_become_their_errno(raised: Exception, answered: int) -> None:
    @boundary
    async def handler() -> None:
        raise raised

    with pytest.raises(pyfuse3.FUSEError) as caught:
        await handler()
    assert caught.value.errno == answered


@pytest.mark.trio
async def test_an_unknown_exception_is_logged_and_does_not_end_the_mount(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @boundary
    async def handler() -> None:
        raise ValueError("a fault of ours")

    with pytest.raises(pyfuse3.FUSEError) as caught:
        await handler()
    assert caught.value.errno == errno.EIO
    assert "handler failed" in caplog.text
    assert "a fault of ours" in caplog.text


def test_a_refusal_of_the_ledger_has_the_same_status_from_a_mount() -> None:
    only_clients = {"timed-out", "mount", "unexpected", "bad-configuration"}
    ledgers = {code: status for code, status in STATUS.items() if code not in only_clients}
    assert {code: STATUS_OF.get(code, 400) for code in ledgers} == ledgers


def test_the_table_of_errnos_is_explained_where_it_stands() -> None:
    page = Path(inspect.getsourcefile(Refusal) or "").read_text()
    for reason in Reason:
        assert reason.name in page.split('"""')[1]


def test_mountinfo_is_read_as_proc_writes_it() -> None:
    line = (
        rb"36 35 0:52 / /mnt/a\040b\012c\134d rw,noatime shared:1 master:2 - fuse.leasefs leasefs:x\040y rw"
        b"\n"
    )
    [mount] = parse(line)
    assert mount.mountpoint == b"/mnt/a b\nc\\d"
    assert (mount.mount_id, mount.device, mount.filesystem, mount.source) == (
        36,
        "0:52",
        "fuse.leasefs",
        b"leasefs:x y",
    )
    assert mount.is_leasefs
    [plain] = parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert not plain.is_leasefs
