"""The steps of scripts/systemd_trial, in order."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from systemd_container import install_wheels
from systemd_other_hosts import other_hosts
from systemd_played import AGENTS, IN_PLACE, SOURCE, TREE, WORKSPACE, Played

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from systemd_container import Container

PROGRAM = "/opt/leasefs"
STOP_WITHIN_S = 30.0


class Trial(Played):
    """Each step says what it checked."""

    def __init__(self, inside: Container, system: Path, second_build: Sequence[Path]) -> None:
        """`second_build` are the wheels that the system is upgraded to."""
        super().__init__(inside)
        self._system = system
        self._second_build = second_build

    def install(self) -> None:
        print("install")
        inside = self.inside
        inside.run("useradd", "--create-home", "build")
        inside.run(
            "sh",
            "-ec",
            f"""mkdir -p {TREE}/src {TREE}/docs /srv/ws/ann /srv/ws/bob /srv/trees && cd {TREE}
            echo one > src/one; echo doc > docs/doc; chown -R build:build /srv""",
        )
        git = "git -c user.name=b -c user.email=b@localhost"
        inside.run(
            "sh",
            "-ec",
            f"""cd {TREE}; git init -q -b main; git add -A; {git} commit -qm first
            git worktree add -q -b cem {IN_PLACE}""",
            user="build",
        )
        first = json.loads(inside.run("leasefs", "service", "install", "--json"))
        self.check("every file was written", all(f["done"] == "written" for f in first["files"]))
        again = json.loads(inside.run("leasefs", "service", "install", "--json"))
        self.check("twice is once", all(f["done"] == "unchanged" for f in again["files"]))
        units = [
            f"/etc/systemd/system/{name}"
            for name in ("leasefs-ledger.service", "leasefs-ledger.socket")
        ]
        said = inside.try_run("systemd-analyze", "verify", *units, "leasefs-mount@ann.service")
        self.check(
            "systemd-analyze verify has nothing to say",
            not (said.stdout + said.stderr).strip(),
            said,
        )
        for agent in AGENTS:
            lines = f"LEASEFS_SOURCE={SOURCE[agent]}\nLEASEFS_MOUNTPOINT={WORKSPACE[agent]}\n"
            inside.run("sh", "-c", f"printf '{lines}' > /etc/leasefs/mounts/{agent}.env")
            inside.run("systemctl", "enable", "--now", f"leasefs-mount@{agent}")
        status = json.loads(inside.run("leasefs", "service", "status", "--json"))
        active = {unit["unit"] for unit in status["units"] if unit["active"] == "active"}
        self.check(
            "ledger and three mounts are active",
            {"leasefs-ledger.service", *(f"leasefs-mount@{agent}.service" for agent in AGENTS)}
            <= active,
            status,
        )
        for agent in AGENTS:
            self.check(f"{agent} reads", self.shell(agent, "cat src/one").stdout == "one\n")
        said = self.unit("leasefs-mount@ann", "StatusText")
        self.check(f"its status says: {said}", "0 leases held" in said)

    def leases(self) -> None:
        print("claim, write, be refused")
        self.src = self.claim("ann", "src/**")
        self.docs = self.claim("bob", "docs/**")
        self.check("ann writes below src", self.writes("ann", "src/one", "ann"))
        self.check("bob writes below docs", self.writes("bob", "docs/doc", "bob"))
        refused = self.shell("bob", "echo no >> src/one")
        self.check("bob is refused below src", "Permission denied" in refused.stderr, refused)
        self.check("cem is refused in place", not self.writes("cem", "src/one", "cem"))
        self.check(
            "and why says who holds it", "ann" in self.shell("bob", "leasefs why src/one").stdout
        )
        self.until(
            "the ledger knows the intents", lambda: {"src/one", "docs/doc"} <= self.uncommitted()
        )
        self.until(
            "systemctl status shows leases and dirty paths",
            lambda: "1 leases held, 1 dirty paths" in self.unit("leasefs-mount@ann", "StatusText"),
        )

    def restart_ledger(self) -> None:
        for how, signal in (("restart", ""), ("kill -9", "KILL")):
            print(f"ledger: {how}")
            before, former = self.held(), self.pid("leasefs-ledger")
            if signal:
                self.inside.run("systemctl", "kill", "-s", signal, "leasefs-ledger")
            else:
                self.inside.run("systemctl", "restart", "leasefs-ledger")
            self.until(
                "it is active again", lambda former=former: self.active("leasefs-ledger", former)
            )
            self.check(
                "every lease has its token", self.held() == before and len(before) == 2, before
            )
            self.check("ann writes on", self.writes("ann", "src/one", how.replace(" ", "")))
            self.check("no intent is lost", {"src/one", "docs/doc"} <= self.uncommitted())
            for agent in AGENTS:
                self.check(f"{agent}'s mount stayed", self.active(f"leasefs-mount@{agent}"))

    def restart_mount(self) -> None:
        print("mount: restart")
        former = self.pid("leasefs-mount@ann")
        self.inside.run("systemctl", "restart", "leasefs-mount@ann")
        self.check("it is active, by another process", self.active("leasefs-mount@ann", former))
        self.check("its leases were given back", self.src not in self.held())
        self.check("nothing is written without one", not self.writes("ann", "src/one", "no"))
        self.check("its intents are known on", "src/one" in self.uncommitted())
        self.src = self.claim("ann", "src/**")
        self.check("ann claims again, and writes", self.writes("ann", "src/one", "again"))

    def configure(self) -> None:
        print("what the machine's file says")
        unit, file = "leasefs-mount@ann", "/etc/leasefs/config.toml"
        self.say(file, '[unleased]\\npolicy = "claim"\\nidle_s = 0\\n')
        self.inside.run("systemctl", "restart", unit)
        self.check("ann's writes claim by themselves", self.writes("ann", "src/one", "claimed"))
        shown = self.ask("config", "show", "unleased.policy")["settings"][0]
        self.check("its line is shown", shown["where"] == f"{file}:2", shown)
        lines = "LEASEFS_SOURCE={}\\nLEASEFS_MOUNTPOINT={}\\nLEASEFS_UNLEASED_POLICY=deny\\n"
        variables = "/etc/leasefs/mounts/ann.env"
        before = self.inside.run("cat", variables)
        self.say(variables, lines.format(SOURCE["ann"], WORKSPACE["ann"]))
        self.inside.run("systemctl", "restart", unit)
        self.check("a variable goes before it", not self.writes("ann", "src/one", "no"))
        self.say(file, "[unleased]\\npolcy = 1\\n")
        self.inside.try_run("systemctl", "restart", unit)
        self.check("a mount with a mistake is not tried again", self.unit(unit, "NRestarts") == "0")
        self.check("nor made", self.unit(unit, "ActiveState") == "failed")
        self.check("the journal names the line", f"{file}:2: unknown key" in self.journal(unit))
        self.inside.run("rm", file)
        self.say(variables, before.replace("\n", "\\n"))
        self.inside.run("systemctl", "restart", unit)
        self.src = self.claim("ann", "src/**")
        self.check("without it all is as before", self.writes("ann", "src/one", "again"))

    def say(self, path: str, text: str) -> None:
        """Write a file as printf(1) understands `text`."""
        self.inside.run("sh", "-c", f"printf '{text}' > {path}")

    def kill_mounts(self) -> None:
        print("mount: kill -9")
        self.claim("cem", "other/**")
        self.check(
            "cem writes in place",
            self.shell("cem", "mkdir other && echo 1 > other/new").returncode == 0,
        )
        self.until("the ledger knows", lambda: "other/new" in self.uncommitted())
        # Somebody without a lease tries to get at the tree in place all the while.
        loop = f"while :; do echo x > {IN_PLACE}/bare; sleep 0.01; done"
        with self.inside.background("sh", "-c", loop, user="build") as intruder:
            try:
                for agent in ("bob", "cem"):
                    former = self.pid(f"leasefs-mount@{agent}")
                    self.inside.run("systemctl", "kill", "-s", "KILL", f"leasefs-mount@{agent}")
                    self.until(
                        f"{agent}'s mount is back by itself",
                        lambda agent=agent, former=former: self.active(
                            f"leasefs-mount@{agent}", former
                        ),
                    )
            finally:
                self.inside.try_run("pkill", "-f", f"{IN_PLACE}/bare")
                intruder.kill()
        self.check("no byte is lost", self.shell("cem", "cat other/new").stdout == "1\n")
        self.check(
            "nothing got into the tree meanwhile", self.shell("cem", "test -e bare").returncode == 1
        )
        self.check(
            "the mount over the dead one is told",
            "mounting over it" in self.journal("leasefs-mount@cem"),
        )
        told = self.journal("leasefs-mount@cem")
        self.check("and nothing was cleared first", "cannot be reached beneath" not in told, told)
        self.check("no intent is lost", {"docs/doc", "other/new"} <= self.uncommitted())
        self.docs = self.claim("bob", "docs/**")
        self.check("bob claims anew, and writes", self.writes("bob", "docs/doc", "back"))

    def hang(self) -> None:
        print("mount: hangs")
        drop_in = "/run/systemd/system/leasefs-mount@bob.service.d"
        self.inside.run("mkdir", "-p", drop_in)
        lines = "[Service]\\nWatchdogSec=3\\nTimeoutAbortSec=2\\n"
        self.inside.run("sh", "-c", f"printf '{lines}' > {drop_in}/quick.conf")
        self.inside.run("systemctl", "daemon-reload")
        self.inside.run("systemctl", "restart", "leasefs-mount@bob")
        former = self.pid("leasefs-mount@bob")
        time.sleep(7)  # two watchdogs: an answering mount is left alone
        self.check("one that answers is left alone", self.pid("leasefs-mount@bob") == former)
        self.inside.run("kill", "-STOP", str(former))
        self.until("the watchdog replaces it", lambda: self.active("leasefs-mount@bob", former))
        self.check("the journal says so", "Watchdog timeout" in self.journal("leasefs-mount@bob"))
        self.check("it reads", self.shell("bob", "cat src/one").returncode == 0)
        self.inside.run("rm", "-r", drop_in)
        self.inside.run("systemctl", "daemon-reload")

    def stop_while_busy(self) -> None:
        print("mount: stop while busy")
        with self.inside.background(
            "sh", "-c", f"cd {WORKSPACE['ann']} && exec sleep 600", user="build"
        ) as busy:
            self.until("somebody stands in it", lambda: self.inside.run("pgrep", "-x", "sleep"))
            began_s = time.monotonic()
            self.inside.run("systemctl", "stop", "leasefs-mount@ann")
            took_s = time.monotonic() - began_s
            self.inside.try_run("pkill", "-x", "sleep")
            busy.wait()
        self.check(f"it stopped all the same, in {took_s:.1f} s", took_s < STOP_WITHIN_S)
        self.check(
            "the journal names who was in it",
            "is in use by sleep[" in self.journal("leasefs-mount@ann"),
        )
        mounted = self.inside.run("cat", "/proc/mounts")
        self.check("it is unmounted", f" {WORKSPACE['ann']} " not in mounted)
        self.check("it ended well", self.unit("leasefs-mount@ann", "Result") == "success")
        self.check(
            "its leases are free", not any(agent == "ann" for agent, _ in self.held().values())
        )
        self.inside.run("systemctl", "start", "leasefs-mounts.target", "leasefs-mount@ann")
        self.claim("ann", "src/**")

    def upgrade(self) -> None:
        print("upgrade to a second build")
        self.claim("bob", "docs/**")
        before = self.held()
        install_wheels(self._system, self._second_build, PROGRAM)
        self.inside.run("leasefs", "service", "install")
        former = self.pid("leasefs-ledger")
        self.inside.run("systemctl", "restart", "leasefs-ledger")
        self.check("the ledger is the second build's", self.active("leasefs-ledger", former))
        self.check("no lease was lost or doubled", self.held() == before, before)
        self.check("a mount of the first build writes on", self.writes("bob", "docs/doc", "first"))
        for agent in AGENTS:
            self.inside.run("systemctl", "restart", f"leasefs-mount@{agent}")
            facts = json.loads(self.shell(agent, "cat .leasefs/mount.json").stdout)
            self.check(f"{agent}'s mount is {facts['version']}", "+second" in facts["version"])
        self.check("no intent is lost", {"src/one", "docs/doc", "other/new"} <= self.uncommitted())

    def reboot(self) -> None:
        print("reboot")
        self.claim("ann", "src/**")
        before = max(token for _, token in self.held().values())
        self.inside.reboot()
        for agent in AGENTS:
            self.until(
                f"{agent}'s mount is back",
                lambda agent=agent: self.active(f"leasefs-mount@{agent}"),
            )
        self.check("the sessions ended in order, so no lease is left", not self.held(), self.held())
        self.check(
            "every intent is there", {"src/one", "docs/doc", "other/new"} <= self.uncommitted()
        )
        self.check("nothing is written without a lease", not self.writes("ann", "src/one", "no"))
        for agent, globs in (("ann", "src/**"), ("bob", "docs/**"), ("cem", "other/**")):
            self.claim(agent, globs)
        self.check("tokens only grow", min(token for _, token in self.held().values()) > before)
        self.check("they write", self.writes("ann", "src/one", "rebooted"))

    def by_a_user(self) -> None:
        """The user flavour, in place, without root: fusermount3, and a ledger that starts with its socket."""
        print("units of an ordinary user")
        inside = self.inside
        inside.run("loginctl", "enable-linger", "build")
        inside.run("sh", "-ec", "git clone -q /srv/repo /home/build/own", user="build")
        uid = inside.run("id", "-u", "build").strip()
        run = ("env", f"XDG_RUNTIME_DIR=/run/user/{uid}", "HOME=/home/build")
        self.until(
            "the user's systemd runs",
            lambda: inside.run(*run, "systemctl", "--user", "is-system-running", user="build"),
        )
        inside.run(*run, "leasefs", "service", "install", "--user", user="build")
        lines = "LEASEFS_SOURCE=/home/build/own\\nLEASEFS_MOUNT_OPTIONS=--keep-leases\\n"
        inside.run(
            "sh",
            "-c",
            f"printf '{lines}' > /home/build/.config/leasefs/mounts/dan.env",
            user="build",
        )
        systemctl = (*run, "systemctl", "--user")
        inside.run(*systemctl, "enable", "--now", "leasefs-mount@dan", user="build")

        def pid() -> int:
            """Of the mount once it is ready; until then the tree may be bare, as an ordinary user has it."""
            shown = ("show", "--value", "-p", "ActiveState", "-p", "MainPID", "leasefs-mount@dan")
            said = inside.run(*systemctl, *shown, user="build").split()
            return int(said[0]) if said[1:] == ["active"] else 0

        def writes(text: str) -> bool:
            command = f"cd /home/build/own && echo {text} >> src/mine"
            return inside.try_run(*run, "sh", "-c", command, user="build").returncode == 0

        self.check("nothing is written without a lease", not writes("no"))
        inside.run(*run, "leasefs", "-C", "/home/build/own", "claim", "src/**", user="build")
        self.check("dan claims and writes", writes("one"))
        for signal in ("KILL", "TERM"):
            former = pid()
            how = ("kill", "-s", signal) if signal == "KILL" else ("restart",)
            inside.run(*systemctl, *how, "leasefs-mount@dan", user="build")
            self.until(f"it is back after {how[0]}", lambda former=former: pid() not in {0, former})
            self.until("the lease is held again", lambda: writes("two"))
        status = json.loads(
            inside.run(*run, "leasefs", "service", "status", "--user", "--json", user="build")
        )
        active = [unit["unit"] for unit in status["units"] if unit["active"] == "active"]
        self.check(
            "its ledger was started by its socket", "leasefs-ledger.service" in active, status
        )
        inside.run(*run, "leasefs", "service", "uninstall", "--user", user="build")
        self.check("it is gone again", "/home/build/own" not in inside.run("cat", "/proc/mounts"))

    def story(self) -> None:
        print("journald and the end")
        ledger = self.journal("leasefs-ledger")
        self.check(
            "the ledger tells of its starts and stops",
            "serving" in ledger and "stopped at event" in ledger,
        )
        failed = self.told("-p", "err", "-t", "leasefs-ledger")
        self.check("and of nothing that it failed at", not failed, failed)
        traces = [one for one in self.told("-t", "leasefs-mount") if "LEASEFS_TRACE" in one]
        self.check("no mount ended by a fault of ours", not traces, traces)
        refused = self.told("LEASEFS_EVENT=write-refused", "LEASEFS_AGENT=ann")
        self.check(
            "refused writes have fields: path, agent, a number of their own",
            any(one.get("LEASEFS_PATH") == "src/one" and one.get("MESSAGE_ID") for one in refused),
            refused[:3],
        )
        self.check(
            "what was said of mounts made over dead ones is found by its number",
            any(
                "mounting over it" in one["MESSAGE"]
                for one in self.told("LEASEFS_EVENT=mounted-over-dead")
            ),
        )
        done = json.loads(self.inside.run("leasefs", "service", "uninstall", "--json"))
        self.check("uninstalled", len(done["removed"]) == 6, done)
        mounted = self.inside.run("cat", "/proc/mounts")
        self.check("nothing is mounted any more", "fuse.leasefs" not in mounted, mounted)
        self.check(
            "the tree is as the agents left it",
            "rebooted" in self.inside.run("cat", f"{TREE}/src/one"),
        )

    def run(self) -> None:
        """All steps."""
        for step in (
            self.install,
            self.leases,
            self.restart_ledger,
            self.restart_mount,
            self.configure,
            lambda: other_hosts(self, self._system),
            self.kill_mounts,
            self.hang,
            self.stop_while_busy,
            self.upgrade,
            self.reboot,
            self.by_a_user,
            self.story,
        ):
            step()
