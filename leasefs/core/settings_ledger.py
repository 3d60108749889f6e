"""The settings about ledgers: which one is spoken to, and how one is served. See `leasefs.core.settings`."""

from __future__ import annotations

from leasefs.core import setting_kinds as kinds
from leasefs.core.setting import HOST, Setting

MAX_IDLE_S = 30 * 86400.0
EMBEDDED_IDLE_S = 60.0

LIMITS = {
    "requests": (1000, "Requests of one client in a second; heartbeats have a pace of their own."),
    "connects": (200, "New connections of one address in a second, before TLS."),
    "connections": (
        1024,
        "Connections at once of one address, or of one local user who is not the ledger's own.",
    ),
    "streams": (512, "Event streams and long polls at once of one client."),
    "sessions": (256, "Sessions of one identity."),
    "waiting": (1000, "Claims of one client that wait."),
}
"""How much of a ledger one client may take, by default: `leasefs.service.limits`."""


LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "text", "json")

OF_LEDGER = (
    Setting(
        "ledger.url",
        kinds.text("`unix:/path`, or a URL"),
        None,
        HOST,
        "The ledger to speak to.",
        unset="one of your own, started when it is needed",
        spelt="LEASEFS_LEDGER",
    ),
    Setting(
        "ledger.idle_s",
        kinds.seconds(1.0, MAX_IDLE_S),
        EMBEDDED_IDLE_S,
        HOST,
        "How long the ledger that was started for you stays when nothing needs it.",
    ),
    Setting(
        "ledger.keep_events",
        kinds.whole(1_000, 10**12),
        20_000_000,
        HOST,
        "How many events of its log the ledger keeps at least; older ones are dropped.",
    ),
    Setting(
        "ledger.keep_s",
        kinds.seconds(3600.0, 1e10),
        None,
        HOST,
        "How old an event may become.",
        unset="any age",
    ),
    Setting(
        "ledger.keep_bytes",
        kinds.whole(2**20, 10**15, "bytes"),
        None,
        HOST,
        "How big the log may become.",
        unset="any size",
    ),
    Setting(
        "ledger.archive",
        kinds.file_path("a directory"),
        None,
        HOST,
        "Where events go before they are dropped, as compressed lines of JSON.",
        unset="nowhere",
    ),
    Setting(
        "ledger.token_file",
        kinds.file_path(),
        None,
        HOST,
        "The file of the token that says who you are to a ledger that is not your own. Nobody else may read it.",
        unset="systemd's credential `leasefs-token`, else `leasefs/tokens/HOST:PORT` or `.../HOST` in XDG_CONFIG_HOME",
        spelt="LEASEFS_TOKEN_FILE",
    ),
    Setting(
        "ledger.ca_file",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "Whose signature a ledger's certificate must have.",
        unset="one of the authorities that this system trusts",
        spelt="LEASEFS_CA_FILE",
    ),
    Setting(
        "ledger.client_cert_file",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "The certificate to show a ledger that asks for one.",
        unset="none",
        spelt="LEASEFS_CLIENT_CERT_FILE",
    ),
    Setting(
        "ledger.client_key_file",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "Its key.",
        unset="in the same file",
        spelt="LEASEFS_CLIENT_KEY_FILE",
    ),
    Setting(
        "ledger.listen",
        kinds.places_to_listen(),
        (),
        HOST,
        "Where `leasefs ledger serve` is reached by TCP, always with TLS.",
        option="ledger serve --listen",
    ),
    Setting(
        "ledger.tls_cert",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "Its certificate, with those between it and its authority.",
        unset="none, and nothing is served by TCP",
        option="ledger serve --tls-cert",
    ),
    Setting(
        "ledger.tls_key",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "The key of that certificate. Nobody else may read it.",
        unset="none",
        option="ledger serve --tls-key",
    ),
    Setting(
        "ledger.tls_client_ca",
        kinds.file_path("a PEM file"),
        None,
        HOST,
        "Whose signature the certificate of a client must have that comes by TCP.",
        unset="clients need none",
        option="ledger serve --tls-client-ca",
    ),
    *(
        Setting(
            f"limits.{name}",
            kinds.whole(0, 10**9, "0 for none"),
            most,
            HOST,
            f"{words} A ledger that is started for you alone goes by the defaults.",
            option=f"ledger serve --limit {name}=NUMBER",
        )
        for name, (most, words) in LIMITS.items()
    ),
    Setting(
        "log.level",
        kinds.choice(*LOG_LEVELS),
        "info",
        HOST,
        "What ledgers and mounts log: this and what is worse.",
        option="ledger serve --log-level",
    ),
    Setting(
        "log.format",
        kinds.choice(*LOG_FORMATS),
        "auto",
        HOST,
        "How: `auto` is journald's fields under systemd, else lines of text; `json` is an object on each line.",
        option="ledger serve --log-format",
    ),
)
