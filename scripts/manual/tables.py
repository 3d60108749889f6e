"""What the help pages do not list by themselves: variables of the environment, and files."""

from __future__ import annotations

from manual.settings_table import variables

ENVIRONMENT = (
    *variables(),
    (
        "LEASEFS_CONFIG_SYSTEM",
        "Another file in the place of /etc/leasefs/config.toml; empty for none.",
    ),
    (
        "LEASEFS_LEASE",
        "Set for the project's checks, and for what runs when a lease is recalled: the lease it is about.",
    ),
    (
        "LEASEFS_PATHS",
        "Set for the project's checks: a file with the leased paths in question, each ended by a NUL.",
    ),
    ("LEASEFS_MOUNTPOINT", "Set for what runs when a lease is recalled: the mount."),
    ("LEASEFS_RECALL_BY", "Set for the same: who recalls it."),
    ("LEASEFS_RECALL_REASON", "Set for the same: why."),
    (
        "LEASEFS_RECALL_WITHIN_S",
        "Set for the same: the seconds that are left; 0: writes have stopped.",
    ),
    ("LEASEFS_DEBUG", "1 shows the trace of an unexpected failure."),
    ("NO_COLOR", "If set, nothing is coloured."),
    ("XDG_STATE_HOME", "Where leasefs keeps what outlives a boot. Default `~/.local/state`."),
    ("XDG_RUNTIME_DIR", "Where leasefs keeps what is alive now. Default below the former."),
)

FILES = (
    (
        ".leasefs/",
        (
            "In each mount; listed by no `ls`. `leases`, `refusals`, `recalls` and `delegations` say what it holds and what was "
            "refused, each also as `.json`; `mount.json` says whose it is."
        ),
    ),
    (".leasefs.toml", "In a repository: its settings."),
    ("$XDG_CONFIG_HOME/leasefs/config.toml", "The user's settings; usually below `~/.config`."),
    ("/etc/leasefs/config.toml", "The machine's settings."),
    (
        "$XDG_CONFIG_HOME/leasefs/tokens/",
        (
            "The user's tokens for ledgers of other hosts, each in a file named `HOST:PORT` or `HOST`, of mode 0600; see "
            "`LEASEFS_TOKEN_FILE`."
        ),
    ),
    ("$XDG_STATE_HOME/leasefs/ledger/", "The log of the user's own ledger."),
    ("$XDG_STATE_HOME/leasefs/ledger.log", "What that ledger has to report."),
    ("$XDG_STATE_HOME/leasefs/cli-errors.log", "Traces of unexpected failures."),
    ("$XDG_RUNTIME_DIR/leasefs/mounts/", "A file for each live mount of the user."),
)
