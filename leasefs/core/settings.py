"""Every setting there is, in one table: its name, what it may be, its default, and who may say it.

The name is the key of each file (`claim.ttl_s` is `ttl_s` of the table `[claim]`), of `leasefs -c NAME=VALUE`, and of
`leasefs config`. Who says what, the later before the earlier:

    default ◂ system file ◂ user file ◂ repository's file ◂ environment ◂ command line

A repository is not trusted: it says how its own territory is worked in, and never which ledger is spoken to, who one
is, what is run, or what is served past the mount.

To add one: a line in `SETTINGS`, a command or process that reads it (`leasefs.client.config`), and how it is seen to
be honoured (`tests/cli/test_config_honoured.py`; a setting that nobody reads fails there). `scripts/man` writes it into the docs.
"""

from __future__ import annotations

from leasefs.core import setting_kinds as kinds
from leasefs.core import unleased_policy as unleased
from leasefs.core.lease import DEFAULT_TTL_S, MAX_TTL_S, MIN_TTL_S
from leasefs.core.roles import GREATEST_PRIORITY, LEAST_PRIORITY, PRIORITIES
from leasefs.core.setting import REPOSITORY, SYSTEM, USER, Setting

_ANYBODY = (SYSTEM, USER, REPOSITORY)
_HOST = (SYSTEM, USER)
_PERSON = (USER,)
_PROJECT = (REPOSITORY,)

MAX_WAIT_S = 7 * 86400.0
MAX_IDLE_S = 30 * 86400.0
EMBEDDED_IDLE_S = 60.0
DEFAULT_CHECK_TIMEOUT_S = 600.0
MAX_CHECK_TIMEOUT_S = 24 * 3600.0

LIMITS = {
    "requests": (1000, "Requests of one client in a second; heartbeats have a pace of their own."),
    "connects": (200, "New connections of one address in a second, before TLS."),
    "connections": (4096, "Connections at once of one local user or address."),
    "streams": (2048, "Event streams and long polls at once of one client."),
    "sessions": (256, "Sessions of one identity."),
    "waiting": (1000, "Claims of one client that wait."),
}
"""How much of a ledger one client may take, by default: `leasefs.service.limits`."""


