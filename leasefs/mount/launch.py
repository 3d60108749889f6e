"""Starting a mount's daemon and hearing how it went. Light, because the command line imports it.

The configuration goes in through one pipe and the outcome comes back through another, so that argv
and environment tell nothing, and no secret is in either.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from leasefs.client import paths
from leasefs.client.log_files import opened_log
from leasefs.client.names import fit_name
from leasefs.core.errors import NotMounted, error_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# A mount waits for its ledger, for git's index and for the ignore rules of a large tree.
START_TIMEOUT_S = 60.0


class MountConfig(NamedTuple):
    """What to mount, for whom. `mountpoint` equal to `source` mounts in place.

    `ledger` is an address, or empty for the one that is configured (`ledger.url`, else the embedded one).
    `fsmonitor` lets git ask the mount what changed; `redirects` serves scratch directories natively;
    `cpu_latency` is one of `leasefs.core.settings.CPU_LATENCIES`.
    `unleased` is what becomes of writes that no lease covers, one of `leasefs.core.unleased_policy.WORDS`, and `wait_s`
    how long they wait; empty and None leave it to `.leasefs.toml`. `on_recall` is run by a shell at each recall.
    `over_dead` mounts over a dead mount that is there, instead of refusing. `keep_leases` keeps them over a restart.
    `settings` were given on the command line (`leasefs -c`), by name, as text.
    """

    source: str
    mountpoint: str
    agent: str
    harness: str
    ledger: str = ""
    replace: bool = False
    allow_other: bool = False
    fsmonitor: bool = True
    redirects: bool = True
    cpu_latency: str = "auto"
    unleased: str = ""
    wait_s: float | None = None
    on_recall: str = ""
    over_dead: bool = False
    keep_leases: bool = False
    settings: Mapping[str, str] = {}

    def encode(self) -> bytes:
        """The bytes that `decode` reads."""
        return json.dumps(self._asdict()).encode()


def decode_config(data: bytes) -> MountConfig:
    """The configuration written by `encode`. Raises ValueError or TypeError for anything else."""
    return MountConfig(**json.loads(data))


def start_mount(config: MountConfig) -> dict[str, Any]:
    """Start the daemon detached, wait until it serves, and return the facts of its `mount.json`.

    Raises:
        LeasefsError: what the daemon refused, as its own class.
        NotMounted: it cannot be started, ended without a word, or is not ready within a minute; names its log.
    """
    log_path = os.path.join(paths.state_dir(), f"mount-{fit_name(config.agent)}.log")
    try:
        return _started(config, log_path)
    except OSError as error:  # a full or read-only disk, or no process or descriptor to be had
        where = f"{error.filename}: " if error.filename else ""
        raise NotMounted(
            f"the mount's daemon cannot be started: {where}{error.strerror}; `leasefs doctor` says more",
            log=log_path,
        ) from error


def _started(config: MountConfig, log_path: str) -> dict[str, Any]:
    with opened_log(log_path) as log:
        config_out, config_in = os.pipe()
        status_out, status_in = os.pipe()
        with open(status_out, "rb") as status:
            try:
                child = subprocess.Popen(
                    _command(config_out, status_in),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=[config_out, status_in],
                )
                # A child that ended at once says why on the other pipe, or in its log.
                with contextlib.suppress(BrokenPipeError):
                    os.write(config_in, config.encode())
            finally:
                for fd in (config_out, config_in, status_in):
                    os.close(fd)
            # Reaps it in a caller that lives on; it is not waited for otherwise.
            threading.Thread(target=child.wait, daemon=True).start()
            return _outcome(status, child, log_path)


def _command(config_fd: int, status_fd: int) -> list[str]:
    return [sys.executable, "-m", "leasefs.mount", str(config_fd), str(status_fd)]


def _outcome(status: IO[bytes], child: subprocess.Popen[bytes], log_path: str) -> dict[str, Any]:
    readable, _, _ = select.select([status], [], [], START_TIMEOUT_S)
    if not readable:
        child.terminate()
        raise NotMounted(
            f"the mount was not ready within {START_TIMEOUT_S:g} s and was stopped; its log is {log_path}"
        )
    line = status.readline()
    said: dict[str, Any] = json.loads(line) if line else {}
    if "ready" in said:
        ready: dict[str, Any] = said["ready"]
        return ready
    if "error" in said:
        error = said["error"]
        raise error_of(error["code"], error["message"], error["details"])
    raise NotMounted(
        f"the mount's daemon ended without a word; its log is {log_path}", log=log_path
    )
