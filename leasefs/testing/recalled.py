"""A background loop and a person on one tree, each behind a mount: what tests of recalls need."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.uncommitted import git, new_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

HUMAN = 100
NAMES = ("src/a", "src/b", "src/c", "beside")


class Two(NamedTuple):
    """A background loop and a person, each with a mount of the same tree."""

    loop: Agent
    person: Agent
    tree: str


def new_tree(root: str) -> str:
    """A repository with `NAMES` committed, below `root`; returns where."""
    tree = f"{root}/tree"
    new_repository(tree)
    os.makedirs(f"{tree}/src")
    for name in NAMES:
        Path(tree, name).write_text(f"{name} as it was\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    return tree


@contextmanager
def two_mounts(tree: str, root: str, **of_loop: Any) -> Iterator[Two]:  # noqa: ANN401 -- options of a mount
    """Both mounts, side by side below `root`; `of_loop` are options of the loop's."""
    for name in ("loop", "person"):
        os.mkdir(f"{root}/{name}")
    with (
        agent_mount(tree, f"{root}/loop", "loop", **of_loop) as loop,
        agent_mount(tree, f"{root}/person", "person") as person,
    ):
        yield Two(loop, person, tree)


def urgent(agent: Agent, *globs: str, within_s: float = 0.0, priority: int = HUMAN) -> api.Body:
    """Claim with recall; returns at once, perhaps waiting."""
    call = api.claim(
        globs,
        key=new_key(),
        ttl_s=600.0,
        priority=priority,
        wait=True,
        recall_within_s=within_s,
    )
    return agent.control.send(call)


def granted(agent: Agent, claim: api.Body) -> api.Body:
    """Wait for the grant."""
    eventually(lambda: agent.state_of(claim) == "granted", what="the grant")
    return agent.control.send(api.lease(claim["lease"]))


def recalls(agent: Agent) -> list[Any]:
    """What the agent's mount knows of recalls."""
    found: list[Any] = agent.control.send(api.mount())["recalls"]
    return found


def recall_is(agent: Agent, state: str) -> Any:  # noqa: ANN401 -- facts as they came
    """The agent's one recall, once it is in this state."""

    def there() -> api.Body | None:
        return next((one for one in recalls(agent) if one["state"] == state), None)

    return eventually(there, what=f"a recall that is {state}")


def append(path: str, line: str) -> None:
    """Append as a program does that opens, writes and closes."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


class Loop:
    """Appends numbered lines to a file as fast as it is let, and remembers which it was told are written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.written: list[str] = []
        self.refused = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.002):
            number += 1
            try:
                append(self.path, f"line {number}\n")
            except PermissionError:
                self.refused += 1
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                self.refused += 1
            else:
                self.written.append(f"line {number}")
