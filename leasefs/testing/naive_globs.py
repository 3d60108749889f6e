"""A glob matcher that is plainly right and hopelessly slow: the judge of the real one in tests.

It shares nothing with `leasefs.core`: it reads the glob's text by splitting it at slashes and tries
every possibility by recursion (remembering names, as the same few come up millions of times). It knows no escapes, no POSIX classes and no slash within a class.
"""

from __future__ import annotations

from functools import lru_cache


def naive_match(glob: str, path: bytes) -> bool:
    """Whether `glob` matches the normalised `path`."""
    source = glob.encode("utf-8", "surrogateescape")
    parts = [part for part in source.split(b"/") if part not in {b"", b"."}]
    if source.endswith(b"/"):
        parts.append(b"**")
    names = path.split(b"/") if path else []
    if parts == [b"**"]:
        return True
    return _parts_match(parts, names)


def _parts_match(parts: list[bytes], names: list[bytes]) -> bool:
    if not parts:
        return not names
    if parts == [b"**"]:
        return len(names) > 0
    if parts[0] == b"**":
        return any(_parts_match(parts[1:], names[skipped:]) for skipped in range(len(names) + 1))
    return bool(names) and _name_matches(parts[0], names[0]) and _parts_match(parts[1:], names[1:])


@lru_cache(maxsize=1 << 18)
def _name_matches(part: bytes, name: bytes) -> bool:
    if not part:
        return not name
    if part.startswith(b"*"):
        return any(_name_matches(part[1:], name[skipped:]) for skipped in range(len(name) + 1))
    if not name:
        return False
    if part.startswith(b"["):
        end = part.index(b"]", 3 if part[1:2] == b"!" else 2)
        return _in_class(part[1:end], name[0]) and _name_matches(part[end + 1 :], name[1:])
    return part[:1] in {b"?", name[:1]} and _name_matches(part[1:], name[1:])


def _in_class(listed: bytes, value: int) -> bool:
    if listed.startswith(b"!"):
        return not _in_class(listed[1:], value)
    if listed[1:2] == b"-" and len(listed) > 2:
        return listed[0] <= value <= listed[2] or _in_class(listed[3:], value)
    return bool(listed) and (listed[0] == value or _in_class(listed[1:], value))
