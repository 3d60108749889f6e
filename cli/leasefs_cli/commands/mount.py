"""`leasefs mount`."""

from __future__ import annotations

import os
from typing import Any

import click

from leasefs.client import config
from leasefs.client.names import harness_name
from leasefs.client.own_name import named_or_own
from leasefs.core.errors import NotMounted, error_of
from leasefs.core.settings import CPU_LATENCIES
from leasefs.core.unleased_policy import MAX_WAIT_S, WORDS
from leasefs.mount.launch import MountConfig, start_mount
from leasefs.mount.mountinfo import top_at
from leasefs_cli.asking_a_mount import ask, registered_daemon
from leasefs_cli.config_here import tell_strange_variables
from leasefs_cli.detaching import cut_off
from leasefs_cli.durations import Duration
from leasefs_cli.exit_codes import DONE, UNEXPECTED
from leasefs_cli.log_options import logging_options
from leasefs_cli.printing import printable, say, say_json, tell
from leasefs_cli.setting_option import setting_option
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "mount",
    examples=[
        (
            "leasefs mount ~/repo --agent agent-07",
            "in place: paths, editors and configs stay as they are",
        ),
        (
            "leasefs mount ~/repo ~/ws/agent-07 --agent agent-07",
            "on an empty directory: several agents, one tree, none of them in place",
        ),
        (
            "leasefs mount ~/repo --agent agent-07 --unleased claim+wait",
            "for tools that know nothing of leases: what they write is claimed, and waited for",
        ),
        (
            "leasefs mount ~/repo --agent loop --on-recall 'git commit -qam wip'",
            "commit what there is as soon as somebody asks for a lease",
        ),
        (
            "leasefs mount ~/repo --agent agent-07 --replace",
            "take over from a session that is gone",
        ),
    ],
)
@click.argument("source")
@click.argument("mountpoint", required=False)
@click.option(
    "--agent",
    metavar="NAME",
    help="Whose mount it is. Default agent.name (LEASEFS_AGENT), else the identity whose token you have, else USER@HOST.",
)
@click.option(
    "--harness",
    metavar="NAME",
    help="What the agent works with. Default agent.harness (LEASEFS_HARNESS), else told from the environment.",
)
@setting_option(
    "mount.allow_other",
    "--allow-other/--no-allow-other",
    help="Let other users in too; root always does. Needs user_allow_other in /etc/fuse.conf.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="End the agent's session that is live elsewhere. Its ground stays closed until its leases "
    "would have expired.",
)
@setting_option(
    "mount.fsmonitor",
    "--fsmonitor/--no-fsmonitor",
    help="With --no-fsmonitor leave git's configuration alone. Else git asks the mount what changed, by core.fsmonitor and "
    "core.untrackedCache, which are set while it is mounted unless you set your own.",
)
@setting_option(
    "mount.redirects",
    "--redirects/--no-redirects",
    help="With --no-redirects serve everything through the mount. Else large directories that git ignores as a whole, and in "
    "place the git directory, are served natively where leasefs may mount (root): each is then a file "
    "system of its own, as `find -xdev` sees, and git run inside one asks for "
    "GIT_DISCOVERY_ACROSS_FILESYSTEM=1.",
)
@setting_option(
    "mount.cpu_latency",
    "--cpu-latency",
    metavar="WORD",
    type=click.Choice(CPU_LATENCIES),
    help="How soon an idle processor is to wake up while requests come in a row: low asks the kernel for at once, "
    "where leasefs may (root), so that no processor of the machine halts meanwhile; any leaves it to the kernel; auto is low on a "
    "virtual machine with at most four processors. Default mount.cpu_latency, else auto.",
)
@click.option(
    "--unleased",
    metavar="POLICY",
    type=click.Choice(WORDS),
    help="What becomes of a write that no lease covers: deny refuses it; claim claims the path, or the region of "
    ".leasefs.toml around it, and gives it back soon after the last use; wait blocks the writer until a lease "
    "of this agent covers it, or up to a bound; claim+wait queues for the path; observe lets it pass and "
    "reports it. Default unleased.policy, which .leasefs.toml may say, else deny.",
)
@click.option(
    "--unleased-wait",
    "wait_s",
    metavar="TIME",
    type=Duration(0.0, MAX_WAIT_S),
    help="How long such a write waits at most. Default unleased.wait_s, which .leasefs.toml may say, else 1m.",
)
@setting_option(
    "mount.on_recall",
    "--on-recall",
    metavar="CMD",
    help="Run CMD in the mount, by `sh -c`, whenever a lease is recalled, for a minute at most. It finds "
    "LEASEFS_LEASE, LEASEFS_RECALL_BY, LEASEFS_RECALL_REASON and LEASEFS_RECALL_WITHIN_S (seconds; 0: writes have "
    "stopped) in its environment. Nothing in the repository is ever run so.",
)
@click.option(
    "--over-dead",
    is_flag=True,
    help="Mount also where a dead mount is. Root mounts over it, so that the tree stays closed all the while; "
    "anyone else clears it first.",
)
@setting_option(
    "mount.keep_leases",
    "--keep-leases/--no-keep-leases",
    help="Keep leases over a restart: a stop by signal leaves them to run out instead of giving them back, and a mount "
    "claims again what its agent's last session still held. `leasefs unmount` gives them back all the same.",
)
@logging_options
@click.option("--foreground", is_flag=True, help="Stay, and write messages to stderr.")
@json_option
def command(
    source: str,
    mountpoint: str | None,
    agent: str | None,
    harness: str | None,
    allow_other: bool,
    replace: bool,
    fsmonitor: bool,
    redirects: bool,
    cpu_latency: str,
    unleased: str | None,
    wait_s: float | None,
    on_recall: str,
    over_dead: bool,
    keep_leases: bool,
    log_level: str,
    log_format: str,
    foreground: bool,
    as_json: bool,
) -> int:
    """Mount the working tree SOURCE for one agent, at MOUNTPOINT or over itself.

    Below the mount everything can be read as before. What changes a file passes only under a lease of
    this agent; git's own directory and what git ignores are free. One agent has one mount of a
    repository.

    Returns once the mount serves; what went wrong is the command's own error. If its daemon ever dies
    the mount stays closed, so that nobody writes past the leases: `leasefs unmount` clears it away.
    """
    if not source:
        raise click.BadParameter(
            "it is empty; name the directory of a working tree", param_hint="SOURCE"
        )
    wanted = MountConfig(
        source=os.path.abspath(source),
        mountpoint=os.path.abspath(mountpoint or source),
        agent=named_or_own(agent),
        harness=harness_name(harness),
        replace=replace,
        allow_other=allow_other,
        fsmonitor=fsmonitor,
        redirects=redirects,
        cpu_latency=cpu_latency,
        unleased=unleased or "",
        wait_s=wait_s,
        on_recall=on_recall,
        over_dead=over_dead,
        keep_leases=keep_leases,
        settings={
            **config.given_texts(),
            "log.level": log_level,
            "log.format": log_format,
        },
    )
    tell_strange_variables()
    _refuse_silent(wanted.mountpoint)
    if foreground:
        return _stay(wanted, as_json=as_json)
    _report(start_mount(wanted), as_json=as_json)
    return DONE


