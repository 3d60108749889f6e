"""Keeping leases in use while a command runs, and saying so when one is lost (P4).

In a mount its daemon does the work: a stream to its control socket that stays open counts as a use.
Outside, this process renews by itself. Either way in threads of their own, which end with the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.sse import StreamEvent
from leasefs.core.errors import LeasefsError
from leasefs_cli.lease_notes import recall_words
from leasefs_cli.printing import tell
from leasefs_cli.shell_news import ENDED, ShellNews

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.place import Place

# A session that is silent for 90 s counts as gone, whatever the TTL of its leases.
LONGEST_INTERVAL_S = 20.0
_LISTEN_AGAIN_S = 2.0


# Who is stopped by one of these is told to go on when the ground is back.
_PAUSES = frozenset({signal.SIGSTOP, signal.SIGTSTP})


class Keeper:
    """Keeps `leases` (LeaseAnswers) in use from `start` to `stop`.

    `on_recall` is the signal that the command gets when one of them is recalled.
    """

    def __init__(
        self,
        place: Place,
        leases: Sequence[api.Body],
        program: str,
        on_recall: signal.Signals | None = None,
    ) -> None:
        self._place = place
        self._leases = leases
        self._program = program
        self._pid = 0
        self._stopped = threading.Event()
        self._on_recall = on_recall
        self._recalled: set[str] = set()
        self._changing = threading.Lock()
        self._news: ShellNews | None = None
        self._beat_now = threading.Event()

    def start(self, pid: int) -> None:
        """Begin, in the name of process `pid`. What goes wrong is told on stderr; the command runs on."""
        self._pid = pid
        if self._place.mount is not None:
            for lease in self._leases:
                threading.Thread(target=self._use, args=(lease,), daemon=True).start()
        else:
            self._news = ShellNews(self._place, self._leases)
            threading.Thread(target=self._renew_all, args=(self._news,), daemon=True).start()
            threading.Thread(target=self._listen, args=(self._news,), daemon=True).start()

    @property
    def _its_writes(self) -> str:
        if self._place.mount is not None:
            return "what it writes there is refused"
        return "nothing keeps it from writing there (it is in no mount)"

    def stop(self) -> None:
        """End; nothing is told any more."""
        self._stopped.set()
        self._beat_now.set()

    def latest(self, lease_id: str) -> str:
        """What a release has to name: a lease that was recalled may have come back as another, or wait to."""
        return lease_id if self._news is None else self._news.latest(lease_id)

    def _use(self, lease: api.Body) -> None:
        id_ = lease["lease"]
        try:
            for event in self._place.link.stream(self._use_of(id_)):
                self._hear(id_, event)
        except LeasefsError as error:
            self._warn(f"{id_} is no longer kept in use: {error.message}")
        self._ground_is_back(id_)  # nothing more is heard, and nobody is to stand still for ever

    def _hear(self, use: str, event: StreamEvent) -> None:
        """What befell the lease that `use` began with; it may have come back under another id."""
        what, said = event.type, event.data
        id_ = said.get("lease", use)
        if what == "lost":
            self._warn(f"{id_} is lost: {said['reason']}")
            self._ground_is_back(use)
        elif what == "lapsed":
            self._warn(f"{id_} has lapsed: the ledger has not confirmed it in time")
        elif what == "recalled":
            self._recall(use, recall_words(id_, said["recall"]))
        elif what == "yielded":
            if use not in self._recalled:  # it went so fast that there was no time to say so before
                self._recall(use, f"{id_} is {said.get('reason') or 'recalled'}")
            back = f", as {said['claim']}" if said.get("claim") else ""
            self._tell(
                f"{id_} is given up: the command runs on, and {self._its_writes} until the ground comes back by "
                f"itself{back}"
            )
        elif what == "back":
            self._tell(f"the ground is back, as {id_}")
            self._ground_is_back(use)
        elif what == "recall-ended" and use in self._recalled:
            self._tell(f"{id_} need not be given up any more")
            self._ground_is_back(use)

    def _recall(self, use: str, words: str) -> None:
        self._tell(words)
        with self._changing:
            first = not self._recalled
            self._recalled.add(use)
        if first and self._on_recall is not None:
            self._signal(self._on_recall)

    def _ground_is_back(self, use: str) -> None:
        """When none of the leases is away any more, whoever was stopped for them goes on."""
        with self._changing:
            over = use in self._recalled and len(self._recalled) == 1
            self._recalled.discard(use)
        if over and self._on_recall in _PAUSES:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if not self._stopped.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _use_of(self, lease_id: str) -> api.Call:
        body = {"lease": lease_id, "pid": self._pid, "program": self._program}
        return api.use(lease_id)._replace(body=body)

    def _renew_all(self, news: ShellNews) -> None:
        shortest_s = min((lease["ttl_s"] for lease in self._leases), default=LONGEST_INTERVAL_S)
        interval_s = min(LONGEST_INTERVAL_S, shortest_s / 3)
        while not self._stopped.is_set():
            self._beat_now.wait(interval_s)
            self._beat_now.clear()
            if not self._stopped.is_set():
                self._renew(news)

    def _renew(self, news: ShellNews) -> None:
        kept_by = [f"{self._pid} {self._program} leasefs run"]
        beats = [
            {"lease": id_, "token": token, "kept_by": kept_by}
            for id_, token in list(news.held.items())
        ]
        try:
            answer = self._place.link.send(api.heartbeat(self._place.session, beats))
        except LeasefsError as error:
            self._warn(f"leases not renewed, will try again: {error.message}")
            return
        for kept in answer["renewed"]:
            use = news.use_of(kept["lease"])
            if kept.get("recall") and use not in self._recalled:
                self._recall(use, recall_words(kept["lease"], kept["recall"]))
        for lost in answer["lost"]:
            if news.is_lost(lost["lease"]):
                self._hear(news.use_of(lost["lease"]), StreamEvent(0, "lost", lost))

    def _listen(self, news: ShellNews) -> None:
        """Hear by push what a heartbeat would tell later, or too late."""
        while not self._stopped.is_set():
            try:
                news.begin()
                self._beat_now.set()
                for use, event in news.follow():
                    if event.type in ENDED:
                        self._beat_now.set()
                    else:
                        self._hear(use, event)
            except LeasefsError:
                pass  # heartbeats go on, and tell it
            self._stopped.wait(_LISTEN_AGAIN_S)

    def _warn(self, what: str) -> None:
        self._tell(f"{what}; the command runs on, and {self._its_writes}")

    def _tell(self, what: str) -> None:
        if not self._stopped.is_set():
            tell(what)
