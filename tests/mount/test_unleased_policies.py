"""Agents that know nothing of leases, on real mounts with a real ledger: what becomes of what they write."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client import api
from leasefs.client.ids import new_key
from leasefs.testing.agents import Agent, agent_mount
from leasefs.testing.eventually import eventually
from leasefs.testing.mount_trees import environment, git
from leasefs.testing.random_operations import Side, answer, chosen
from leasefs.testing.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.own_world import World

pytestmark = pytest.mark.mount


@pytest.fixture
def two(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada and bo, each with a mount of the tree; both know nothing of leases."""
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada", unleased="claim+wait") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait", wait_s=20) as bo,
    ):
        yield ada, bo


def leases(agent: Agent) -> dict[str, str]:
    """Who holds what."""
    found = agent.ledger.send(api.leases())["leases"]
    return {" ".join(one["globs"]): one["agent"] for one in found}


def events(agent: Agent, kind: str) -> list[Any]:
    """The events of a kind."""
    return [one["event"] for one in agent.ledger.send(api.events(types=[kind]))["events"]]


def test_the_first_write_claims_just_that_path_and_it_lapses_soon(two: tuple[Agent, Agent]) -> None:
    ada, _ = two
    with open(f"{ada.root}/src/a", "a") as file:
        file.write("mine")
        file.flush()
        assert leases(ada) == {"src/a": "ada"}
    eventually(lambda: leases(ada) == {}, what="the giving back")
    assert Path(ada.root, "src/a").read_text() == "xmine"


def test_a_writer_waits_for_another_agents_to_end(two: tuple[Agent, Agent]) -> None:
    ada, bo = two
    with open(f"{ada.root}/src/a", "a") as file:
        file.write("ada ")
        file.flush()
        writer = subprocess.Popen(["sh", "-c", f"echo bo >> {bo.root}/src/a"])
        queue = eventually(lambda: ada.ledger.send(api.queue())["waiters"])
        assert [one["agent"] for one in queue] == ["bo"]
        # In the meantime nothing else waits.
        bo.write("src/b", "bo")
        assert writer.poll() is None
        file.write("to the end ")
    assert writer.wait(timeout=10) == 0
    assert Path(ada.root, "src/a").read_text() == "xada to the end bo\n"


@pytest.fixture
def observing(repo: str, world: World) -> Iterator[tuple[Agent, Agent]]:
    """Ada holds leases; cy's mount only observes."""
    for place in ("ada", "cy"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada") as ada,
        agent_mount(repo, f"{world.root}/cy", "cy", unleased="observe") as cy,
    ):
        yield ada, cy


def test_what_is_observed_passes_and_is_told(observing: tuple[Agent, Agent]) -> None:
    """In the mount, in the ledger's history, and to whoever holds the ground; who enforces goes on to do so."""
    ada, cy = observing
    lease = ada.claim("src/a")
    cy.write("src/a", "cy")
    cy.write("new", "cy")
    assert Path(cy.root, "src/a").read_text() == "cy"
    said = Path(cy.root, ".leasefs/refusals").read_text().splitlines()
    assert len(said) == 2
    assert all("passed, as this mount only observes" in line for line in said)

    def observed() -> set[str]:
        refused = [one for event in events(ada, "writes-refused") for one in event["refusals"]]
        return {one["path"] for one in refused if one["observed"]}

    def told() -> set[str]:
        found = [one for one in events(ada, "foreign-writes") if one["how"] == "observed"]
        return {change["path"] for event in found for change in event["changes"]}

    for heard in (observed, told):
        eventually(lambda heard=heard: heard() == {"src/a", "new"}, what=heard.__name__)
    foreign = eventually(lambda: Path(ada.root, ".leasefs/foreign").read_text())
    assert (
        f"src/a modified through a mount that only observes, though {lease['lease']} holds it"
        in foreign
    )
    assert ada.ledger.send(api.intents(agent="cy"))["intents"] == []
    assert not ada.may_write("src/b")
    assert leases(ada) == {"src/a": "ada"}


