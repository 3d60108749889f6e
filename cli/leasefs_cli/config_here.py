"""What is configured where the shell stands: the machine's and the user's files, and those of the repository here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leasefs.client.config_files import ConfigFile
from leasefs.client.config_report import Report
from leasefs.client.find import find_mount
from leasefs.core.errors import BadConfiguration, NotMounted
from leasefs.core.setting import REPOSITORY
from leasefs_cli.printing import tell
from leasefs_cli.tree import find_root

if TYPE_CHECKING:
    from leasefs.core.layers import Found


def report_here() -> Report:
    """All that is configured here. What is wrong with it stands in the report and is not raised."""
    return Report(_repository())


def found_here(name: str) -> Found:
    """What a setting is here. Raises BadConfiguration where a command that needs it would."""
    report = report_here()
    for trouble in report.troubles():
        if trouble.fatal and (trouble.line or not trouble.key or trouble.key == name):
            raise BadConfiguration(trouble.where, trouble.key, trouble.line, trouble.words)
    return report.found(name)


def tell_strange_variables() -> None:
    """Warn of variables that nobody reads: a mount's are written once, and not looked at again."""
    for trouble in Report().troubles():
        if not trouble.fatal:
            tell(f"{trouble.where}: {trouble.words}")


def _repository() -> ConfigFile | None:
    """The repository's file, there or not; None in no repository. A mount that does not answer is not asked."""
    try:
        find_mount(os.getcwd())
        root = find_root(None)
    except (NotMounted, OSError):
        return None
    if root is None:
        return None
    from leasefs.vcs.project_file import FILE_NAME, parse_project_file

    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parsed = parse_project_file(root_fd)
    finally:
        os.close(root_fd)
    path = os.path.join(root, FILE_NAME)
    there = parsed.text or parsed.problems or os.path.lexists(path)
    return ConfigFile(REPOSITORY, path, parsed if there else None)
