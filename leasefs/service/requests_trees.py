"""What mounts may send about their trees: intents, settlements, foreign writes, rescues (see `requests`)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from leasefs.core.commands import (
    ForeignReport,
    Note,
    ReportForeignWrites,
    ReportIntents,
    ReportRescue,
    SettleIntents,
    Settlement,
)
from leasefs.core.intents import (
    MAX_NOTES,
    MAX_RESCUED_PATHS,
    NAMES_KEPT,
    ForeignChange,
    IntentKind,
    IntentState,
    Outcome,
    Unleased,
)
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.paths import MAX_TREE_PATH_BYTES
from leasefs.core.records import Rescue
from leasefs.core.views import WantedIntents
from leasefs.service.requests import Body, Line, Name, Pid, Query, Seq, WallTime

MAX_INTENTS = 10_000

TreePath = Annotated[str, Meta(max_length=MAX_TREE_PATH_BYTES)]


class NoteBody(Body, frozen=True):
    """A path was about to change under this lease; `other` is the second name of a rename."""

    path: TreePath
    kind: IntentKind
    lease: Name
    token: Seq
    wall_s: WallTime
    pid: Pid = 0
    program: Line = ""
    size: Seq = 0
    other: TreePath = ""

    def note(self) -> Note:
        """As the rules take it."""
        return Note(**_fields(self))


class IntentsBody(Body, frozen=True):
    """What changed in a tree. `recovered`: by a dead mount, whose journal names `agent` and `harness`."""

    tree: Name
    host: Name
    root: TreePath
    notes: Annotated[tuple[NoteBody, ...], Meta(max_length=MAX_NOTES)]
    recovered: bool = False
    agent: Name = ""
    harness: Name = ""

    def command(self, session: str) -> ReportIntents:
        """The command of this session."""
        notes = tuple(note.note() for note in self.notes)
        return ReportIntents(
            session,
            self.tree,
            self.host,
            self.root,
            notes,
            self.recovered,
            self.agent,
            self.harness,
        )


class SettlementBody(Body, frozen=True):
    """What git says of a path; `done`: it is committed, and there is nowhere for it to land."""

    path: TreePath
    outcome: Outcome
    commit: Name = ""
    blob: Name = ""
    done: bool = False
    leases: Annotated[tuple[Name, ...], Meta(max_length=MAX_NOTES)] = ()


class SettledBody(Body, frozen=True):
    """What became of paths; of what was changed after `as_of_wall_s` this says nothing."""

    tree: Name
    settled: Annotated[tuple[SettlementBody, ...], Meta(max_length=MAX_NOTES)]
    as_of_wall_s: WallTime | None = None

    def command(self, session: str) -> SettleIntents:
        """The command of this session."""
        settled = tuple(Settlement(**_fields(one)) for one in self.settled)
        return SettleIntents(session, self.tree, settled, self.as_of_wall_s)


class ForeignBody(Body, frozen=True):
    """A change that came through no mount."""

    path: TreePath
    what: ForeignChange
    wall_s: WallTime


class ForeignWritesBody(Body, frozen=True):
    """A batch of them."""

    tree: Name
    changes: Annotated[tuple[ForeignBody, ...], Meta(max_length=MAX_NOTES)]
    how: Unleased = Unleased.BESIDE
    about: Line = ""
    events_lost: bool = False

    def command(self, session: str) -> ReportForeignWrites:
        """The command of this session."""
        changes = tuple(ForeignReport(**_fields(one)) for one in self.changes)
        return ReportForeignWrites(
            session, self.tree, changes, self.how, self.about, self.events_lost
        )


class SnapshotBody(Body, frozen=True):
    """The rescue; without `globs` its ground is that of its lease, or of its paths."""

    id: Name
    tree: Name
    lease: Name
    agent: Name
    ref: Line
    commit: Name
    paths: Seq
    names: Annotated[tuple[TreePath, ...], Meta(max_length=NAMES_KEPT)] = ()
    token: Seq = 0
    harness: Name = ""
    globs: Annotated[tuple[Line, ...], Meta(max_length=MAX_GLOBS)] = ()
    reason: Line = ""
    wall_s: WallTime = 0.0
    host: Name = ""
    root: TreePath = ""
    territory: Name = ""


class RescueBody(Body, frozen=True):
    """A snapshot was made, of `contained`; if that is left out, of the paths that it names."""

    rescue: SnapshotBody
    contained: Annotated[tuple[TreePath, ...], Meta(max_length=MAX_RESCUED_PATHS)] | None = None

    def command(self, session: str) -> ReportRescue:
        """The command of this session."""
        return ReportRescue(session, Rescue(**_fields(self.rescue)), self.contained)


class IntentsQuery(Query, frozen=True):
    """Which intents, and how many of the oldest at most."""

    territory: Name | None = None
    agent: Name | None = None
    tree: Name | None = None
    lease: Name | None = None
    state: IntentState | None = None
    unkept: Annotated[int, Meta(ge=0, le=1)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_INTENTS)] = MAX_INTENTS

    def wanted(self) -> WantedIntents:
        """As the views take it."""
        return WantedIntents(
            self.territory, self.agent, self.tree, self.lease, self.state, bool(self.unkept)
        )


def _fields(body: Struct) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__}
