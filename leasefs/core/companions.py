"""The files that tools create for a moment beside the file they save.

An atomic save never writes the target: it creates a neighbour, then renames it over. A lease on the
target alone must be enough for that (design: a companion file of an atomic save). Each rule names
the tool that needs it. Names say nothing of what is there: the policy adds that companions are never
directories.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.core.held import HeldLease, HeldView

# What mkstemp(3) puts for XXXXXX. In small letters alone it would be a word (Makefile.common), and one in two
# hundred is like that: such a save is refused rather than such a file made.
_MKSTEMP = rb"(?=[a-z]*[0-9A-Z])[0-9A-Za-z]{6}"
_TMP = rb"\.(?:tmp|temp)(?:[._-][0-9A-Za-z._-]{1,64}|[0-9]{1,10})?"

# `base` is the name of the file that is being saved.
_WITH_BASE: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rb"(?P<base>.+)~",  # vim, emacs, patch -b: backup
        rb"(?P<base>.+)\.~[0-9]{1,6}~",  # emacs, cp --backup, patch -V: numbered backup
        rb"\.(?P<base>.+)\.(?:sw[a-z]|un~)",  # vim: swap file, undo file
        rb"(?P<base>\..+)\.(?:sw[a-z]|un~)",  # vim: no second dot for .bashrc
        rb"\.#(?P<base>.+)",  # emacs, joe, mcedit: lock link
        rb"#(?P<base>.+)#",  # emacs: auto-save
        rb"(?P<base>.+)\.(?:tmp|temp|new|bak|orig|rej|lock|swp|part|partial)",  # many
        rb"(?P<base>.+)\.(?:vsctmp|isorted)",  # VS Code's atomic write, isort
        # Node's and Go's writers, coding agents: name.tmp.PID.TIME, .name.tmp-RANDOM, .name.tmp
        rb"(?P<base>.+)" + _TMP,
        rb"\.(?P<base>.+)" + _TMP,
        rb"(?P<base>.+)\.[0-9]{2,20}(?:\.tmp)?",  # a pid (foo.1 is a manual page), write-file-atomic's hash, gofmt's backup
        rb"(?P<base>.+)\.[0-9A-Za-z_-]{4,40}\.tmp",  # a random infix, a UUID among them
        rb"\.(?P<base>.+)\.[0-9A-Za-z_-]{4,40}\.tmp",
        rb"\.(?P<base>.+)\.[0-9A-Za-z_-]{4,16}",  # rsync, install, Kate's swap file
        rb"(?P<base>.+)\." + _MKSTEMP,  # KDE, GLib's g_file_set_contents
        rb"(?P<base>.+)\.X{1,6}[0-9A-Za-z]{6}",  # mg: mkstemp("name.XXXXXXXXXX") replaces six
        rb"(?P<base>.+)\.[or]" + _MKSTEMP,  # patch: output, rejects
        rb"(?P<base>.+\.[0-9A-Za-z]+)\.[or][0-9A-Za-z]{6}",  # no word comes after f.py.
        rb"\.(?P<base>.+)\.kak\.[0-9A-Za-z]{6}",  # kakoune
        rb"(?P<base>.+)[0-9A-Za-z]{6}\.bck",  # helix
        rb"(?P<base>.+\.[A-Za-z]{1,5})" + _MKSTEMP,  # cargo: Cargo.tomlAb12Cd
        rb"(?P<base>.+\.[A-Za-z]{1,5})[0-9]{9,10}",  # os.CreateTemp(dir, name) in Go
        # LLVM's tools, clang-format among them. Digits alone would be a date.
        rb"(?P<base>.+\.[0-9A-Za-z]+)-(?=[0-9]*[a-f])[0-9a-f]{8}(?:\.tmp)?",
        rb"(?P<base>.+)___jb_(?:tmp|old|bak)___",  # JetBrains
        rb"\.~lock\.(?P<base>.+)#",  # LibreOffice
        rb"\.~(?P<base>.+)",  # web editors
        rb"(?P<base>.+)-(?:journal|wal|shm)",  # SQLite
    )
)
# Go's renameio, shfmt: a random number straight after the name, which may itself end in digits.
_NUMBERED = re.compile(rb"\..+?(?P<digits>[0-9]{7,40})", re.DOTALL)
_FEWEST_DIGITS, _MOST_DIGITS = 7, 20

# No base in the name: allowed where a lease could match a file of that directory.
_WITHOUT_BASE: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        rb"4913|5036|5159|5282",  # vim: can a file be created here (4913, then steps of 123)
        rb"sed[0-9A-Za-z]{6}",  # sed -i
        rb"XX[0-9A-Za-z]{6}",  # perl -i: mkstemp("XXXXXXXX") replaces six
        rb"Cu[0-9A-Za-z]{6}",  # ln -f
        rb"\.goutputstream-[0-9A-Z]{6}",  # GLib
        rb"\.tmp[0-9A-Za-z_]{4,16}",  # Rust's tempfile: zed, sd, uv
        rb"tmp[0-9a-z_]{8}",  # Python's tempfile
        rb"tmp\.[0-9A-Za-z]{10}",  # mktemp(1)
        rb"tmp" + _MKSTEMP,  # emacs with file-precious-flag
        rb"cooledit" + _MKSTEMP,  # mcedit's safe save
        rb"d2utmp" + _MKSTEMP,  # dos2unix
        rb"lu[0-9a-z]{5,16}\.tmp",  # LibreOffice
        rb"\.subl[0-9a-f]{1,4}\.tmp",  # Sublime Text
        rb"\.[0-9]{1,10}\.[0-9]{1,10}",  # fast-write-atomic in Node: .PID.COUNT
    )
)

# cargo makes the directory for what it builds under a name of tempfile's, marks it, and renames it.
MADE_LONGER = 6
IN_THE_MAKING = b"target"  # in every path of which `target_in_the_making` says something
_MAKING = re.compile(rb"((?:.*/)?" + IN_THE_MAKING + rb")" + _MKSTEMP + rb"(?:/.*)?", re.DOTALL)


def target_in_the_making(path: bytes) -> bytes | None:
    """The path of cargo's target directory of which `path`, or a directory above it, is to become one."""
    if IN_THE_MAKING not in path:
        return None
    match = _MAKING.fullmatch(path)
    return match[1] if match else None


def companion_of(path: bytes, view: HeldView, now_s: float) -> HeldLease | None:
    """The trusted lease whose saved file `path` would be a companion of, or None."""
    directory, slash, name = path.rpartition(b"/")
    prefix = directory + slash
    for base in bases_of(name):
        lease = view.writable(prefix + base, now_s)
        if lease is not None:
            return lease
    if has_no_base(name):
        return view.writes_in(directory, now_s)
    return None


def has_no_base(name: bytes) -> bool:
    """Whether a companion of any file of its directory may be called like this."""
    return any(pattern.fullmatch(name) for pattern in _WITHOUT_BASE)


def bases_of(name: bytes) -> Iterator[bytes]:
    """The files that something of this name may be a companion of."""
    for pattern in _WITH_BASE:
        match = pattern.fullmatch(name)
        if match:
            yield match["base"]
    match = _NUMBERED.fullmatch(name)
    if match:
        longest = min(len(match["digits"]), _MOST_DIGITS)
        for digits in range(_FEWEST_DIGITS, longest + 1):
            yield name[1:-digits]
