"""Ground that was delegated is closed to its giver, exactly: the view against every path of a small world."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from leasefs.core.carving import Carved
from leasefs.core.globs import parse_glob, part_below
from leasefs.core.held import HeldLease, HeldView
from leasefs.core.lease import Mode

NOW_S = 100.0
NAMES = (b"a", b"b", b"z", b"zz")
DEEPEST = 5
# One level deeper than any glob below can tell apart.
WORLD = tuple(
    b"/".join(names) for depth in range(1, DEEPEST + 1) for names in product(NAMES, repeat=depth)
)
DIRECTORIES = (b"", *(path for path in WORLD if path.count(b"/") < 2))

PARTS = st.sampled_from(["a", "b", "*", "**", "[ab]", "?"])
GLOBS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
LEASES = st.lists(
    st.tuples(
        st.lists(GLOBS, min_size=1, max_size=2),
        st.sampled_from([Mode.EXCLUSIVE, Mode.EXCLUSIVE, Mode.SHARED]),
        st.booleans(),
    ),
    max_size=3,
)
CARVED = st.lists(st.lists(GLOBS, min_size=1, max_size=2), max_size=2)


def lease(token: int, *globs: str, mode: Mode = Mode.EXCLUSIVE, trusted: bool = True) -> HeldLease:
    until_s = NOW_S + 1 if trusted else NOW_S
    return HeldLease(f"L{token}", token, tuple(map(parse_glob, globs)), mode, 60.0, until_s)


def carve(*globs: str, child: str = "L9") -> Carved:
    return Carved("L1", tuple(map(parse_glob, globs)), "agent-31", child)


def is_below(path: bytes, directory: bytes) -> bool:
    return not directory or path.startswith(directory + b"/")


@settings(max_examples=150, deadline=None)
@given(LEASES, CARVED)
def test_every_answer_of_a_view_with_delegated_ground_is_exact(
    held: list[tuple[list[str], Mode, bool]], given_away: list[list[str]]
) -> None:
    """Delegation: its giver writes there under none of its leases, and everywhere else as before."""
    leases = [
        lease(n, *globs, mode=mode, trusted=trusted)
        for n, (globs, mode, trusted) in enumerate(held, 1)
    ]
    view = HeldView(leases, carved=[carve(*globs) for globs in given_away])
    gone = {path for path in WORLD if any(one.matches(path) for one in view.carved)}
    exclusive = [one for one in leases if one.mode is Mode.EXCLUSIVE]
    ground = {
        one.token: {path for path in WORLD if path not in gone and one.matches(path)}
        for one in exclusive
    }
    trusted = [one for one in exclusive if one.trusted_until_s > NOW_S]
    writable = {path for one in trusted for path in ground[one.token]}
    for path in WORLD:
        assert (view.writable(path, NOW_S) is not None) == (path in writable)
        lapsed = [one for one in exclusive if one not in trusted and path in ground[one.token]]
        assert view.lapsed(path, NOW_S) == (lapsed[0] if lapsed else None)
    assert view.trusted(NOW_S) == [one for one in trusted if ground[one.token]]
    everything = any(len(ground[one.token]) == len(WORLD) for one in trusted)
    assert view.covers_everything(NOW_S) == everything
    assert set(view.whole) == {
        one.token for one in exclusive if not any(one.matches(path) for path in gone)
    }
    for directory in DIRECTORIES:
        below = {path for path in WORLD if is_below(path, directory)}
        assert (view.may_need(directory, NOW_S) is not None) == bool(below & writable)
        beside = {
            path for path in below if path.count(b"/") == directory.count(b"/") + bool(directory)
        }
        assert (view.writes_in(directory, NOW_S) is not None) == bool(beside & writable)
        if directory:
            whole = {directory, *below}
            assert view.covers_tree(directory, NOW_S) == (whole <= writable)
            assert (view.carved_in(directory) is not None) == bool(whole & gone)


@settings(max_examples=300, deadline=None)
@given(GLOBS, st.sampled_from(DIRECTORIES))
def test_the_part_of_a_glob_below_a_directory_is_exact(text: str, directory: bytes) -> None:
    glob = parse_glob(text)
    parts, alone = part_below(glob, directory), part_below(glob, directory, one_name=True)
    for path in WORLD:
        below = is_below(path, directory) and glob.matches(path)
        assert any(part.matches(path) for part in parts) == below
        deep = path.count(b"/") > directory.count(b"/") + bool(directory)
        assert any(part.matches(path) for part in alone) == (below and not deep)


def test_what_was_learnt_before_a_delegation_is_forgotten_and_kept_over_renewals() -> None:
    view = HeldView([lease(1, "**")])
    assert view.writable(b"a/x", NOW_S)
    given_away = HeldView(view.leases, carved=[carve("a/**")])
    assert given_away.writable(b"a/x", NOW_S) is None
    renewed = given_away.renewed({1: NOW_S + 9})
    assert renewed.writable(b"a/x", NOW_S) is None
    assert renewed.writable(b"b/x", NOW_S + 5)
    assert renewed.carved_at(b"a/x") == carve("a/**")


def test_a_delegation_that_is_too_costly_to_tell_apart_needs_no_directory() -> None:
    long = [f"d/**/*{start}{'?' * 16}" for start in ("a", "[!a]")]
    short = [f"d/**/{'?' * length}" for length in range(1, 17)]
    view = HeldView([lease(1, "**")], carved=[carve(*long, *short)])
    assert view.may_need(b"d", NOW_S) is None
    assert not view.covers_tree(b"d", NOW_S)
    assert view.writable(b"e", NOW_S)
