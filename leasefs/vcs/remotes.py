"""One name for one remote repository, however a clone spells its URL (git-fetch(1), "GIT URLS")."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from leasefs.vcs.errors import BadRemoteUrl
from leasefs.vcs.plumbing import config_values

if TYPE_CHECKING:
    from leasefs.vcs.gitdir import GitDir

_LIMIT_CHARACTERS = 2048
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>.*)")
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
# user@host:path, [host]:path, [user@host:port]:path; the colon comes before any slash
_SCP = re.compile(r"(?P<authority>(?:[^/:@\[]*@)?(?:\[[^/\]]+\]|[^/:\[\]]+)):(?P<path>.*)")
_AUTHORITY = re.compile(r"(?:.*@)?(?P<host>\[[^\]]*\]|[^:]*)(?::\d*)?")
# Hosts through which a provider offers ssh on the https port; the repositories are those of the main host.
_SSH_ALIASES = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}


def origin_url(gitdir: GitDir) -> str | None:
    """The first URL of remote `origin` as configured (url.*.insteadOf is one host's own and not applied), or None.

    Bytes that are not UTF-8 come as surrogate escapes.

    Raises:
        GitFailed: the configuration cannot be read.
    """
    urls = config_values(gitdir, "remote.origin.url")
    return urls[0].decode(errors="surrogateescape") if urls else None


def normalise_remote_url(url: str) -> str:
    """`host/path` for a remote on a host, `path:/absolute/path` for one in the file system.

    Scheme, user, password, port, case of the host, `.git` and slashes around the path are dropped, so that
    `git@github.com:o/r.git` and `https://GitHub.com/o/r/` meet. The port goes too, since one server's ssh and https
    have different ones. The path keeps its case. A relative path stays as it is: only the caller knows from where. The
    address of a remote helper (`ext::...`) is taken verbatim.

    Raises:
        BadRemoteUrl: empty, longer than 2,048 characters, with control characters, or without a host.
    """
    _check(url, url)
    name = _normalised(url)
    _check(name, url)
    return name


def local_name(path: str) -> str:
    """The name of the repository at absolute `path`, as `normalise_remote_url` gives it to a clone made from there."""
    return f"path:/{_clean(posixpath.normpath(path))}"


def _check(text: str, url: str) -> None:
    """Asked again of the result, since a URL can hide a control character as `%0a`."""
    control = any(ord(mark) < 32 or mark == "\x7f" for mark in text)
    if not text or control or len(text) > _LIMIT_CHARACTERS:
        raise BadRemoteUrl(
            f"the remote URL {url[:80]!r} is empty, too long or has control characters"
        )


def _normalised(url: str) -> str:
    if _HELPER.match(url):
        return url
    if found := _URL.fullmatch(url):
        path = unquote(found["path"], errors="surrogateescape")
        is_file = found["scheme"].lower() == "file"
        return local_name(path) if is_file else _remote(url, found["authority"], path)
    if found := _SCP.fullmatch(url):
        return _remote(url, _scp_host(found["authority"]), found["path"])
    return local_name(url) if url.startswith("/") else url


def _scp_host(authority: str) -> str:
    """`[user@host:port]` is a scp-like way to give a port; `[::1]` is an address."""
    _, _, host = authority.rpartition("@") if not authority.startswith("[") else ("", "", authority)
    inner = host[1:-1]
    if host.startswith("[") and inner.count(":") < 2:
        return inner
    return host


def _remote(url: str, authority: str, path: str) -> str:
    found = _AUTHORITY.fullmatch(authority)
    host = found["host"].lower().rstrip(".") if found else ""
    if not host:
        raise BadRemoteUrl(f"the remote URL {url[:80]!r} names no host")
    return f"{_SSH_ALIASES.get(host, host)}/{_clean(path)}".rstrip("/")


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if parts and parts[-1] != ".git":
        parts[-1] = parts[-1].removesuffix(".git")
    elif parts:
        parts.pop()  # /repo/.git is the repository /repo
    return "/".join(parts)
