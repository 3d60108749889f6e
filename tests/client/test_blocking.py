"""The command line's transport against prepared answers."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.address import Address, parse_url
from leasefs.client.blocking import Link
from leasefs.client.http_reader import AnswerReader
from leasefs.client.ids import Credentials
from leasefs.core.errors import Denied, InvalidRequest, LedgerUnavailable, UnknownLease
from leasefs.testing.canned_server import canned_server, json_answer

if TYPE_CHECKING:
    from pathlib import Path

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


def test_a_request_carries_its_body_and_the_sessions_secret(path: str) -> None:
    with canned_server(path, [json_answer(b'{"lease": "L1"}')]) as server:
        link = Link(f"unix:{path}", Credentials("S1", "secret"))
        assert link.send(api.claim(["a"], key="k")) == {"lease": "L1"}
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/leases HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Leasefs S1:secret" in head
    assert body.startswith(b'{"key":"k","globs":["a"]')


def test_a_read_does_not_carry_the_secret(path: str) -> None:
    with canned_server(path, [json_answer(b"{}")]) as server:
        Link(f"unix:{path}", Credentials("S1", "secret")).send(api.status())
    assert b"secret" not in server.requests[0]


def test_a_refusal_is_raised(path: str) -> None:
    said = b'{"error": {"code": "unknown-lease", "message": "gone", "details": {}}}'
    with (
        canned_server(path, [json_answer(said, b"404 Not Found")]),
        pytest.raises(UnknownLease, match="gone"),
    ):
        Link(f"unix:{path}").send(api.lease("L1"))


def test_nobody_listens(path: str) -> None:
    with pytest.raises(LedgerUnavailable, match="no ledger listens there"):
        Link(f"unix:{path}").send(api.status())
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(path)
    with pytest.raises(LedgerUnavailable, match="no ledger listens there"):
        Link(f"unix:{path}").send(api.status())
    assert not Link(f"unix:{path}").reachable()


def test_a_silent_ledger_is_given_up(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(LedgerUnavailable, match=r"did not answer within 0\.05 s"):
            Link(f"unix:{path}", timeout_s=0.05).send(api.status())


def test_a_full_backlog_is_waited_for_and_then_given_up(path: str) -> None:
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX) as first,
        socket.socket(socket.AF_UNIX) as second,
    ):
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        second.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            second.connect(path)
        with pytest.raises(LedgerUnavailable, match="does not accept the connection in time"):
            Link(f"unix:{path}", timeout_s=0.05).send(api.status())


def test_a_ledger_going_away_is_revived_once_and_asked_again(path: str) -> None:
    revived = []
    with canned_server(path, [b"", json_answer(b"{}")]):
        link = Link(f"unix:{path}", revive=lambda: revived.append(1))
        assert link.send(api.status()) == {}
    assert revived == [1]


def test_a_revival_that_does_not_help_ends_in_words(path: str) -> None:
    revived: list[int] = []
    link = Link(f"unix:{path}", revive=lambda: revived.append(1))
    with pytest.raises(LedgerUnavailable, match="no ledger listens"):
        link.send(api.status())
    assert revived == [1]


def test_events_come_as_they_are_sent_and_end_with_the_stream(path: str) -> None:
    events = b': alive\n\nid: 7\nevent: granted\ndata: {"a":\ndata: 1}\n\ndata: {}\n\n'
    pieces = [events[:20], events[20:]]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    with canned_server(path, [CHUNKED + body]) as server:
        found = list(Link(f"unix:{path}").stream(api.follow(after=3)))
    assert [(event.seq, event.type, event.data) for event in found] == [
        (7, "granted", {"a": 1}),
        (0, "message", {}),
    ]
    assert server.requests[0].startswith(b"GET /v1/events?after=3&follow=1 ")
    assert b"Accept: text/event-stream" in server.requests[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
        CHUNKED + b"zz\r\n{}\r\n",
        CHUNKED + b"2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 " + b"x" * 70_000,
    ],
)
def test_a_broken_answer_is_an_unreachable_ledger(path: str, answer: bytes) -> None:
    with canned_server(path, [answer]), pytest.raises(LedgerUnavailable):
        Link(f"unix:{path}").send(api.status())


def test_an_answer_in_single_bytes_with_an_interim_one_and_trailers() -> None:
    said = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"1\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n"
    pieces = iter([said[at : at + 1] for at in range(len(said))])
    reader = AnswerReader(lambda: next(pieces, b""))
    reader.read_head()
    assert (reader.status, reader.read_body()) == (200, b"{}")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="starts a listener as another user")
def test_a_socket_of_another_user_is_refused(tmp_path: Path) -> None:
    """The ledger is handed secrets, so it must be ours (or root's)."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        pid = os.fork()
        if pid == 0:
            os.setuid(65534)
            listener.listen()
            os._exit(0)
        os.waitpid(pid, 0)
        with pytest.raises(Denied, match=r"belongs to another user \(uid 65534\)"):
            Link(f"unix:{path}").send(api.status())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("unix:/run/x.sock", Address(socket_path="/run/x.sock")),
        ("unix:///run/x.sock", Address(socket_path="/run/x.sock")),
        ("https://127.0.0.1:8470/", Address(host="127.0.0.1", port=8470)),
        ("https://[::1]:8470", Address(host="::1", port=8470)),
        ("https://[2001:db8::7]", Address(host="2001:db8::7", port=443)),
        ("https://Ledger.Example.org", Address(host="ledger.example.org", port=443)),
        ("https://build-3:1", Address(host="build-3", port=1)),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    assert parse_url(url) == address
    assert parse_url(address.url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "unix:relative",
        "unix:/" + "x" * 108,
        "http://example.org:80",
        "http://127.0.0.1:8470",
        "https://",
        "https://host:",
        "https://host:0",
        "https://host:65536",
        "https://host:8470/v1",
        "https://host:8470?x",
        "https://ho st:8470",
        "https://höst",
        "https://-host",
        "https://host:\u0661",
        "https://[::1",
        "https://[::1]8470",
        "https://::1:8470",
        "ftp:x",
    ],
)
def test_bad_addresses(url: str) -> None:
    with pytest.raises(InvalidRequest, match="bad ledger address"):
        parse_url(url)


def test_a_secret_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidRequest, match="no user or secret belongs into it") as caught:
        parse_url("https://ann:hunter2@host:8470")
    assert "hunter2" not in str(caught.value) + str(caught.value.details)