def _refuse_silent(mountpoint: str) -> None:
    """Whoever looks at a mount that does not answer waits without end: one that is dead is cut off first."""
    there = top_at(mountpoint)
    if there is None or not there.is_leasefs or ask(mountpoint).errno is not None:
        return
    daemon = registered_daemon(mountpoint)
    if daemon is not None:
        raise NotMounted(
            f"{mountpoint} is a mount whose daemon (process {daemon.pid}) does not answer; is it stopped "
            f"(kill -CONT)? Else: leasefs unmount {mountpoint}",
            path=mountpoint,
        )
    cut_off(there, f"the daemon of {mountpoint} is gone, yet hangs in the kernel")


def _stay(wanted: MountConfig, *, as_json: bool) -> int:
    """Serve in this process until told to stop."""
    from leasefs.client.log_setup import log_as
    from leasefs.mount.daemon import run

    log_as(
        "leasefs-mount",
        {"agent": wanted.agent},
        level=wanted.settings["log.level"],
        how=wanted.settings["log.format"],
    )
    refused: list[dict[str, Any]] = []

    def hear(outcome: dict[str, Any]) -> None:
        if "ready" in outcome:
            _report(outcome["ready"], as_json=as_json)
        else:
            refused.append(outcome["error"])

    code = run(wanted, hear)
    if refused:
        raise error_of(refused[0]["code"], refused[0]["message"], refused[0]["details"])
    return DONE if code == 0 else UNEXPECTED


def _report(about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(about)
        return
    place = about["mountpoint"]
    where = f"{place} in place" if about["source"] == place else f"{about['source']} at {place}"
    say(printable(f"mounted {where} for {about['agent']} ({about['harness']})"))
    if (os.path.realpath(os.getcwd()) + "/").startswith(place.rstrip("/") + "/"):
        tell(
            f"this shell still stands in the bare tree beneath; `cd {place}` to work through the mount"
        )
