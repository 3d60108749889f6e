"""Every setting there is, in one table: its name, what it may be, its default, and who may say it.

The name is the key of each file (`claim.ttl_s` is `ttl_s` of the table `[claim]`), of `leasefs -c NAME=VALUE`, and of
`leasefs config`. Who says what, the later before the earlier:

    default ◂ system file ◂ user file ◂ repository's file ◂ environment ◂ command line

A repository is not trusted: it says how its own territory is worked in, and never which ledger is spoken to, who one
is, what is run, or what is served past the mount.

To add one: a line here or in `settings_ledger`, a command or process that reads it (`leasefs.client.config`), and how it is seen to
be honoured (`tests/cli/test_config_honoured.py`; a setting that nobody reads fails there). `scripts/man` writes it into the docs.
"""

from __future__ import annotations

from leasefs.core import setting_kinds as kinds
from leasefs.core import unleased_policy as unleased
from leasefs.core.lease import DEFAULT_TTL_S, MAX_TTL_S, MIN_TTL_S
from leasefs.core.roles import GREATEST_PRIORITY, LEAST_PRIORITY, PRIORITIES
from leasefs.core.setting import ANYBODY, HOST, PERSON, PROJECT, Setting
from leasefs.core.settings_ledger import LIMITS as LIMITS
from leasefs.core.settings_ledger import LOG_FORMATS as LOG_FORMATS
from leasefs.core.settings_ledger import LOG_LEVELS as LOG_LEVELS
from leasefs.core.settings_ledger import OF_LEDGER

MAX_WAIT_S = 7 * 86400.0
DEFAULT_CHECK_TIMEOUT_S = 600.0
MAX_CHECK_TIMEOUT_S = 24 * 3600.0
CPU_LATENCIES = "auto", "low", "any"

