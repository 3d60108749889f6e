"""pjdfstest: some 8,000 assertions on POSIX system calls. Needs root: it becomes other users itself."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

from suite_runs.fetched import built
from suite_runs.outcome import Outcomes, tap

if TYPE_CHECKING:
    from suite_runs.places import Place

_URL = "https://github.com/pjd/pjdfstest"
_STEPS = [["autoreconf", "-ifs"], ["./configure"], ["make", "pjdfstest"]]


def run(place: Place) -> Outcomes:
    """Run every script in `place`."""
    suite = built("pjdfstest", _URL, place.settings.work, "pjdfstest", _STEPS)
    env = {"PATH": f"{_df_of_beneath(place)}:{os.environ['PATH']}"}
    found: Outcomes = {}
    for script in sorted(glob.glob(f"{suite}/tests/*/*.t")):
        name = os.path.relpath(script, f"{suite}/tests")
        if not re.search(place.settings.only, name):
            continue
        _, said = place.run(["sh", script], timeout_s=900, env=env)
        found |= tap(said, name)
    return found


def _df_of_beneath(place: Place) -> str:
    """A directory with a df(1) that tells of the file system beneath: what is expected depends on its answer."""
    directory = os.path.join(os.path.dirname(place.path), "bin")
    os.makedirs(directory, exist_ok=True)
    shim = os.path.join(directory, "df")
    with open(shim, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexec {shutil.which('df')} -PT {shlex.quote(place.beneath)}\n")
    os.chmod(shim, 0o755)
    return directory
