r"""Git's wildmatch, said as a regular expression without backtracking.

pathspec's own gitignore translation differs from git in brackets (escapes, `[:classes:]`, `/`), in trailing blanks and
in a lone final backslash, and needs a backtracking matcher. These expressions use only what RE2 runs in linear time, and
follow git's wildmatch.c and dir.c to the letter. Names are bytes; each byte is the character of the same number
(latin-1), so that `?` is one byte as it is for git. A directory is matched as its name followed by NUL, a byte no name
has; that is how an expression for `build/` tells a directory from a file.
"""

from __future__ import annotations

import string

_SEGMENT = r"[\x01-.0-\x{ff}]"  # any byte of a name
_ANY = r"[\x01-\x{ff}]"
_SPECIAL = b"*?[\\"
_PLAIN = frozenset((string.ascii_letters + string.digits).encode())

# git's own character classes (ctype.c), not the C library's: only four blanks are `space`
_PRINT = frozenset(range(0x20, 0x7F))
_CLASSES: dict[bytes, frozenset[int]] = {
    b"alnum": _PLAIN,
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset([*range(0x20), 0x7F]),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINT - {0x20},
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINT,
    b"punct": frozenset(string.punctuation.encode()),
    b"space": frozenset(b" \t\n\r"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}


class _NeverMatches(Exception):
    """The pattern is malformed in a way that git answers by matching nothing."""


def expression(pattern: bytes) -> str | None:
    """The RE2 expression for one gitignore pattern (without its `!`), or None if it can match nothing.

    To be searched in the path relative to the ignore file's directory, decoded as latin-1, with NUL appended for a
    directory.
    """
    directory_only = pattern.endswith(b"/")
    glob = pattern.removesuffix(b"/")
    end = r"\x00\z" if directory_only else r"\x00?\z"
    try:
        if b"/" not in glob:
            return f"(?:^|/){_body(glob, is_path=False)}{end}" if glob else None
        return f"^{_body(glob.removeprefix(b'/'), is_path=True)}{end}"
    except _NeverMatches:
        return None


def _body(glob: bytes, *, is_path: bool) -> str:
    # dir.c compares the part before the first special character itself and gives wildmatch the rest, so that a `**`
    # there counts as the start of the pattern: `a**/b` matches `ab` and `ax/y/b`.
    start = next((at for at, byte in enumerate(glob) if byte in _SPECIAL), len(glob))
    parts = [_literal(byte) for byte in glob[:start]]
    at = start
    while at < len(glob):
        if glob[at] == ord("*"):
            part, at = _stars(glob, at, start, is_path=is_path)
        elif glob[at] == ord("?"):
            part, at = _SEGMENT, at + 1
        elif glob[at] == ord("["):
            part, at = _bracket(glob, at + 1)
        else:
            at += glob[at] == ord("\\")
            part, at = _literal(_byte(glob, at)), at + 1
        parts.append(part)
    return "".join(parts)


def _stars(glob: bytes, at: int, start: int, *, is_path: bool) -> tuple[str, int]:
    """`is_path`: the pattern had a slash, be it only the one at its begin that is cut off (`/**`)."""
    end = at
    while end < len(glob) and glob[end] == ord("*"):
        end += 1
    opened = at == start or glob[at - 1] == ord("/")
    closed = end == len(glob) or glob[end:].startswith((b"/", b"\\/"))
    if end - at == 1 or not (is_path and opened and closed):
        return f"{_SEGMENT}*", end
    if glob[end : end + 1] == b"/":
        return f"(?:{_ANY}*/)?", end + 1
    return f"{_ANY}*", end


def _bracket(glob: bytes, at: int) -> tuple[str, int]:
    """Translate from after `[`, in the order of wildmatch.c: `]` first is a member, `-` last is one too."""
    negated = _byte(glob, at) in b"!^"
    at += negated
    members: set[int] = set()
    previous, first = 0, True
    while first or _byte(glob, at) != ord("]"):
        first = False
        added, previous, at = _member(glob, at, previous)
        members |= added
    if negated:
        members = set(range(256)) - members
    return _set(members - {0, ord("/")}), at + 1


def _member(glob: bytes, at: int, previous: int) -> tuple[frozenset[int], int, int]:
    """What one item of a bracket adds, the byte that a following `-` would start from, and where the next item is."""
    byte = _byte(glob, at)
    if byte == ord("\\"):
        byte = _byte(glob, at + 1)
        return frozenset([byte]), byte, at + 2
    if byte == ord("-") and previous and glob[at + 1 : at + 2] not in (b"", b"]"):
        at += 1 + (glob[at + 1] == ord("\\"))
        return frozenset(range(previous, _byte(glob, at) + 1)), 0, at + 1
    if glob[at : at + 2] == b"[:":
        close = glob.find(b"]", at + 2)
        if close < 0:
            raise _NeverMatches
        if close > at + 2 and glob[close - 1] == ord(":"):
            return _class(glob[at + 2 : close - 1]), 0, close + 1
    return frozenset([byte]), byte, at + 1


def _class(name: bytes) -> frozenset[int]:
    if name not in _CLASSES:
        raise _NeverMatches
    return _CLASSES[name]


def _byte(glob: bytes, at: int) -> int:
    if at >= len(glob):
        raise _NeverMatches
    return glob[at]


def _set(members: set[int]) -> str:
    if not members:
        raise _NeverMatches
    ranges: list[list[int]] = []
    for byte in sorted(members):
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    inner = "".join(f"\\x{{{low:02x}}}-\\x{{{high:02x}}}" for low, high in ranges)
    return f"[{inner}]"


def _literal(byte: int) -> str:
    return chr(byte) if byte in _PLAIN else f"\\x{{{byte:02x}}}"