SETTINGS: dict[str, Setting] = {
    one.name: one
    for one in (
        # -- who speaks to which ledger ---------------------------------------------------------
        Setting(
            "ledger.url",
            kinds.text("`unix:/path`, or a URL"),
            None,
            _HOST,
            "The ledger to speak to.",
            unset="one of your own, started when it is needed",
            spelt="LEASEFS_LEDGER",
        ),
        Setting(
            "ledger.idle_s",
            kinds.seconds(1.0, MAX_IDLE_S),
            EMBEDDED_IDLE_S,
            _HOST,
            "How long the ledger that was started for you stays when nothing needs it.",
        ),
        Setting(
            "ledger.keep_events",
            kinds.whole(1_000, 10**12),
            20_000_000,
            _HOST,
            "How many events of its log the ledger keeps at least; older ones are dropped.",
        ),
        Setting(
            "ledger.keep_s",
            kinds.seconds(3600.0, 1e10),
            None,
            _HOST,
            "How old an event may become.",
            unset="any age",
        ),
        Setting(
            "ledger.keep_bytes",
            kinds.whole(2**20, 10**15, "bytes"),
            None,
            _HOST,
            "How big the log may become.",
            unset="any size",
        ),
        Setting(
            "ledger.archive",
            kinds.file_path("a directory"),
            None,
            _HOST,
            "Where events go before they are dropped, as compressed lines of JSON.",
            unset="nowhere",
        ),
        Setting(
            "agent.name",
            kinds.text("a name"),
            None,
            _PERSON,
            "Who you are outside a mount, and whose a mount is.",
            unset="USER@HOST; outside a mount a claim then asks for a name",
            spelt="LEASEFS_AGENT",
            option="--agent",
        ),
        Setting(
            "agent.harness",
            kinds.text("a name"),
            None,
            _HOST,
            "What the agent works with, for others to read.",
            unset="told from the environment, else `shell`",
            spelt="LEASEFS_HARNESS",
            option="mount --harness",
        ),
        Setting(
            "ledger.token_file",
            kinds.file_path(),
            None,
            _HOST,
            "The file of the token that says who you are to a ledger that is not your own. Nobody else may read it.",
            unset="systemd's credential `leasefs-token`, else `leasefs/tokens/HOST:PORT` or `.../HOST` in XDG_CONFIG_HOME",
            spelt="LEASEFS_TOKEN_FILE",
        ),
        Setting(
            "ledger.ca_file",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "Whose signature a ledger's certificate must have.",
            unset="one of the authorities that this system trusts",
            spelt="LEASEFS_CA_FILE",
        ),
        Setting(
            "ledger.client_cert_file",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "The certificate to show a ledger that asks for one.",
            unset="none",
            spelt="LEASEFS_CLIENT_CERT_FILE",
        ),
        Setting(
            "ledger.client_key_file",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "Its key.",
            unset="in the same file",
            spelt="LEASEFS_CLIENT_KEY_FILE",
        ),
        # -- what a ledger serves ---------------------------------------------------------------
        Setting(
            "ledger.listen",
            kinds.places_to_listen(),
            (),
            _HOST,
            "Where `leasefs ledger serve` is reached by TCP, always with TLS.",
            option="ledger serve --listen",
        ),
        Setting(
            "ledger.tls_cert",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "Its certificate, with those between it and its authority.",
            unset="none, and nothing is served by TCP",
            option="ledger serve --tls-cert",
        ),
        Setting(
            "ledger.tls_key",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "The key of that certificate. Nobody else may read it.",
            unset="none",
            option="ledger serve --tls-key",
        ),
        Setting(
            "ledger.tls_client_ca",
            kinds.file_path("a PEM file"),
            None,
            _HOST,
            "Whose signature the certificate of a client must have that comes by TCP.",
            unset="clients need none",
            option="ledger serve --tls-client-ca",
        ),
        *(
            Setting(
                f"limits.{name}",
                kinds.whole(0, 10**9, "0 for none"),
                most,
                _HOST,
                f"{words} A ledger that is started for you alone goes by the defaults.",
                option=f"ledger serve --limit {name}=NUMBER",
            )
            for name, (most, words) in LIMITS.items()
        ),
        # -- claims -----------------------------------------------------------------------------
        Setting(
            "claim.ttl_s",
            kinds.seconds(MIN_TTL_S, MAX_TTL_S),
            DEFAULT_TTL_S,
            _HOST,
            "How long a lease outlives its last use.",
            option="claim --ttl",
        ),
        Setting(
            "claim.wait_s",
            kinds.seconds(0.0, MAX_WAIT_S, forever=True),
            0.0,
            _HOST,
            "How long a claim queues instead of being refused.",
            option="claim --wait",
        ),
        Setting(
            "claim.priority",
            kinds.priority(PRIORITIES, LEAST_PRIORITY, GREATEST_PRIORITY),
            0,
            _HOST,
            "Its place in the queue before arrival counts.",
            option="claim --priority",
        ),
        # -- mounts -----------------------------------------------------------------------------
        Setting(
            "mount.allow_other",
            kinds.flag(),
            False,
            _HOST,
            "Other users may use the mount, too.",
            option="mount --allow-other",
        ),
        Setting(
            "mount.fsmonitor",
            kinds.flag(),
            True,
            _HOST,
            "Git asks the mount what changed.",
            option="mount --no-fsmonitor",
        ),
        Setting(
            "mount.redirects",
            kinds.flag(),
            True,
            _HOST,
            "Large directories that git ignores are served natively where leasefs may mount.",
            option="mount --no-redirects",
        ),
        Setting(
            "mount.keep_leases",
            kinds.flag(),
            False,
            _HOST,
            "Leases are kept over a restart of the mount.",
            option="mount --keep-leases",
        ),
        Setting(
            "mount.on_recall",
            kinds.shell_command(),
            "",
            _HOST,
            "A command to run in the mount when a lease is recalled.",
            spelt="LEASEFS_ON_RECALL",
            option="mount --on-recall",
        ),
        # -- writes that no lease covers -------------------------------------------------------------
        Setting(
            "unleased.policy",
            kinds.policy(),
            "deny",
            _ANYBODY,
            "What a mount does about a write that no lease covers. A repository may not say `observe`.",
            option="mount --unleased",
            in_repository=kinds.refusing_policy,
        ),
        Setting(
            "unleased.wait_s",
            kinds.seconds(0.0, unleased.MAX_WAIT_S),
            unleased.DEFAULT_WAIT_S,
            _ANYBODY,
            "How long such a write waits at most.",
            option="mount --unleased-wait",
        ),
        Setting(
            "unleased.idle_s",
            kinds.seconds(0.0, unleased.MAX_IDLE_S),
            unleased.DEFAULT_IDLE_S,
            _ANYBODY,
            "What was claimed by a write is given back when it was not used for so long.",
        ),
        Setting(
            "unleased.ttl_s",
            kinds.seconds(MIN_TTL_S, MAX_TTL_S),
            unleased.DEFAULT_TTL_S,
            _ANYBODY,
            "And lapses so long after its last use where it is not.",
        ),
        Setting(
            "unleased.uncommitted",
            kinds.choice("keep", "lapse"),
            None,
            _ANYBODY,
            "Given back with uncommitted work, which stays listed, or left to lapse.",
            unset="`keep` where `release.require` says nothing or `none`, else `lapse`",
        ),
        Setting(
            "unleased.regions",
            kinds.directories(),
            (),
            _PROJECT,
            "Directories that such a write claims as a whole.",
        ),
        # -- the project ------------------------------------------------------------------------
        Setting(
            "territory",
            kinds.text("a text"),
            None,
            _PROJECT,
            "The territory's id.",
            unset="the URL of `origin`, else the path",
        ),
        Setting(
            "upstream",
            kinds.text("a branch"),
            None,
            _PROJECT,
            "Where work has landed.",
            unset="`origin`'s HEAD, else the branch's upstream",
        ),
        Setting(
            "release.require",
            kinds.choice("none", "committed", "pushed"),
            None,
            _ANYBODY,
            "What a lease's paths must be before it is given back.",
            unset="`committed`",
            option="release --require",
        ),
        Setting(
            "release.checks",
            kinds.commands(),
            (),
            _PROJECT,
            "Commands that must pass before it is; run as who releases.",
        ),
        Setting(
            "release.check_timeout_s",
            kinds.seconds(0.0, MAX_CHECK_TIMEOUT_S, zero=False),
            DEFAULT_CHECK_TIMEOUT_S,
            _ANYBODY,
            "For each of those commands.",
        ),
        Setting(
            "hooks.trailer",
            kinds.flag(),
            False,
            _ANYBODY,
            "Commits name the leases that they were made under.",
        ),
    )
}


def of_place(place: str) -> dict[tuple[str, ...], Setting]:
    """What the file of a place may say, by where it stands in the document."""
    return {one.key: one for one in SETTINGS.values() if place in one.files}


def nearest(name: str, known: list[str] | None = None) -> str:
    """The setting (or the one of `known`) whose name is most like a misspelt one, or ""."""
    from difflib import get_close_matches  # only for who misspelt one

    near = get_close_matches(name[:80], known or list(SETTINGS), n=1, cutoff=0.6)
    return near[0] if near else ""
