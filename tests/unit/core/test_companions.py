"""Which names are companions of a leased file, by the tool that makes them."""

from __future__ import annotations

import pytest

from leasefs.core.companions import companion_of
from leasefs.core.globs import parse_glob
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode

NOW_S = 100.0


def view(*globs: str, mode: Mode = Mode.EXCLUSIVE, until_s: float = 200.0) -> HeldView:
    parsed = tuple(parse_glob(glob) for glob in globs)
    return HeldView([HeldLease("l", 1, parsed, mode, 60.0, until_s)])


@pytest.mark.parametrize(
    "name",
    [
        b"f.py~",  # vim, emacs
        b".f.py.swp",
        b".f.py.swo",
        b".f.py.swx",
        b".#f.py",  # emacs lock
        b"#f.py#",  # emacs auto-save
        b"f.py.tmp",
        b"f.py.new",
        b"f.py.bak",
        b"f.py.orig",
        b"f.py.rej",
        b"f.py.lock",
        b"f.py.part",
        b"f.py.tmp.4711",
        b"f.py.tmp-4711-a1b2",
        b"f.py.4711",
        b"f.py.4711.tmp",
        b"f.py.0a1b2c3d.tmp",
        b".f.py.Xa12Bc",  # rsync
        b".f.py.Xa12",
        b"f.py.Xa12Bc",  # KDE
        b"f.py___jb_tmp___",
        b".~f.py",
    ],
)
def test_a_name_made_from_the_leased_one(name: bytes) -> None:
    assert companion_of(b"src/" + name, view("src/f.py"), NOW_S)
    assert not companion_of(b"src/" + name, view("src/g.py"), NOW_S)
    assert not companion_of(b"doc/" + name, view("src/f.py"), NOW_S)
    assert not companion_of(b"src/sub/" + name, view("src/f.py"), NOW_S)


@pytest.mark.parametrize(
    "name",
    [
        b"4913",
        b"5036",
        b"sedAb12Cd",
        b".goutputstream-AB12CD",
        b".tmpAb12Cd",
        b"tmpab12cd_3",
        b"poAb12Cd",
    ],
)
def test_a_name_that_says_nothing_is_allowed_where_a_lease_has_files(name: bytes) -> None:
    assert companion_of(b"src/" + name, view("src/f.py"), NOW_S)
    assert companion_of(b"src/" + name, view("src/*.py"), NOW_S)
    assert companion_of(name, view("f.py"), NOW_S)
    assert not companion_of(b"src/" + name, view("src/sub/f.py"), NOW_S)
    assert not companion_of(b"src/" + name, view("doc/**"), NOW_S)


@pytest.mark.parametrize(
    "name",
    [
        b"f.py",
        b"g.py",
        b"f.py.config",
        b"f.py.txt",
        b"tmp",
        b"4914",
        b"sedan",
        b"xf.py~~x",
        b"~",
        b".swp",
    ],
)
def test_an_ordinary_name_is_no_companion(name: bytes) -> None:
    assert not companion_of(b"src/" + name, view("src/other.py", "src/f.py/x"), NOW_S)


def test_a_word_as_suffix_is_a_file_of_its_own() -> None:
    """Makefile.common is not a temporary file of Makefile."""
    assert not companion_of(b"Makefile.common", view("Makefile"), NOW_S)
    assert companion_of(b"Makefile.c0mmon", view("Makefile"), NOW_S)


def test_a_companion_of_a_companion_is_none() -> None:
    assert not companion_of(b"src/.f.py.swp~", view("src/f.py"), NOW_S)


def test_only_trusted_exclusive_leases_have_companions() -> None:
    assert not companion_of(b"f~", view("f", mode=Mode.SHARED), NOW_S)
    assert not companion_of(b"f~", view("f", until_s=NOW_S), NOW_S)
    assert not companion_of(b"4913", view("f", mode=Mode.SHARED), NOW_S)
    assert not companion_of(b"4913", view("f", until_s=NOW_S), NOW_S)


def test_directories_with_glob_characters() -> None:
    assert companion_of(b"app/[id]/4913", view(r"app/\[id\]/page.tsx"), NOW_S)
    assert not companion_of(b"app/i/4913", view(r"app/\[id\]/page.tsx"), NOW_S)


def test_bytes_that_are_no_text() -> None:
    assert companion_of(
        b"\xff\n~",
        HeldView([HeldLease("l", 1, (parse_glob(b"\xff\n"),), Mode.EXCLUSIVE, 60.0, 200.0)]),
        NOW_S,
    )
