"""What one mount consists of beside the file system, put together: who asks whom, and what runs beside the handlers.

Each part knows what it needs by its constructor; what has to be told back is told here, once.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from leasefs.mount.control_files import control_files
from leasefs.mount.control_server import ControlServer
from leasefs.mount.delegating import Delegating
from leasefs.mount.foreign_writes import ForeignWrites
from leasefs.mount.health import Health
from leasefs.mount.monitored import Monitored
from leasefs.mount.recall_hook import RecallHook
from leasefs.mount.recall_words import recall_facts, recall_line
from leasefs.mount.recalling import Recalling
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.releasing import ReleaseGate
from leasefs.mount.standing_there import StandingThere
from leasefs.mount.supervised import Supervised, status_line
from leasefs.mount.unleased_treatment import Unleased
from leasefs.mount.work import Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasefs.client.supervisor import Supervisor
    from leasefs.mount.agent_session import AgentSession
    from leasefs.mount.control_http import Text
    from leasefs.mount.launch import MountConfig
    from leasefs.mount.tree import Tree
    from leasefs.mount.unleased_policy import Settings
    from leasefs.vcs.project_file import ProjectFile


class Parts:
    """All of it. `about` are the facts of `mount.json`, which grow while the mount is up."""

    def __init__(
        self,
        root_fd: int,
        config: MountConfig,
        session: AgentSession,
        about: dict[str, Any],
        project: ProjectFile,
        settings: Settings,
        owner_uid: int,
        supervisor: Supervisor,
    ) -> None:
        """Nothing runs yet.

        Args:
            root_fd: the tree beneath, opened before it is mounted over; stays the caller's.
            config: what whoever mounts wants.
            session: the agent's.
            about: what is known of the mount so far.
            project: what `.leasefs.toml` says.
            settings: what becomes of writes that no lease covers.
            owner_uid: whose tree it is.
            supervisor: who may want to hear how it goes.

        Raises:
            OSError: the journal cannot be begun, so nothing may be changed.
        """
        lessee, link = session.lessee, session.link
        mountpoint: str = about["mountpoint"]
        self.about = about
        self.lessee = lessee
        self.tree: Tree | None = None
        self.refusals = RefusalLog(lessee.refused)
        self.work = Work(root_fd, mountpoint, lessee, link, project)
        self.foreign = ForeignWrites(self.work.header, self.work.journals, lessee, link)
        self.releases = ReleaseGate(lessee, self.work, self.work.tree, project)
        self.unleased = Unleased(settings, lessee, self.work, self.releases)
        hook = RecallHook(config.on_recall, mountpoint)
        self.recalling = Recalling(lessee, self.work, self.releases, hook)
        self.delegating = Delegating(lessee, self.work, self.releases)
        self.supervised = Supervised(
            supervisor, mountpoint, partial(status_line, lessee, self.work)
        )
        about |= {"tree": self.work.header.tree, **self.foreign.facts()}
        about["unleased"] = self.unleased.facts()
        self.control = self._control(session, owner_uid)
        self._tell_each_other(session)

    def _control(self, session: AgentSession, owner_uid: int) -> ControlServer:
        return ControlServer(
            session.lessee,
            session.link,
            self.refusals,
            self.about,
            owner_uid,
            self.releases.release,
            self.releases.look,
            self.delegating,
            session.revive,
        )

    def _tell_each_other(self, session: AgentSession) -> None:
        control, refusals = self.control, self.refusals
        self.work.intents.unwritten = refusals.unwritten
        self.work.yielded = self.recalling.yielded
        refusals.explainers.append(self.recalling.explain)
        standing = StandingThere(session.lessee, session.link, refusals)
        refusals.ask, refusals.there = standing.ask, standing.at
        health = Health(self.supervised, self.work.journals, session.lessee)
        control.monitored = Monitored(self._metrics, health)
        control.claimed = self.unleased.claimed_on_purpose
        control.take_back = self.unleased.take_back
        session.kept.gives_back = lambda: control.asked_to_stop

    def serves(self, tree: Tree) -> None:
        """This is the tree that is served."""
        self.tree = tree

    def redirected(self, paths: list[str]) -> None:
        """These paths are redirected now."""
        self.about["redirects"] = paths

    def _metrics(self) -> Text:
        from leasefs.mount.metrics import mount_text  # only who is asked pays for it

        return mount_text(self)

    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """What runs for as long as the mount is up."""
        return [
            self.lessee.run,
            self.control.run,
            self.work.run,
            self.unleased.run,
            self.recalling.run,
            self.supervised.run,
        ]

    def files(self) -> dict[str, Callable[[], bytes]]:
        """The files of `.leasefs/`."""
        lessee = self.lessee
        return {
            "agent": lambda: f"{self.about['agent']}\n".encode(),
            "mount.json": lambda: _json_file(self.about | self.foreign.facts()),
            **control_files(lessee, self.refusals, lessee.kept_by),
            **self.foreign.found.files(),
            "delegations": lambda: self.delegating.lines().encode(),
            "delegations.json": lambda: _json_file(self.delegating.facts()),
            "recalls": lambda: self._recalls().encode(),
            "recalls.json": lambda: _json_file(
                [recall_facts(one, lessee.now_s()) for one in lessee.recalls]
            ),
        }

    def _recalls(self) -> str:
        now_s = self.lessee.now_s()
        return "".join(f"{recall_line(one, now_s)}\n" for one in self.lessee.recalls)


def _json_file(facts: object) -> bytes:
    return json.dumps(facts, indent=1).encode() + b"\n"
