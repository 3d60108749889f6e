"""Ways to reach a file that is not leased by another name, or to give one that is leased another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from leasefs.testing.bypass_scene import Scene

pytestmark = [pytest.mark.mount, pytest.mark.root]

WRITE = "os.open(given[0], os.O_WRONLY)"
MAKE = "os.open(given[0], os.O_WRONLY | os.O_CREAT, 0o644)"
RENAMEAT2 = (
    "checked(libc.renameat2(-100, given[0].encode(), -100, given[1].encode(), int(given[2])))"
)
NOREPLACE, EXCHANGE, WHITEOUT = "1", "2", "4"


@pytest.mark.parametrize(
    "name",
    [
        "mine/../theirs/f",
        "theirs//f",
        "./theirs/./f",
        "mine/d/../../theirs/d/f",
        "/proc/self/cwd/theirs/f",
        "/proc/self/root{root}/theirs/f",
        "/proc/thread-self/cwd/theirs/f",
    ],
)
def test_another_spelling_of_the_path(scene: Scene, name: str) -> None:
    assert scene.intruder.attempt(WRITE, name.format(root=scene.root)).how == "EACCES"


def test_a_trailing_slash(scene: Scene) -> None:
    assert scene.intruder.attempt(WRITE, "theirs/f/").how in {"ENOTDIR", "EISDIR", "EACCES"}
    assert scene.intruder.attempt("os.mkdir('theirs/new/')").how == "EACCES"


@pytest.mark.parametrize(
    "name", ["Mine/f", "MINE/new", "mine\u0301/f", "m\u0456ne/f", "mine /f", "mine\n/f"]
)
def test_a_name_that_looks_leased(scene: Scene, name: str) -> None:
    """Other case, a combining mark, a letter that looks alike, spaces and newlines: other bytes, other paths."""
    code = "os.makedirs(os.path.dirname(given[0]))"
    assert scene.intruder.attempt(code, name).how == "EACCES"


def test_a_newline_and_a_second_path_in_a_name(scene: Scene) -> None:
    assert scene.intruder.attempt(MAKE, "theirs\nmine").how == "EACCES"
    assert scene.intruder.attempt(MAKE, "theirs/x\nmine").how == "EACCES"


def test_two_unicode_forms_of_a_leased_name(scene: Scene) -> None:
    scene.hold({"token": 2, "globs": ["mine/caf\u00e9"]})
    assert scene.intruder.attempt(MAKE, "mine/caf\u00e9").how == "done"
    assert scene.intruder.attempt(MAKE, "mine/cafe\u0301").how == "EACCES"
    scene.hold({"token": 3, "globs": ["mine/**"]})
    scene.intruder.attempt("os.unlink(given[0])", "mine/caf\u00e9")


def test_a_symlink_out_of_leased_ground(scene: Scene) -> None:
    code = """
os.symlink("../theirs/f", "mine/link")
said = [refused(lambda: os.open("mine/link", os.O_WRONLY)), refused(lambda: os.truncate("mine/link", 0))]
os.unlink("mine/link")
"""
    assert scene.intruder.attempt(code) == ("done", ["EACCES", "EACCES"])


def test_a_symlink_that_is_swapped_while_it_is_followed(scene: Scene) -> None:
    code = """
os.mkdir("mine/swap"); open("mine/swap/f", "w").close()
os.symlink("swap", "mine/to"); os.symlink("../theirs", "mine/other")
over, opened = threading.Event(), []
def swap():
    while not over.is_set():
        checked(libc.renameat2(-100, b"mine/to", -100, b"mine/other", 2))
thread = threading.Thread(target=swap); thread.start()
for _ in range(400):
    for name in ("mine/to/f", "mine/other/f"):
        try:
            fd = os.open(name, os.O_WRONLY | os.O_TRUNC)
        except OSError as error:
            assert error.errno in (errno.EACCES, errno.ENOENT, errno.ESTALE), error
        else:
            os.write(fd, b"swapped"); os.close(fd); opened.append(1)
over.set(); thread.join()
said = len(opened)
for name in ("mine/to", "mine/other", "mine/swap/f"): os.unlink(name)
os.rmdir("mine/swap")
"""
    how, opened = scene.intruder.attempt(code)
    assert (how, opened > 0) == ("done", True)


def test_a_directory_that_is_swapped_while_it_is_written_in(scene: Scene) -> None:
    """By names of its own only: a directory in leased ground cannot change places with one outside."""
    assert scene.intruder.attempt(RENAMEAT2, "mine/d", "theirs/d", EXCHANGE).how == "EACCES"


def test_a_hard_link_out_of_unleased_ground(scene: Scene) -> None:
    assert scene.intruder.attempt("os.link('theirs/f', 'mine/alias')").how == "EACCES"


def test_a_hard_link_into_unleased_ground(scene: Scene) -> None:
    assert scene.intruder.attempt("os.link('mine/f', 'theirs/alias')").how == "EACCES"


def test_a_hard_link_made_before_the_mount(scene: Scene) -> None:
    (scene.source / "mine/alias").hardlink_to(scene.source / "theirs/f")
    # Here it is made beneath one that is up, which is told of it some tens of milliseconds later.
    eventually((scene.root / "mine/alias").exists)
    try:
        assert scene.intruder.attempt(WRITE, "mine/alias").how == "EACCES"
    finally:
        (scene.source / "mine/alias").unlink()


def test_a_hard_link_by_a_descriptor(scene: Scene) -> None:
    """linkat(2) with AT_EMPTY_PATH, or by /proc: the file itself, whatever it was opened as."""
    code = """
