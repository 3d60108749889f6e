"""The journal of intents: written before the change, whole whatever ends the process (P8)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.mount import journal
from leasefs.mount.journal import Header, Journal, dead_journals, remove_drafts, untold_of_others
from leasefs.mount.journal_lines import to_note_line

if TYPE_CHECKING:
    from pathlib import Path

HEADER = Header("t-1", "/home/a/repo", "host", "territory", "agent-07", "claude", "s-1")


def _notes(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"path": f"f{at}", "token": 7} for at in range(first, first + count)]


def _left(directory: Path) -> list[list[dict[str, Any]]]:
    found = []
    for dead in dead_journals(str(directory)):
        left = dead.left()
        assert left is not None
        assert left.header == HEADER
        found.append(left.notes)
    return found


def _abandon(live: Journal) -> None:
    os.close(live._fd)


def test_what_the_ledger_did_not_answer_is_left(tmp_path: Path) -> None:
    live = Journal(str(tmp_path), HEADER)
    for note in _notes(5):
        live.note(note)
    live.answered(2)
    _abandon(live)
    assert _left(tmp_path) == [_notes(3, first=2)]


def test_the_journal_of_a_live_mount_is_left_alone(tmp_path: Path) -> None:
    live = Journal(str(tmp_path), HEADER)
    live.note({"path": "f", "token": 7})
    assert _left(tmp_path) == []
    _abandon(live)
    assert _left(tmp_path) == [[{"path": "f", "token": 7}]]


def test_an_answered_journal_is_removed_at_its_end(tmp_path: Path) -> None:
    live = Journal(str(tmp_path), HEADER)
    live.answered(live.note({"path": "f", "token": 7}))
    live.close()
    assert os.listdir(tmp_path) == []


def test_what_is_answered_is_cut_off_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_CUT_FROM_BYTES", 4096)
    live = Journal(str(tmp_path), HEADER)
    for at in range(2000):
        live.note({"path": f"f{at}", "token": at % 3})
        live.answered(at)  # all but the last
    _abandon(live)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 8192
    assert _left(tmp_path) == [[{"path": "f1999", "token": 1}]]
    (dead,) = [journal.left() for journal in dead_journals(str(tmp_path))]
    assert dead is not None
    assert dead.tokens == {0, 1, 2}


@given(cut=st.integers(1, 60))
def test_a_line_cut_short_is_no_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    directory = tmp_path_factory.mktemp("journals")
    live = Journal(str(directory), HEADER)
    for note in _notes(3):
        live.note(note)
    _abandon(live)
    (path,) = directory.iterdir()
    last = len(path.read_bytes().splitlines(keepends=True)[-1])
    os.truncate(path, path.stat().st_size - cut)
    (notes,) = _left(directory)
    assert notes == _notes(3)[: len(notes)]
    assert len(notes) == 2 if cut <= last else len(notes) < 2


def test_a_full_disk_refuses_the_change_and_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Journal(str(tmp_path), HEADER)
    live.note({"path": "before", "token": 7})
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, raw: write(fd, raw[:7]))
        with pytest.raises(OSError, match="No space left"):
            live.note({"path": "refused", "token": 7})
    live.note({"path": "after", "token": 7})
    _abandon(live)
    assert _left(tmp_path) == [[{"path": "before", "token": 7}, {"path": "after", "token": 7}]]


_TEXT = st.text(st.characters(exclude_categories=())) | st.text('a"\\\n\udcff\u2028/')


@given(
    st.integers(0),
    st.fixed_dictionaries(
        dict.fromkeys(("path", "kind", "other", "lease"), _TEXT)
        | {"token": st.integers(0), "pid": st.integers(0), "program": _TEXT}
        | {"wall_s": st.floats(allow_nan=False, allow_infinity=False)},
        optional=dict.fromkeys(("agent", "harness"), _TEXT),
    ),
)
def test_the_line_of_a_note_is_json_as_any_other(number: int, note: dict[str, Any]) -> None:
    line = to_note_line(number, note)
    assert json.loads(line) == {"n": number, **note}
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1


def test_names_that_are_not_utf_8_come_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9\n")
    live = Journal(str(tmp_path), HEADER)
    live.note({"path": name, "token": 7})
    _abandon(live)
    assert _left(tmp_path) == [[{"path": name, "token": 7}]]


@pytest.mark.parametrize("content", [b"", b"no json\n", b"[]\n", b'{"journal":1}\n', b'{"n":1}\n'])
def test_what_is_no_journal_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.journal").write_bytes(content)
    assert [dead.left() for dead in dead_journals(str(tmp_path))] == [None]


def test_leases_of_dead_mounts_that_are_looked_after_are_left_with_the_rest(tmp_path: Path) -> None:
    live = Journal(str(tmp_path), HEADER)
    for token in (9, 9, 10):
        live.look_after(token)
    _abandon(live)
    (left,) = [journal.left() for journal in dead_journals(str(tmp_path))]
    assert left is not None
    assert (left.notes, left.tokens) == ([], frozenset({9, 10}))


def test_two_mounts_that_recover_the_same_journal_both_come_to_an_end(tmp_path: Path) -> None:
    _abandon(Journal(str(tmp_path), HEADER))
    (one,) = list(dead_journals(str(tmp_path)))
    (other,) = list(dead_journals(str(tmp_path)))
    one.remove()
    other.remove()
    assert os.listdir(tmp_path) == []


def test_a_journal_that_cannot_be_cut_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_CUT_FROM_BYTES", 1)
    live = Journal(str(tmp_path), HEADER)
    for note in _notes(5):
        live.note(note)
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, raw: write(fd, raw[:100]))
        with pytest.raises(OSError, match="No space left"):
            live.answered(2)
    live.note({"path": "after", "token": 7})
    _abandon(live)
    assert len(os.listdir(tmp_path)) == 1
    assert _left(tmp_path) == [[*_notes(5), {"path": "after", "token": 7}]]


def test_a_journal_full_of_what_the_ledger_has_not_answered_is_not_written_anew_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_CUT_FROM_BYTES", 4096)
    cuts = 0
    begin = journal._begin

    def counted(*arguments: Any) -> int:
        nonlocal cuts
        cuts += 1
        return begin(*arguments)

    live = Journal(str(tmp_path), HEADER)
    monkeypatch.setattr(journal, "_begin", counted)
    for note in _notes(2000):
        live.note(note)
    for number in range(1, 1000):
        live.answered(number)
    assert 1 <= cuts < 4
    _abandon(live)
    assert _left(tmp_path) == [_notes(1001, first=999)]


def test_what_was_killed_while_it_began_leaves_nothing(tmp_path: Path) -> None:
    live = Journal(str(tmp_path), HEADER)
    (tmp_path / "s-0.journal.new").write_bytes(b'{"journal":1}\n')
    assert _left(tmp_path) == []
    remove_drafts(str(tmp_path))
    assert os.listdir(tmp_path) == ["s-1.journal"]
    live.close()


@pytest.mark.parametrize("answered", [0, 3, 5])
def test_what_another_mount_has_not_told_can_be_read_while_it_lives(
    tmp_path: Path, answered: int
) -> None:
    live = Journal(str(tmp_path), HEADER)
    for note in _notes(4):
        live.note(note)
    live.look_after(11)
    if answered:
        live.answered(min(answered, 4))
    live.note({"path": "last", "token": 8})
    if answered == 5:
        live.answered(5)
    (tmp_path / "s-2.journal").write_bytes(b"torn")
    found = untold_of_others(str(tmp_path), "s-3")
    expected = [*_notes(4), {"path": "last", "token": 8}][answered:]
    assert [left.notes for left in found] == ([expected] if expected else [])
    assert all(left.header == HEADER and 11 not in left.tokens for left in found)
    assert untold_of_others(str(tmp_path), HEADER.session) == []
    os.close(live._fd)


_WRITER = """
import sys
from leasefs.mount.journal import Header, Journal
live = Journal(sys.argv[1], Header(*sys.argv[2:]))
at = 0
while True:
    live.note({"path": f"f{at}", "token": 7})
    sys.stdout.write(f"{at}\\n")
    sys.stdout.flush()
    at += 1
