"""What can go wrong when asking git. Every message says what happened and to which path."""

from __future__ import annotations


class VcsError(Exception):
    """Anything this package refuses or fails at; catch this one to fail closed."""


class BadGitFile(VcsError):
    """`.git` is there but is not a git directory, nor a file that leads to one."""


class GitFailed(VcsError):
    """A git command ended with an error, could not be started, or took too long."""


class BadRemoteUrl(VcsError):
    """A remote's URL cannot name a territory (empty, too long, control characters)."""


class BadTerritoryFile(VcsError):
    """`.leasefs.toml` cannot be read, or says something it must not say."""


class RulesRefused(VcsError):
    """An ignore file is too large, too costly or unreadable, so none of it is believed."""


class RescueFailed(VcsError):
    """Uncommitted paths could not be kept; no part of them was."""


class NoSuchRescue(VcsError):
    """No rescue has this id, or it does not hold this path."""


class RestoreRefused(VcsError):
    """A rescue cannot be put back as asked; nothing was touched."""


class RestoreStopped(VcsError):
    """A path could not be written in the middle of putting a rescue back; those before it were."""
