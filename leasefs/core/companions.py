"""The files that tools create for a moment beside the file they save.

An atomic save never writes the target: it creates a neighbour, then renames it over. A lease on the
target alone must be enough for that (design: a companion file of an atomic save). Each rule names
the tool that needs it. Names say nothing of what is there: the policy adds that companions are never
directories.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from leasefs.core.globs import Glob, escape, parse_glob
from leasefs.core.overlap import overlap

if TYPE_CHECKING:
    from leasefs.core.held import HeldLease, HeldView

# `base` is the name of the file that is being saved.
_WITH_BASE: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rb"(?P<base>.+)~",  # vim, emacs, patch -b: backup
        rb"\.(?P<base>.+)\.sw[a-z]",  # vim: swap file
        rb"\.#(?P<base>.+)",  # emacs: lock link
        rb"#(?P<base>.+)#",  # emacs: auto-save
        rb"(?P<base>.+)\.(?:tmp|temp|new|bak|orig|rej|lock|swp|part|partial)",  # many
        rb"(?P<base>.+)\.(?:tmp|temp)[.-][0-9A-Za-z.-]{1,64}",  # Node's write-file-atomic kind
        rb"(?P<base>.+)\.[0-9]{1,20}(?:\.tmp)?",  # pid suffix
        rb"(?P<base>.+)\.[0-9a-f]{6,40}\.tmp",  # random suffix
        rb"\.(?P<base>.+)\.[0-9A-Za-z_-]{4,16}(?:\.tmp)?",  # rsync, install, rename-save
        # mkstemp after the name (KDE). A suffix in small letters alone is a word (Makefile.common), and
        # one random suffix in sixty is like that: such a save is refused rather than such a file made.
        rb"(?P<base>.+)\.(?=[a-z]*[0-9A-Z])[0-9A-Za-z]{6}",
        rb"(?P<base>.+)___jb_(?:tmp|old|bak)___",  # JetBrains
        rb"\.~(?P<base>.+)",  # office and web editors
    )
)
# No base in the name: allowed where a lease could match a file of that directory.
_WITHOUT_BASE: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        rb"4913|5036|5159|5282",  # vim: can a file be created here (4913, then steps of 123)
        rb"sed[0-9A-Za-z]{6}",  # sed -i
        rb"\.goutputstream-[0-9A-Z]{6}",  # GLib
        rb"\.tmp[0-9A-Za-z_]{4,16}",  # black, ruff, Go's renameio
        rb"tmp[0-9a-z_]{8}",  # Python's tempfile
        rb"p[a-z][0-9A-Za-z]{6}",  # patch
    )
)


def companion_of(path: bytes, view: HeldView, now_s: float) -> HeldLease | None:
    """The trusted lease whose saved file `path` would be a companion of, or None."""
    directory, slash, name = path.rpartition(b"/")
    prefix = directory + slash
    for pattern in _WITH_BASE:
        match = pattern.fullmatch(name)
        if match:
            lease = view.writable(prefix + match["base"], now_s)
            if lease is not None:
                return lease
    if any(pattern.fullmatch(name) for pattern in _WITHOUT_BASE):
        return _lease_with_files_in(directory, view, now_s)
    return None


def _lease_with_files_in(directory: bytes, view: HeldView, now_s: float) -> HeldLease | None:
    beside = _files_in(directory)
    for lease in view.trusted(now_s):
        if any(overlap(glob, beside) is not None for glob in lease.globs):
            return lease
    return None


@lru_cache(maxsize=4096)
def _files_in(directory: bytes) -> Glob:
    return parse_glob(escape(directory) + "/*" if directory else "*")
