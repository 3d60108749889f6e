"""Which names are companions of a leased file, by the tool that makes them."""

from __future__ import annotations

import pytest

from leasefs.core.companions import companion_of, target_in_the_making
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
        b"f.py___jb_old___",
        b".~f.py",
        b"f.py.~1~",  # emacs, cp --backup=numbered
        b".f.py.un~",  # vim's undo file
        b"f.py.vsctmp",
        b"f.py.isorted",
        b"f.py.tmp.4711.1790000000000",  # agents
        b"f.py.tmp123456789",
        b".f.py.tmp",
        b".f.py.tmp.4711.1790000000000",
        b".f.py.tmp-a1b2",
        b".f.py.tmp123456789",
        b"f.py.c56a4180-65aa-42ec-a945-5fd21dec0538.tmp",
        b".f.py.c56a4180-65aa-42ec-a945-5fd21dec0538.tmp",
        b".f.py.kate-swp",
        b"f.py.oakDdrE",  # patch
        b"f.py.oecvjbg",
        b"f.py.XXXXHVEYKM",  # mg
        b".f.py.kak.aB3dEf",
        b"f.pyaB3dEf.bck",  # helix
        b"f.pyaB3dEf",  # cargo
        b"f.py1148348792",  # os.CreateTemp
        b"f.py.1148348792",  # gofmt
        b".f.py857501825",  # renameio
        b".f.py5952445053568868224",
        b"f.py-9a51ff2a",  # clang-format
        b"f.py-9a51ff2a.tmp",
        b".~lock.f.py#",
        b"f.py-journal",
        b"f.py-wal",
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
        b"tmpAb12Cd",
        b"tmp.Ab12Cd34Ef",
        b"XXgy0psJ",
        b"Cuw65W5k",
        b"cooleditaB3dEf",
        b"d2utmpYAzgWn",
        b"lu12345ab.tmp",
        b".subl7f.tmp",
        b".13048.0",
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
        b"packages",
        b"poAb12Cd",
        b"f.py.1",
        b"f.pyi",
        b"f.pyconfig",
        b"f.py20261130",
        b"f.py-20261130",
        b".f.py12",
        b"tmpfiles",
        b"XXL",
        b"target",
    ],
)
def test_an_ordinary_name_is_no_companion(name: bytes) -> None:
    assert not companion_of(b"src/" + name, view("src/other.py", "src/f.py/x"), NOW_S)


@pytest.mark.parametrize(
    "name",
    [b"f.py.1", b"f.pyi", b"f.pyconfig", b"f.py20261130", b"f.py-20261130", b".f.py12"],
)
def test_a_file_named_after_the_leased_one_is_none(name: bytes) -> None:
    """A manual page, a stub, a dated copy: what somebody may keep."""
    assert not companion_of(b"src/" + name, view("src/f.py"), NOW_S)


def test_a_word_as_suffix_is_a_file_of_its_own() -> None:
    """Makefile.common is not a temporary file of Makefile."""
    assert not companion_of(b"Makefile.common", view("Makefile"), NOW_S)
    assert companion_of(b"Makefile.c0mmon", view("Makefile"), NOW_S)
    assert not companion_of(b"Makefile.options", view("Makefile"), NOW_S)
    assert not companion_of(b"READMEBACKUP", view("README"), NOW_S)


def test_a_leased_name_that_begins_with_a_dot_or_ends_in_digits() -> None:
    for name in (b".bashrc.swp", b".bashrc.un~", b".bashrc.tmp.1.2", b"..bashrc.tmp"):
        assert companion_of(name, view(".bashrc"), NOW_S), name
    assert companion_of(b".v21148348792", view("v2"), NOW_S)
    assert companion_of(b".v21148348792", view("v21"), NOW_S)
    assert not companion_of(b".v21148", view("v"), NOW_S)


def test_cargos_target_directory_in_the_making() -> None:
    assert target_in_the_making(b"targetWzvZFn") == b"target"
    assert target_in_the_making(b"rs/targetWzvZFn/CACHEDIR.TAG") == b"rs/target"
    for path in (
        b"target",
        b"targets",
        b"targetsystem",
        b"rs/targetWzvZFn1",
        b"my-target/x",
        b"src/f",
    ):
        assert target_in_the_making(path) is None, path


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
