"""Recall, hand-over, delegation, admission and freezes with the installed command and a real ledger; no mount."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSTALLED = Path(sys.executable).parent / "leasefs"
DEADLINE_S = 20.0


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: Any) -> Iterator[Path]:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "x.py").touch()
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    yield root
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin a command and go on; whatever still runs at the end is killed."""
    with ExitStack() as running:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [INSTALLED, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    assert select.select([stream], [], [], DEADLINE_S)[0], "no line came"
    return stream.readline()


class Told:
    """What a process says on stderr, read past what Python would keep to itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self._fd = process.stderr.fileno()
        self._text = b""

    def until(self, words: str) -> None:
        """Read on until `words` were said."""
        while words.encode() not in self._text:
            assert select.select([self._fd], [], [], DEADLINE_S)[0], f"not said: {words}"
            chunk = os.read(self._fd, 4096)
            assert chunk, self._text
            self._text += chunk


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def claim(installed: Any, *arguments: str) -> str:
    ran = installed("claim", *arguments)
    assert ran.code == 0, ran.err
    return str(ran.out.strip())


def waiters(installed: Any) -> list[dict[str, Any]]:
    found = json.loads(installed("queue", "--json").out)["waiters"]
    assert isinstance(found, list)
    return found


def log(installed: Any, *types: str) -> list[dict[str, Any]]:
    chosen = [word for type_ in types for word in ("--type", type_)]
    return [json.loads(line) for line in installed("log", "--json", *chosen).out.splitlines()]


def commit(repo: Path) -> str:
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    shown = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return str(shown.stdout.strip())


def test_a_release_hands_over_in_one_step_and_tells_by_push(
    start: Any, installed: Any, repo: Path
) -> None:
    """P7: the next waiter is granted with the release, and told the note and base commit of who was there."""
    head = commit(repo)
    id_ = claim(installed, "src/**", "--agent", "ada")
    waiting = start("claim", "src/x.py", "--agent", "bo", "--wait")
    assert "waits: position 1, behind ada" in line_of(waiting.stderr)
    ran = installed("release", id_, "--agent", "ada", "--note", "tests are red")
    assert ran.code == 0, ran.err
    code, out, err = ended(waiting)
    assert (code, out.strip()[:1]) == (0, "L")
    assert f"note from ada (shell), left with {id_}" in err
    assert f"at commit {head[:12]}:" in err
    assert "  tests are red" in err
    released, granted = log(installed, "released", "granted")[-2:]
    assert granted["seq"] == released["seq"] + 1
    assert granted["at_s"] == released["at_s"]


def test_a_hand_over_without_a_note_reads_well(installed: Any, repo: Path) -> None:
    head = commit(repo)
    id_ = claim(installed, "src/**", "--agent", "ada")
    assert installed("release", id_, "--agent", "ada").code == 0
    ran = installed("claim", "src/**", "--agent", "bo")
    (line,) = ran.err.splitlines()
    assert line.startswith(f"leasefs: before you: ada (shell), who gave {id_} back ")
    assert line.endswith(f"ago at commit {head[:12]}")


def test_a_person_recalls_and_the_ground_comes_back(start: Any, installed: Any, repo: Path) -> None:
    id_ = claim(installed, "src/**", "--agent", "loop", "--priority", "background")
    person = start("claim", "src/x.py", "--agent", "ann", "--priority", "human")
    assert f"behind loop ({id_}, yields within " in line_of(person.stderr)
    # Nobody stands behind the loop's lease that would have to hear of it first: no mount, no command.
    code, granted, _ = ended(person)
    assert code == 0
    assert log(installed, "revoked")
    (back,) = waiters(installed)
    assert (back["agent"], back["resumes"]) == ("loop", id_)
    assert f"waits to bring back what {id_} had" in installed("queue").out
    assert installed("release", granted.strip(), "--agent", "ann").code == 0
    (lease,) = json.loads(installed("leases", "--json").out)["leases"]
    assert (lease["agent"], lease["resumes"]) == ("loop", id_)
    told = installed("log").out
    assert f"{id_} by ann: ann claimed src/x.py as" in told
    assert "nothing may be written any more" in told
    assert f", brings back {id_}" in told


def test_equal_priority_recalls_nobody(start: Any, installed: Any, repo: Path) -> None:
    claim(installed, "src/**", "--agent", "ada")
    ran = installed("claim", "src/**", "--agent", "bo", "--recall", "0s", "--wait", "1s", "-q")
    assert ran.code == 4
    assert log(installed, "recalled") == []


def test_more_time_is_given_once(installed: Any, repo: Path) -> None:
    id_ = claim(installed, "src/**", "--agent", "ada")
    ran = installed("recall", id_, "--within", "1m", "--reason", "the release")
    assert ran.code == 0
    assert f"leasefs: {id_} is recalled by " in ran.err
    assert "(the release): yield within" in ran.err
    assert f"leasefs more-time {id_} 60s (told to ada)" in ran.err
    more = installed("more-time", id_, "30s", "--agent", "ada")
    assert (more.code, "must be given up within 1m" in more.err) == (0, True)
    again = installed("more-time", id_, "30s", "--agent", "ada")
    assert (again.code, "was given more time already" in again.err) == (2, True)
    assert installed("more-time", id_, "30s", "--agent", "bo").code == 5


def test_run_tells_its_command_of_a_recall(start: Any, installed: Any, repo: Path) -> None:
    script = "trap 'exit 40' USR1; touch ready; while :; do sleep 0.05; done"
    running = start(
        *("run", "--agent", "ada", "--claim", "src/**", "--ttl", "2s", "--on-recall", "USR1"),
        *("--", "sh", "-c", script),
    )
    eventually((repo / "ready").exists)
    (lease,) = json.loads(installed("leases", "--json").out)["leases"]
    installed("recall", lease["lease"], "--within", "10m", "--reason", "the release")
    code, _, err = ended(running)
    assert code == 40
    assert f"leasefs: {lease['lease']} is recalled by " in err
    assert "(the release): yield within" in err


def test_run_outside_of_a_mount_stands_still_until_the_ground_is_back(
    start: Any, installed: Any, repo: Path
) -> None:
    """It hears by push, however short the recall; what came back is what it releases in the end."""
    script = "echo $$ > pid; touch ready; while ! test -e done; do sleep 0.05; done"
    running = start(
        *("run", "--agent", "loop", "--claim", "src/**", "--priority", "background"),
        *("--on-recall", "STOP", "--", "sh", "-c", script),
    )
    eventually((repo / "ready").exists)
    granted = claim(installed, "src/x.py", "--agent", "ann", "--priority", "human")
    told = Told(running)
    told.until("is recalled by ann (ann claimed src/x.py as ")
    told.until(
        "nothing keeps it from writing there (it is in no mount) until the ground comes back"
    )
    pid = int((repo / "pid").read_text())
    eventually(lambda: state_of(pid) == "T")
    assert installed("release", granted, "--agent", "ann").code == 0
    told.until("the ground is back, as ")
    eventually(lambda: state_of(pid) != "T")
    (repo / "done").touch()
    code, _, err = ended(running)
    assert (code, err) == (0, "")
    assert json.loads(installed("leases", "--json").out)["leases"] == []


def test_run_goes_on_when_what_it_was_stopped_for_does_not_come(
    start: Any, installed: Any, repo: Path
) -> None:
    script = "echo $$ > pid; touch ready; while ! test -e done; do sleep 0.05; done"
    running = start(
        *("run", "--agent", "loop", "--claim", "src/**", "--on-recall", "STOP"),
        *("--", "sh", "-c", script),
    )
    eventually((repo / "ready").exists)
    urgent = start("claim", "src", "--agent", "ann", "--priority", "urgent", "--recall", "10m")
    told = Told(running)
    told.until("is recalled by ann")
    pid = int((repo / "pid").read_text())
    eventually(lambda: state_of(pid) == "T")
    urgent.terminate()
    told.until("need not be given up any more")
    eventually(lambda: state_of(pid) != "T")
    (repo / "done").touch()
    assert ended(running)[0] == 0


def test_all_of_a_lease_is_delegated_without_naming_it_again(installed: Any, repo: Path) -> None:
    whole = claim(installed, "src/**", "lib/*.py", "--agent", "ada")
    claim(installed, "docs/**", "--agent", "bo")
    ran = installed("delegate", whole, "--to", "bo", "--agent", "ada", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["globs"] == ["src/**", "lib/*.py"]
    assert installed("delegate", "L999", "--to", "bo", "--agent", "ada").code == 5


def test_a_part_is_delegated_and_comes_back(installed: Any, repo: Path) -> None:
    id_ = claim(installed, "src/**", "--agent", "ada")
    absent = installed("delegate", id_, "src/t/**", "--to", "bo", "--agent", "ada")
    assert (absent.code, "agent 'bo' has no live session" in absent.err) == (2, True)
    claim(installed, "docs/**", "--agent", "bo")
    wider = installed("delegate", id_, "lib/**", "--to", "bo", "--agent", "ada")
    assert (wider.code, "is not wholly inside" in wider.err) == (2, True)
    ran = installed("delegate", id_, "src/t/**", "--to", "bo", "--agent", "ada", "--note", "sort")
    part = ran.out.strip()
    assert (ran.code, ran.err) == (0, "")
    shown = installed("leases").out
    assert (
        f"{id_} has parts delegated to others, which its holder does not write: src/t/**" in shown
    )
    assert f"{part} is a part of {id_}, and goes back to it when it ends" in shown
    assert f", delegated out of {id_}" in installed("log").out
    assert installed("release", part, "--agent", "bo").code == 0
    assert "its ground goes back to who delegated it" in installed("log").out
    assert "delegated to others" not in installed("leases").out


def test_shared_and_alone_again(start: Any, installed: Any, repo: Path) -> None:
    id_ = claim(installed, "src/**", "--agent", "ada")
    other = start("claim", "src/**", "--agent", "bo", "--shared", "--wait", "-q")
    eventually(lambda: waiters(installed))
    ran = installed("downgrade", "src/**", "--agent", "ada", "--json")
    assert (ran.code, json.loads(ran.out)["mode"]) == (0, "shared")
    code, theirs, _ = ended(other)
    assert code == 0
    upgrade = start("claim", "--upgrade", id_, "--agent", "ada", "--wait", "-q")
    eventually(lambda: waiters(installed))
    both = installed("claim", "--upgrade", theirs.strip(), "--agent", "bo", "--wait", "-q")
    assert (both.code, "waiting would never end" in both.err) == (8, True)
    assert installed("release", theirs.strip(), "--agent", "bo").code == 0
    code, granted, _ = ended(upgrade)
    assert code == 0
    (lease,) = json.loads(installed("leases", "--json").out)["leases"]
    assert (lease["lease"], lease["mode"]) == (granted.strip(), "exclusive")
    assert "is shared from here on" in installed("log").out


def test_admission_is_what_the_queue_waits_for(start: Any, installed: Any, repo: Path) -> None:
    set_ = installed("admission", "set", "--max-exclusive", "1", "--reason", "CI is red")
    assert set_.code == 0, set_.err
    assert "exclusive leases:     at most 1; 0 now" in set_.out
    id_ = claim(installed, "a/**", "--agent", "ada")
    refused = installed("claim", "b/**", "--agent", "bo")
    assert (refused.code, "takes on no more work now" in refused.err) == (3, True)
    waiting = start("claim", "b/**", "--agent", "bo", "--wait")
    line = line_of(waiting.stderr)
    assert "behind admission: 1 exclusive lease is live, the limit is 1" in line
    assert "CI is red" in line
    assert line.endswith("ETA unknown\n")
    shown = installed("admission", "show").out
    assert "at most 1; 1 now" in shown
    assert "CI is red" in shown
    more = installed("admission", "set", "--max-leases", "2", "--max-hold", "2h")
    limits = json.loads(installed("admission", "show", "--json").out)["admission"]
    assert more.code == 0
    assert (limits["max_exclusive"], limits["max_leases"], limits["max_hold_s"]) == (1, 2, 7200.0)
    assert installed("admission", "set", "--max-exclusive", "none").code == 0
    assert ended(waiting)[0] == 0
    claim(installed, "c/**", "--agent", "ada")
    over = installed("claim", "d/**", "--agent", "ada", "--wait")
    assert (over.code, "this territory lets one agent have 2" in over.err) == (3, True)
    held = installed("hold", id_, "4h")
    assert (held.code, "may be held for 4h from now" in held.err) == (0, True)
    assert installed("admission", "clear").code == 0
    limits = json.loads(installed("admission", "show", "--json").out)["admission"]
    assert {name for name, value in limits.items() if value} <= {"by", "version"}
    told = installed("log").out
    assert "at most 1 exclusive leases (CI is red)" in told
    assert ": no limits" in told
    assert f"{id_} may be held for 4h from here on" in told


def test_a_claim_of_everything_is_not_the_easy_way_out(installed: Any, repo: Path) -> None:
    """The share of the files is counted here, when the ledger asks for it."""
    for name in ("src/y.py", "docs/a", "docs/b"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).touch()
    subprocess.run(["git", "add", "-A"], check=True)
    assert installed("admission", "set", "--max-share", "50%").code == 0
    over = installed("claim", "**", "--agent", "ada")
    assert over.code == 3
    assert "covers 100.0% of the files, and this territory lets one lease cover 50.0%" in over.err
    for globs in (["src"], ["docs/a"]):
        claim(installed, *globs, "--agent", "ada", "-q")
    refused = [event["event"]["code"] for event in log(installed, "claim-refused")]
    assert refused == ["over-cap"] * 4


def test_a_freeze_says_why_everywhere(installed: Any, repo: Path) -> None:
    ran = installed("freeze", "src/big.py", "--reason", "about to be split", "--for", "2h")
    id_ = ran.out.strip()
    assert ran.code == 0, ran.err
    refused = installed("claim", "src/**", "--agent", "ada")
    assert (refused.code, "about to be split" in refused.err) == (3, True)
    listed = installed("freezes").out
    assert id_ in listed
    assert "about to be split" in listed
    shown = installed("leases").out
    assert "frozen" in shown.splitlines()[1]
    assert f"leasefs unfreeze {id_} lifts it" in shown
    assert "about to be split" in installed("who", "src/big.py").out
    assert installed("unfreeze", id_).code == 0
    assert installed("freezes").out == "nothing is frozen\n"
    claim(installed, "src/**", "--agent", "ada")
    told = installed("log").out
    assert f"{id_} src/big.py frozen: about to be split" in told
    assert f"{id_}: lifted by " in told
    assert installed("unfreeze", "L999").code == 5


def test_a_freeze_waits_for_who_writes_there(installed: Any, repo: Path) -> None:
    id_ = claim(installed, "src/**", "--agent", "ada")
    ran = installed("freeze", "src", "--reason", "moved", "--within", "5m")
    assert f"is frozen as soon as these have yielded: ada ({id_}, yields within " in ran.err
    (frozen,) = json.loads(installed("freezes", "--json").out)["freezes"]
    assert frozen["state"] == "waiting"
    assert installed("release", id_, "--agent", "ada", "--again").code == 0
    (waiting,) = waiters(installed)
    assert waiting["resumes"] == id_
    assert f"the freeze {frozen['lease']} by " in installed("queue").out
    installed("unfreeze", frozen["lease"])
    (lease,) = json.loads(installed("leases", "--json").out)["leases"]
    assert lease["resumes"] == id_