def test_git_commits_what_the_agent_wrote_and_nothing_of_others(repo: str, world: World) -> None:
    """In a shared tree; the leases that the writes claimed are given back by then."""
    tree = Path(repo)
    git(tree, "init", "-q", ".")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "base")
    for place in ("ada", "bo"):
        os.mkdir(f"{world.root}/{place}")
    with (
        agent_mount(repo, f"{world.root}/ada", "ada", unleased="claim+wait") as ada,
        agent_mount(repo, f"{world.root}/bo", "bo", unleased="claim+wait") as bo,
    ):
        ada.write("src/a", "ada")
        bo.write("src/b", "bo")
        eventually(lambda: leases(ada) == {}, what="the giving back")
        assert tried(ada, "git", "commit", "-qam", "all of it") != 0
        assert tried(ada, "git", "checkout", "-q", ".") != 0
        assert Path(ada.root, "src/b").read_text() == "bo"
        assert tried(ada, "git", "commit", "-qm", "mine", "--", "src/a") == 0
        assert git(Path(ada.root), "show", "--format=", "--name-only", "HEAD").split() == ["src/a"]
        assert tried(bo, "git", "add", "src/b") == 0
        assert tried(bo, "git", "commit", "-qm", "mine") == 0
    assert git(tree, "status", "--porcelain") == ""


def tried(agent: Agent, *command: str) -> int:
    """The exit status of a command in the agent's mount."""
    return subprocess.run(
        command, cwd=agent.root, env=environment(), capture_output=True, check=False
    ).returncode


TOOLS = {
    "shell": "echo new > src/new; echo more >> src/a",
    "sed": "sed -i s/x/y/ src/a",
    "perl": "perl -pi -e s/x/y/ src/a",
    "mkdir -p": "mkdir -p src/one/two/three && echo x > src/one/two/three/f",
    "cp -r": "cp -r src src2 && diff -r src src2",
    "mv": "mv src/b src/c && mv src/deep src/deeper && mv src/deeper deep",
    "rm -r": "rm -r src",
    "links": "ln src/a src/other && ln -s a src/link && echo z >> src/other && ln -sfn b src/link",
    "chmod": "chmod 600 src/a && touch -d 2001-01-01 src/a",
    "truncate": "truncate -s 3 src/a && truncate -s 0 src/b",
    "tar": "tar cf ../t.tar -C src . && mkdir out && tar xf ../t.tar -C out && diff -r src out",
    "patch": r"printf -- '--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n' | patch -p1",
    "git apply": "git init -q ../r && cd ../r && mkdir src && printf x > src/a && git add . && printf y > src/a && "
    'git diff > ../p && cd "$OLDPWD" && git apply ../p',
    "an atomic save": "echo 1 > src/a.tmp.123.456 && mv src/a.tmp.123.456 src/a",
    "install": "install -m 644 a src/installed",
    "rsync": "mkdir dst && if command -v rsync; then rsync -a src/ dst/; else cp -a src/. dst/; fi && diff -r src dst",
    "vim": "if command -v vim; then vim -es -u NONE -c 's/x/y/' -c wq src/a; fi",
}