"""


def test_kill_9_loses_no_note_that_was_made(tmp_path: Path) -> None:
    for at in range(3):
        directory = tmp_path / str(at)
        directory.mkdir()
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(directory), *HEADER], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            for _ in range(50 * (at + 1)):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            said = writer.stdout.read().count(b"\n") + 50 * (at + 1)
        (notes,) = _left(directory)
        assert notes[:said] == _notes(said)
        assert len(notes) <= said + 1


DAMAGED = [
    b'{"answered":"zz"}',
    b'{"answered":null}',
    b'{"answered":1e999}',
    b'{"tokens":7}',
    b'{"tokens":[[]]}',
    b'{"n":"x","path":"f","token":7}',
    b'{"n":99,"path":5,"token":7}',
    b'{"n":99,"path":"f"}',
    b'{"n":99,"path":"f","token":true}',
    b'{"n":99,"path":"../f","token":7}',
    b'{"n":99,"path":"","token":7}',
    b'{"n":99,"path":"f","token":7,"other":{}}',
    b'{"n":99,"path":"f","token":7,"wall_s":NaN}',
    b'{"n":99,"path":"\\ud800","token":7}',
    b"[" * 100_000,
    b"\0\xff",
    b"null",
]


@pytest.mark.parametrize("line", DAMAGED, ids=lambda line: line[:40].decode(errors="replace"))
def test_a_line_that_has_rotted_does_not_hold_up_the_others(tmp_path: Path, line: bytes) -> None:
    live = Journal(str(tmp_path), HEADER)
    (before, after) = _notes(2)
    live.note(before)
    os.write(live._fd, line + b"\n")
    live.note(after)
    _abandon(live)
    assert _left(tmp_path) == [[before, after]]
    (untold,) = untold_of_others(str(tmp_path), "another")
    assert untold.notes == [before, after]


def test_what_is_no_file_is_no_journal(tmp_path: Path) -> None:
    """Nobody waits for a FIFO's other end, and no link is followed."""
    (tmp_path / "directory.journal").mkdir()
    os.mkfifo(tmp_path / "fifo.journal")
    os.mkfifo(tmp_path / "fifo.journal.new")
    (tmp_path / "link.journal").symlink_to("/etc/passwd")
    live = Journal(str(tmp_path), HEADER)
    live.note(*_notes(1))
    _abandon(live)
    remove_drafts(str(tmp_path))
    assert len(untold_of_others(str(tmp_path), "another")) == 1
    assert _left(tmp_path) == [_notes(1)]
