"""Who writes, and with what: the defaults behind `--agent` and `--harness`."""

from __future__ import annotations

import os
import re

from leasefs.client import config

# Variables that a harness sets for the commands it runs, most telling first.
_HARNESS_MARKS = (
    ("CLAUDECODE", "claude"),
    ("CODEX_SANDBOX", "codex"),
    ("GEMINI_CLI", "gemini"),
    ("CURSOR_AGENT", "cursor"),
    ("OPENCODE", "opencode"),
    ("AIDER_MODEL", "aider"),
)
_UNFIT = re.compile(r"[^A-Za-z0-9._@+-]+")
_MAX_NAME = 64


def agent_name(given: str | None = None) -> str:
    """`given`, else the setting `agent.name`, else user@host made fit for a name.

    A name that was given is left as it is: the ledger says what is wrong with it.
    """
    return given or configured_agent() or fit_name(f"{_user()}@{host_name()}")


def configured_agent() -> str:
    """The setting `agent.name`, "" if it says nothing. Raises BadConfiguration."""
    return config.text("agent.name")


def harness_name(given: str | None = None) -> str:
    """`given`, else the setting `agent.harness`, else what the environment betrays, else `shell`."""
    named = given or config.text("agent.harness")
    if named:
        return named
    return next((name for mark, name in _HARNESS_MARKS if os.environ.get(mark)), "shell")


def host_name() -> str:
    """This machine's name (uname(2)), for people; no rule depends on it."""
    return os.uname().nodename


def _user() -> str:
    named = os.environ.get("LOGNAME") or os.environ.get("USER")
    if named:
        return named
    import pwd  # only where no login set LOGNAME

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid{os.geteuid()}"


def fit_name(name: str) -> str:
    """`name` with every run of characters that no agent's name may have replaced by `-`."""
    return _UNFIT.sub("-", name).lstrip("._@+-")[:_MAX_NAME] or "agent"
