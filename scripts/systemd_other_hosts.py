"""A step of scripts/systemd_trial: the machine's ledger serves other hosts, as docs/OPERATIONS.md has it.

The other host is this one again, by TCP: mounts whose units know the ledger by its https address alone.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from systemd_played import SOURCE, WORKSPACE

from leasefs.testing.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

    from systemd_played import Played

PORT = 8470
URL = f"https://localhost:{PORT}"
LEDGER = "leasefs-ledger"
TLS, TOKENS = "/etc/leasefs/tls", "/etc/leasefs/tokens"
FILE = "/etc/leasefs/config.toml"
DROP_IN = "/etc/systemd/system/leasefs-mount@eve.service.d"
SOCKET_DROP_IN = "/etc/systemd/system/leasefs-ledger.socket.d"


def other_hosts(played: Played, system: Path) -> None:
    """Serve TCP, mount over it twice, renew the certificate, and put all as it was before."""
    print("other hosts")
    inside = played.inside
    authority = _certificate(played, system)
    _shell(
        played,
        f"""printf '[ledger]\\ntls_cert = "{TLS}/ledger.pem"\\ntls_key = "{TLS}/ledger.key"\\n' > {FILE}
        mkdir -p {SOCKET_DROP_IN}
        printf '[Socket]\\nListenStream={PORT}\\n' > {SOCKET_DROP_IN}/tcp.conf
        systemctl daemon-reload && systemctl stop {LEDGER}.service
        systemctl restart {LEDGER}.socket && systemctl start {LEDGER}""",
    )
    played.check("the ledger is back", played.active(LEDGER))
    played.check("and says that it serves TCP", f":{PORT}" in played.journal(LEDGER))
    refused = inside.try_run("env", f"LEASEFS_LEDGER={URL}", "leasefs", "leases")
    played.check("an unknown authority is refused", "LEASEFS_CA_FILE" in refused.stderr, refused)
    _mount(played, "dan", f"LEASEFS_TOKEN_FILE={TOKENS}/dan\\n")
    _shell(played, f"mkdir -p {DROP_IN}")
    credential = f"[Service]\\nLoadCredential=leasefs-token:{TOKENS}/%%i\\n"
    _shell(played, f"printf '{credential}' > {DROP_IN}/token.conf && systemctl daemon-reload")
    _mount(played, "eve", "")
    _share_out(played)
    _renew(played, system, authority)
    _as_before(played)


def _certificate(played: Played, system: Path) -> Authority:
    """Made outside, where there is what makes them; its files are put in as the documentation says."""
    outside = system / "root" / "tls"
    outside.mkdir(mode=0o700)
    authority = Authority(str(outside))
    authority.leaf("localhost", label="ledger")
    _shell(
        played,
        f"""install -d {TLS} {TOKENS}; chmod 700 {TOKENS}; cd /root/tls
        install -m 644 authority-ledger.pem {TLS}/ledger.pem
        install -m 640 -g leasefs authority-ledger.key {TLS}/ledger.key
        install -m 644 authority.pem /etc/leasefs/authority.pem
        grep -qs localhost /etc/hosts || echo '127.0.0.1 localhost' >> /etc/hosts""",
    )
    return authority


def _mount(played: Played, agent: str, token: str) -> None:
    played.inside.run("install", "-d", "-o", "build", f"/srv/ws/{agent}")
    WORKSPACE[agent], SOURCE[agent] = f"/srv/ws/{agent}", SOURCE["ann"]
    issue = ("leasefs", "agent", "add", agent, "--token-file", f"{TOKENS}/{agent}")
    played.inside.run("env", "LEASEFS_LEDGER=unix:/run/leasefs/ledger.sock", *issue)
    lines = f"LEASEFS_SOURCE={SOURCE[agent]}\\nLEASEFS_MOUNTPOINT={WORKSPACE[agent]}\\n"
    lines += f"LEASEFS_LEDGER={URL}\\nLEASEFS_CA_FILE=/etc/leasefs/authority.pem\\n{token}"
    _shell(played, f"printf '{lines}' > /etc/leasefs/mounts/{agent}.env")
    unit = f"leasefs-mount@{agent}"
    played.inside.run("systemctl", "start", unit)
    played.check(f"{agent}'s mount is active", played.active(unit))
    facts = json.loads(played.shell(agent, "cat .leasefs/mount.json").stdout)
    played.check("its ledger is the other host's", facts["ledger"] == URL, facts)
    secret = played.inside.run("cat", f"{TOKENS}/{agent}").strip()
    said = played.inside.run("cat", f"/proc/{played.pid(unit)}/environ") + played.journal(unit)
    played.check("its token is in neither environment nor journal", secret not in said)


def _share_out(played: Played) -> None:
    played.claim("dan", "tcp/dan/**")
    done = played.shell("dan", "mkdir -p tcp/dan && echo 1 > tcp/dan/new")
    played.check("dan claims and writes", done.returncode == 0, done)
    refused = played.shell("eve", "leasefs claim 'tcp/**'")
    played.check("eve is refused what dan has", refused.returncode == 3, refused)
    played.check("and told who", "dan" in refused.stderr, refused)
    played.claim("eve", "tcp/eve/**")
    former = played.pid(LEDGER)
    played.inside.run("systemctl", "restart", LEDGER)
    played.check("the ledger restarts", played.active(LEDGER, former))
    played.check("dan writes on", played.writes("dan", "tcp/dan/new", "2"))
    played.until("and claims again", lambda: played.claim("dan", "tcp/more"))


def _renew(played: Played, system: Path, authority: Authority) -> None:
    authority.leaf("localhost", label="ledger")
    former = played.pid(LEDGER)
    _shell(
        played,
        f"""cd /root/tls && install -m 644 authority-ledger.pem {TLS}/ledger.pem
        install -m 640 -g leasefs authority-ledger.key {TLS}/ledger.key
        systemctl reload {LEDGER}""",
    )
    played.until("the certificate is read again", lambda: "again" in played.journal(LEDGER))
    played.check("by the same process", played.pid(LEDGER) == former)
    played.until("dan goes on", lambda: played.claim("dan", "tcp/after"))
    shutil.rmtree(system / "root" / "tls")


def _as_before(played: Played) -> None:
    for agent in ("dan", "eve"):
        played.shell(agent, "rm -rf tcp; leasefs release --all --force")
        _shell(played, f"systemctl stop leasefs-mount@{agent}; rm /etc/leasefs/mounts/{agent}.env")
        del WORKSPACE[agent], SOURCE[agent]
    _shell(
        played,
        f"""rm -r {FILE} {DROP_IN} {SOCKET_DROP_IN} {TLS} {TOKENS}; systemctl daemon-reload
        systemctl stop {LEDGER}.service
        systemctl restart {LEDGER}.socket && systemctl start {LEDGER}""",
    )
    # Ready is told to systemd, and the lines to the journal: the one may be there before the other.
    played.until("without it, it serves this machine alone", lambda: "https" not in _served(played))


def _served(played: Played) -> str:
    """Where the ledger said last that it serves."""
    told = played.journal(LEDGER).splitlines()
    return next(line for line in reversed(told) if "serving" in line)


def _shell(played: Played, script: str) -> str:
    return played.inside.run("sh", "-ec", script)
