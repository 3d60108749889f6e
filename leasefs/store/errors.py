"""What a store can refuse or suffer. Each message says what happened, which file, what to do next."""

from __future__ import annotations


class StoreError(Exception):
    """Base of every error a store raises on purpose."""


class SequenceConflict(StoreError):
    """Somebody else appended first: catch up from ``actual`` and decide again. Nothing was written.

    Attributes:
        expected: the sequence number the caller took for the head.
        actual: the head the log really has.
    """

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"the log's head is {actual}, not {expected}: read from there and decide again"
        )
        self.expected = expected
        self.actual = actual


class EventsDropped(StoreError):
    """What is asked for was dropped from the log, to keep it bounded.

    Attributes:
        base: the log tells what happened after this event.
    """

    def __init__(self, asked: int, base: int) -> None:
        super().__init__(
            f"what followed event {asked} was dropped; the log begins after event {base}: ask from there,"
            " or look in the archive or a backup"
        )
        self.base = base


class StoreClosed(StoreError):
    """The store was closed before or during the call. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("the store is closed: open it again")


class StoreFileError(StoreError):
    """An error about one file. ``str()`` is ``path: problem: next step``.

    Attributes:
        path: the file, as given to the store.
        problem: what is wrong with it.
        next_step: what a person should do now.
    """

    def __init__(self, path: str, problem: str, next_step: str) -> None:
        super().__init__(f"{path}: {problem}: {next_step}")
        self.path = path
        self.problem = problem
        self.next_step = next_step


class StoreLocked(StoreFileError):
    """Another process owns this ledger.

    Attributes:
        holder_pid: the owner's process id, or None if it has not written it yet.
    """

    def __init__(self, path: str, holder_pid: int | None) -> None:
        holder = "another process" if holder_pid is None else f"process {holder_pid}"
        super().__init__(path, f"in use by {holder}", "talk to that ledger, or stop it first")
        self.holder_pid = holder_pid


class StoreMissing(StoreFileError):
    """There is no ledger at this path, and the caller did not ask to own (and so create) one."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no ledger here", "start the ledger once, or check the path")


class SchemaTooNew(StoreFileError):
    """A newer leasefs wrote this file.

    Attributes:
        found: the file's schema version.
        supported: the newest version this leasefs knows.
    """

    def __init__(self, path: str, found: int, supported: int) -> None:
        super().__init__(
            path,
            f"schema version {found}, and this leasefs knows up to {supported}",
            "upgrade leasefs; the file was left as it is",
        )
        self.found = found
        self.supported = supported


class SchemaTooOld(StoreFileError):
    """No migration leads from this file's schema version to ours.

    Attributes:
        found: the file's schema version.
        oldest: the oldest version that can be migrated.
    """

    def __init__(self, path: str, found: int, oldest: int) -> None:
        super().__init__(
            path,
            f"schema version {found}, and this leasefs migrates from {oldest} on",
            "open it with an older leasefs first; the file was left as it is",
        )
        self.found = found
        self.oldest = oldest


class StoreCorrupt(StoreFileError):
    """The file is not the log that was written: damaged, torn, truncated, replaced or foreign."""

    NEXT_STEP = (
        "move it away or restore a backup together with its -wal file;"
        " leasefs never resets it by itself"
    )

    def __init__(self, path: str, problem: str, next_step: str = NEXT_STEP) -> None:
        super().__init__(path, problem, next_step)


class StoreUnavailable(StoreFileError):
    """The engine could not do it now: I/O error, no permission, busy for too long.

    Attributes:
        happened: False: the append certainly did not happen. None: the disk failed while making it
            durable. The next append that succeeds settles that it did not; after a crash before
            that, it may be found in the log.
    """

    def __init__(
        self, path: str, problem: str, next_step: str, *, happened: bool | None = False
    ) -> None:
        super().__init__(path, problem, next_step)
        self.happened = happened


class StoreFull(StoreUnavailable):
    """No space left. The append did not happen; the store works again once there is space."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path, "no space left, nothing was written", "free space on that file system, then retry"
        )