OF_WORK = (
    Setting(
        "agent.name",
        kinds.text("a name"),
        None,
        PERSON,
        "Who you are outside a mount, and whose a mount is.",
        unset="the identity whose token you have, else USER@HOST; outside a mount a claim then asks for a name",
        spelt="LEASEFS_AGENT",
        option="--agent",
    ),
    Setting(
        "agent.harness",
        kinds.text("a name"),
        None,
        HOST,
        "What the agent works with, for others to read.",
        unset="told from the environment, else `shell`",
        spelt="LEASEFS_HARNESS",
        option="mount --harness",
    ),
    Setting(
        "claim.ttl_s",
        kinds.seconds(MIN_TTL_S, MAX_TTL_S),
        DEFAULT_TTL_S,
        HOST,
        "How long a lease outlives its last use.",
        option="claim --ttl",
    ),
    Setting(
        "claim.wait_s",
        kinds.seconds(0.0, MAX_WAIT_S, forever=True),
        0.0,
        HOST,
        "How long a claim queues instead of being refused.",
        option="claim --wait",
    ),
    Setting(
        "claim.priority",
        kinds.priority(PRIORITIES, LEAST_PRIORITY, GREATEST_PRIORITY),
        0,
        HOST,
        "Its place in the queue before arrival counts.",
        option="claim --priority",
    ),
    Setting(
        "mount.allow_other",
        kinds.flag(),
        False,
        HOST,
        "Other users may use the mount, too.",
        option="mount --allow-other",
    ),
    Setting(
        "mount.fsmonitor",
        kinds.flag(),
        True,
        HOST,
        "Git asks the mount what changed.",
        option="mount --no-fsmonitor",
    ),
    Setting(
        "mount.redirects",
        kinds.flag(),
        True,
        HOST,
        "Large directories that git ignores are served natively where leasefs may mount.",
        option="mount --no-redirects",
    ),
    Setting(
        "mount.cpu_latency",
        kinds.choice(*CPU_LATENCIES),
        "auto",
        HOST,
        "How soon an idle processor is to wake up while requests come in a row: at once (`low`, root only), or as it likes (`any`); "
        "`auto` is `low` on a virtual machine with at most four processors.",
        option="mount --cpu-latency",
    ),
    Setting(
        "mount.keep_leases",
        kinds.flag(),
        False,
        HOST,
        "Leases are kept over a restart of the mount.",
        option="mount --keep-leases",
    ),
    Setting(
        "mount.on_recall",
        kinds.shell_command(),
        "",
        HOST,
        "A command to run in the mount when a lease is recalled.",
        spelt="LEASEFS_ON_RECALL",
        option="mount --on-recall",
    ),
    Setting(
        "unleased.policy",
        kinds.policy(),
        "deny",
        ANYBODY,
        "What a mount does about a write that no lease covers. A repository may not say `observe`.",
        option="mount --unleased",
        in_repository=kinds.refusing_policy,
    ),
    Setting(
        "unleased.wait_s",
        kinds.seconds(0.0, unleased.MAX_WAIT_S),
        unleased.DEFAULT_WAIT_S,
        ANYBODY,
        "How long such a write waits at most.",
        option="mount --unleased-wait",
    ),
    Setting(
        "unleased.idle_s",
        kinds.seconds(0.0, unleased.MAX_IDLE_S),
        unleased.DEFAULT_IDLE_S,
        ANYBODY,
        "What was claimed by a write is given back when it was not used for so long.",
    ),
    Setting(
        "unleased.ttl_s",
        kinds.seconds(MIN_TTL_S, MAX_TTL_S),
        unleased.DEFAULT_TTL_S,
        ANYBODY,
        "And lapses so long after its last use where it is not.",
    ),
    Setting(
        "unleased.uncommitted",
        kinds.choice("keep", "lapse"),
        None,
        ANYBODY,
        "Given back with uncommitted work, which stays listed, or left to lapse.",
        unset="`keep` where `release.require` says nothing or `none`, else `lapse`",
    ),
    Setting(
        "unleased.regions",
        kinds.directories(),
        (),
        PROJECT,
        "Directories that such a write claims as a whole.",
    ),
    Setting(
        "territory",
        kinds.text("a text"),
        None,
        PROJECT,
        "The territory's id.",
        unset="the URL of `origin`, else the path",
    ),
    Setting(
        "upstream",
        kinds.text("a branch"),
        None,
        PROJECT,
        "Where work has landed.",
        unset="`origin`'s HEAD, else the branch's upstream",
    ),
    Setting(
        "release.require",
        kinds.choice("none", "committed", "pushed"),
        None,
        ANYBODY,
        "What a lease's paths must be before it is given back.",
        unset="`committed`",
        option="release --require",
    ),
    Setting(
        "release.checks",
        kinds.commands(),
        (),
        PROJECT,
        "Commands that must pass before it is; run as who releases.",
    ),
    Setting(
        "release.check_timeout_s",
        kinds.seconds(0.0, MAX_CHECK_TIMEOUT_S, zero=False),
        DEFAULT_CHECK_TIMEOUT_S,
        ANYBODY,
        "For each of those commands.",
    ),
    Setting(
        "hooks.trailer",
        kinds.flag(),
        False,
        ANYBODY,
        "Commits name the leases that they were made under.",
    ),
)

SETTINGS: dict[str, Setting] = {one.name: one for one in (*OF_LEDGER, *OF_WORK)}


def of_place(place: str) -> dict[tuple[str, ...], Setting]:
    """What the file of a place may say, by where it stands in the document."""
    return {one.key: one for one in SETTINGS.values() if place in one.files}


def nearest(name: str, known: list[str] | None = None) -> str:
    """The setting (or the one of `known`) whose name is most like a misspelt one, or ""."""
    from difflib import get_close_matches  # only for who misspelt one

    near = get_close_matches(name[:80], known or list(SETTINGS), n=1, cutoff=0.6)
    return near[0] if near else ""