fd = os.open("theirs/f", os.O_RDONLY)
said = [refused(lambda: checked(libc.linkat(fd, b"", -100, b"mine/alias", 0x1000))),
        refused(lambda: checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"mine/alias", 0x400)))]
"""
    first, second = scene.intruder.attempt(code).said
    assert first in {"EACCES", "ENOENT"}  # ENOENT: not without CAP_DAC_READ_SEARCH
    assert second == "EACCES"


@pytest.mark.parametrize(
    ("old", "new", "flags"),
    [
        ("mine/f", "theirs/f", "0"),
        ("mine/f", "theirs/new", "0"),
        ("mine/f", "theirs/new", NOREPLACE),
        ("mine/f", "theirs/f", EXCHANGE),
        ("theirs/f", "mine/f", "0"),
        ("theirs/f", "theirs/g", "0"),
        ("theirs/d", "mine/d2", "0"),
        ("mine/d", "theirs/d2", "0"),
        ("mine/f", "theirs/f", WHITEOUT),
    ],
)
def test_rename(scene: Scene, old: str, new: str, flags: str) -> None:
    assert scene.intruder.attempt(RENAMEAT2, old, new, flags).how in {"EACCES", "EINVAL"}


def test_rename_what_is_around_it(scene: Scene) -> None:
    """A directory that holds leased and other paths stays where it is."""
    assert scene.intruder.attempt(RENAMEAT2, "one", "two", "0").how == "EACCES"
    assert scene.intruder.attempt(RENAMEAT2, "theirs", "mine/theirs", "0").how == "EACCES"


@pytest.mark.parametrize(
    "code",
    [
        "os.unlink('theirs/f')",
        "os.rmdir('theirs/d')",
        "os.mkdir('theirs/new')",
        "os.mkfifo('theirs/new')",
        "os.symlink('x', 'theirs/new')",
        "socket.socket(socket.AF_UNIX).bind('theirs/new')",
        "os.mknod('theirs/new', 0o100644)",
    ],
)
def test_make_or_remove_names(scene: Scene, code: str) -> None:
    assert scene.intruder.attempt(code).how == "EACCES"


@pytest.mark.parametrize(
    "name", ["theirs/.f.swp", "theirs/f~", "theirs/sedAbCdEf", "theirs/.goutputstream-ABCDEF"]
)
def test_a_companion_of_what_is_not_leased(scene: Scene, name: str) -> None:
    assert scene.intruder.attempt(MAKE, name).how == "EACCES"


def test_a_companion_that_is_moved_onto_another_file(scene: Scene) -> None:
    code = """
os.close(os.open("one/f~", os.O_WRONLY | os.O_CREAT, 0o644))
said = [refused(lambda: os.rename("one/f~", "one/g")), refused(lambda: os.rename("one/f~", "theirs/new"))]
os.unlink("one/f~")
"""
    assert scene.intruder.attempt(code) == ("done", ["EACCES", "EACCES"])


def test_a_companion_that_is_another_file(scene: Scene) -> None:
    """A hard link of, or a directory with, the name of a companion."""
    assert scene.intruder.attempt("os.link('one/g', 'one/f~')").how == "EACCES"
    assert scene.intruder.attempt("os.mkdir('one/f~')").how == "EACCES"


def test_a_file_that_has_a_companions_name(scene: Scene) -> None:
    (scene.source / "one/f.orig").write_text("another's\n")
    try:
        assert scene.intruder.attempt(WRITE, "one/f.orig").how == "EACCES"
        assert scene.intruder.attempt(RENAMEAT2, "one/f", "one/f.orig", "0").how == "EACCES"
    finally:
        (scene.source / "one/f.orig").unlink()


@pytest.mark.parametrize("name", ["mount.json", "leases", "new", "../.leasefs/leases"])
def test_the_mounts_own_files(scene: Scene, name: str) -> None:
    assert scene.intruder.attempt(MAKE, f".leasefs/{name}").how in {"EROFS", "EACCES", "EPERM"}


def test_a_directory_where_the_mounts_own_is(scene: Scene) -> None:
    assert scene.intruder.attempt("os.rename('mine/d', '.leasefs')").how in {"EROFS", "EACCES"}
    assert scene.intruder.attempt("os.rename('.leasefs', 'mine/d2')").how in {"EROFS", "EACCES"}
    assert scene.intruder.attempt("os.rmdir('.leasefs')").how in {"EROFS", "EACCES"}