def test_tools_that_know_nothing_of_leases(two: tuple[Agent, Agent], world: World) -> None:
    """As on the plain directory; and afterwards nothing is held."""
    ada, _ = two
    for at, script in enumerate(TOOLS.values()):
        for place in (f"{world.root}/plain/{at}", f"{ada.root}/{at}"):
            os.makedirs(f"{place}/tree/src/deep")
            for name in ("a", "src/a", "src/b", "src/deep/c"):
                Path(place, "tree", name).write_text("x")
            done = subprocess.run(
                ["bash", "-c", f"set -e; {script}"],
                cwd=f"{place}/tree",
                env=environment(),
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, (script, done.stderr)
    assert listing(ada.root, *map(str, range(len(TOOLS)))) == listing(f"{world.root}/plain")
    eventually(lambda: leases(ada) == {}, what="the giving back")


def listing(root: str, *names: str) -> dict[str, tuple[int, str]]:
    """Mode and content of each path below; of these directories only, if any are named."""
    found = {}
    for above in names or os.listdir(root):
        for path in sorted(Path(root, above).rglob("*")):
            if ".git" not in path.parts and path.name not in {"p", "t.tar"}:
                content = os.readlink(path) if path.is_symlink() else ""
                content = content or (path.read_text() if path.is_file() else "")
                found[str(path.relative_to(root))] = path.lstat().st_mode, content
    return found


# Each appends a line, as an editor or an agent's tool does: reading first, or not; in place, or by another file.
EDITS = {
    "append": "echo {tag} >> {path}",
    # Perl says nothing by itself of what it could not open or write.
    "in place": 'perl -e \'open F, "+<", shift or exit 1; @l = <F>; seek F, 0, 0; print F @l, shift . "\\n"; '
    "close F or exit 1' {path} {tag}",
    "read, then write": "text=$(cat {path}) && printf '%s\\n%s\\n' \"$text\" {tag} > {path}",
    "sed": "sed -i '$ a {tag}' {path}",
    "read, then replace": "(cat {path}; echo {tag}) > {path}.tmp.{tag} && mv {path}.tmp.{tag} {path}",
}


def edits(agent: Agent, how: str, rounds: int) -> list[str]:
    """Do some, each until it is done: what is refused is read again and tried again, as agents do. The lines."""
    lines = []
    for at in range(rounds):
        tag = f"{agent.about['agent']}-{at}"
        command = EDITS[how].format(tag=tag, path=f"src/{'ab'[at % 2]}")
        eventually(lambda command=command: tried(agent, "sh", "-c", command) == 0, within_s=60)
        lines.append(tag)
    return lines


def no_edit_is_lost(agents: list[Agent], hows: list[str], rounds: int) -> None:
    with ThreadPoolExecutor(len(agents)) as pool:
        made = pool.map(
            lambda at: edits(agents[at], hows[at % len(hows)], rounds), range(len(agents))
        )
        wanted = sorted(line for lines in made for line in lines)
    root = Path(agents[0].root, "src")
    lines = [line for name in "ab" for line in (root / name).read_text().splitlines()]
    assert sorted(line for line in lines if line != "x") == wanted


def test_two_agents_that_know_nothing_lose_no_edit(two: tuple[Agent, Agent]) -> None:
    for how in EDITS:
        for name in "ab":
            two[0].write(f"src/{name}", "x\n")
        no_edit_is_lost(list(two), [how], 6)


@pytest.mark.slow
def test_eight_agents_with_different_tools_lose_no_edit(repo: str, world: World) -> None:
    git(Path(repo), "init", "-q", ".")
    for name in "ab":
        Path(repo, f"src/{name}").write_text("x\n")
    git(Path(repo), "add", ".")
    git(Path(repo), "commit", "-qm", "base")
    with ExitStack() as mounts:
        agents = []
        for at in range(8):
            place = f"{world.root}/m{at}"
            os.mkdir(place)
            mount = agent_mount(repo, place, f"agent-{at}", unleased="claim+wait")
            agents.append(mounts.enter_context(mount))
        no_edit_is_lost(agents, list(EDITS), 6)


def test_what_a_person_takes_comes_back_and_is_given_back(two: tuple[Agent, Agent]) -> None:
    """A recall of what a write claimed: the writer hears of it, the next write waits, and nothing stays held."""
    ada, bo = two
    with open(f"{ada.root}/src/a", "a") as file:
        file.write("ada")
        file.flush()
        call = api.claim(
            ["src/a"], key=new_key(), priority=100, wait=True, recall_within_s=0.0, ttl_s=60.0
        )
        wanted = bo.control.send(call)
        assert bo.control.send(api.lease(wanted["lease"], wait_s=20))["state"] == "granted"
        file.write("late")
        assert refusal_of(file.flush) == errno.ESTALE
        assert refusal_of(file.close) == errno.ESTALE
    writer = subprocess.Popen(["sh", "-c", "echo later >> src/a"], cwd=ada.root)
    bo.write("src/a", "bo ")
    eventually(lambda: ada.ledger.send(api.queue())["waiters"])
    assert len(ada.ledger.send(api.queue())["waiters"]) == 1, "what comes back is not claimed anew"
    assert writer.poll() is None
    bo.control.send(api.release(wanted["lease"], key=new_key(), dirty="keep"))
    assert writer.wait(timeout=20) == 0
    assert Path(ada.root, "src/a").read_text() == "bo later\n"
    eventually(lambda: leases(ada) == {}, what="the giving back")


@pytest.mark.slow
@pytest.mark.root
def test_alone_an_agent_notices_nothing(world: World) -> None:
    """Random operations, each answered as on the plain directory, though leases come and go all the time."""
    sources = [f"{world.root}/{name}" for name in ("plain", "source", "mount")]
    for name in sources:
        os.mkdir(name)
    plain, source, mount = sources
    Path(source, ".leasefs.toml").write_text("[unleased]\nidle_s = 0\n")
    with agent_mount(source, mount, "ada", unleased="claim+wait"):
        for seed in range(6):
            sides = [Side(os.fsencode(f"{root}/{seed}")) for root in (plain, mount)]
            for side in sides:
                os.mkdir(side.root)
            dice = random.Random(seed)
            for at in range(150):
                step = chosen(dice)
                assert answer(step, sides[1]) == answer(step, sides[0]), (seed, at)
            for side in sides:
                side.close()
