"""The release gate's checks: the project's own commands, before a lease is given back.

Run here, as the person who releases, and not by any daemon: what a repository says is to be run has the
rights of the one who trusts it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.config import around
from leasefs.client.paths import private_dir, state_dir
from leasefs.core.errors import ChecksFailed, InvalidRequest
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.vcs.checks import CheckResult
    from leasefs.vcs.project_file import ProjectFile
    from leasefs_cli.place import Place

# The project file's name, spelt here too: most releases need not import what reads it.
_PROJECT_FILE = ".leasefs.toml"
_OUTPUTS_KEPT = 20


class Gate:
    """What the project at a place asks of a release."""

    def __init__(self, place: Place) -> None:
        """Reads the settings of releases. Raises InvalidRequest if they cannot be understood."""
        self._place = place
        self._project = _project_of(place.roots.mountpoint)

    @property
    def require(self) -> str | None:
        """What the changes under a lease must be by the settings as they are now; None if nothing is said.

        The mount read them when it began.
        """
        return (self._project.require or "committed") if self._project else None

    def check(self, lease_id: str, require: str | None) -> None:
        """Run the checks on what was changed under the lease and has not landed.

        Nothing is run while the lease is dirty: then it is refused for that.

        Raises:
            ChecksFailed: they do not pass; the message names them and where their output is.
        """
        project = self._project
        if project is None or not project.checks or not self._holds(lease_id):
            return
        if self._place.mount is not None:
            # The ledger hears of a commit a moment later, and the release itself asks git.
            self._place.link.send(api.look())
        intents = self._place.link.send(api.intents(self._place.territory, lease=lease_id))[
            "intents"
        ]
        asked = require or project.require or "committed"
        if asked != "none" and any(one["state"] == "dirty" for one in intents):
            return
        paths = [one["path"].encode("utf-8", "surrogateescape") for one in intents]
        results = self._run(project, lease_id, paths)
        failed = [result for result in results if not result.passed]
        if failed:
            raise ChecksFailed(lease_id, [_words(result) for result in failed])

    def _holds(self, lease_id: str) -> bool:
        return bool(self._place.link.send(api.lease(lease_id))["state"] in ("granted", "lapsed"))

    def _run(
        self, project: ProjectFile, lease_id: str, paths: Sequence[bytes]
    ) -> list[CheckResult]:
        from leasefs.vcs.checks import run_checks

        tell(f"{lease_id}: running {len(project.checks)} release checks on {len(paths)} paths")
        try:
            return run_checks(
                project.checks,
                cwd=self._place.roots.mountpoint,
                paths=sorted(set(paths)),
                lease=lease_id,
                timeout_s=project.check_timeout_s,
                output_directory=_output_directory(lease_id),
            )
        except OSError as error:
            raise InvalidRequest(
                f"the output of the release checks cannot be kept: {error.strerror}; `--keep` or `--force` "
                "releases without them"
            ) from error


def _project_of(root: str) -> ProjectFile | None:
    outside = around()
    if not (outside.below or outside.above or os.path.lexists(os.path.join(root, _PROJECT_FILE))):
        return None
    from leasefs.vcs.errors import VcsError
    from leasefs.vcs.project_file import read_project_file

    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return read_project_file(root_fd, root, outside)
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    finally:
        os.close(root_fd)


def _output_directory(lease_id: str) -> str:
    """A directory for this lease's checks; the oldest of many are removed."""
    above = private_dir(os.path.join(state_dir(), "checks"))
    directory = private_dir(os.path.join(above, lease_id))
    with os.scandir(above) as found:
        oldest_first = sorted(
            found, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns
        )
    for entry in oldest_first[:-_OUTPUTS_KEPT]:
        if entry.path != directory:
            with suppress(OSError):
                shutil.rmtree(entry.path)
    return directory


def _words(result: CheckResult) -> str:
    if result.problem:
        return f"{result.problem} ({result.output})"
    status = result.status or 0
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return f"{result.check.shown}: {how} ({result.output})"
