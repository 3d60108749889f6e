"""git's own test-suite, with its trash directories in the place under test."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from suite_runs.fetched import built
from suite_runs.outcome import Outcomes, tap

if TYPE_CHECKING:
    from suite_runs.places import Place

_URL = "https://github.com/git/git"
_STEPS = [
    ["make", "-s", f"-j{os.cpu_count() or 1}", "NO_GETTEXT=1", "NO_TCLTK=1", "NO_PYTHON=1", "all"]
]
# The series on plumbing, the index, diffs, pushing, revisions and porcelain; the others are of servers and mail.
_SCRIPTS = r"^t[0-7]"


def run(place: Place) -> Outcomes:
    """Run the scripts that `--only` chooses, several at once."""
    suite = built("git", _URL, place.settings.work, "git", _STEPS, ref=_installed())
    scripts = [
        os.path.basename(path)
        for path in sorted(glob.glob(f"{suite}/t/t[0-9]*.sh"))
        if re.search(place.settings.only or _SCRIPTS, os.path.basename(path))
    ]
    found: Outcomes = {}
    with ThreadPoolExecutor(place.settings.jobs) as pool:
        for outcomes in pool.map(lambda script: _run(place, suite, script), scripts):
            found |= outcomes
    return found


def _run(place: Place, suite: str, script: str) -> Outcomes:
    # Counts and results go beside the place, not into the suite, where another run may be writing.
    results = os.path.join(os.path.dirname(place.path), f"results-{os.path.basename(place.path)}")
    os.makedirs(results, exist_ok=True)
    os.chmod(results, 0o777)
    env = {"TEST_OUTPUT_DIRECTORY": results, "GIT_TEST_OPTS": ""}
    command = ["sh", f"./{script}", f"--root={place.path}"]
    _, said = place.run(command, cwd=f"{suite}/t", timeout_s=1800, env=env)
    trash = os.path.join(place.path, f"trash directory.{script.removesuffix('.sh')}")
    place.run(
        ["chmod", "-R", "u+rwx", trash], cwd="/"
    )  # some scripts leave what even rm may not enter
    place.run(["rm", "-rf", trash], cwd="/")
    return tap(said, script.removesuffix(".sh"))


def _installed() -> str:
    """The tag of the version that is installed."""
    said = subprocess.run(["git", "version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"\d+\.\d+\.\d+", said)
    return f"v{match.group()}" if match else ""
