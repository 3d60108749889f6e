"""Whatever is typed wrong: the fixed exit code, one line that says what to do, nothing changed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mount

NOBODY = 65534


class World(NamedTuple):
    """Ada's mount, bo's mount of the same tree, and a lease of bo's."""

    tree: Path
    ada: Path
    bo: Path
    bos_lease: str


class Bad(NamedTuple):
    """`arguments` may use {world}; `code` and `words` are what must come of them in ada's mount."""

    arguments: list[str]
    code: int
    words: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One world for the whole table: what changes nothing cannot disturb the next row."""
    home = tmp_path_factory.mktemp("w")
    env = {name: value for name, value in os.environ.items() if not name.startswith("LEASEFS_")}
    for variable, directory in (("HOME", "h"), ("XDG_STATE_HOME", "s"), ("XDG_RUNTIME_DIR", "r")):
        (home / directory).mkdir(mode=0o700)
        env[variable] = str(home / directory)
    leasefs = Path(sys.executable).parent / "leasefs"

    def run(*arguments: str, cwd: Path | None = None, **extra: str) -> Any:
        return subprocess.run(
            [leasefs, *arguments],
            cwd=cwd,
            env={**env, **extra},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture(scope="module")
def world(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("t")
    tree, ada, bo = root / "tree", root / "ada", root / "bo"
    for directory in (tree / "src", ada, bo, root / "tree-2"):
        directory.mkdir(parents=True)
    (tree / "src" / "x.py").touch()
    (tree / "file").touch()
    subprocess.run(["git", "init", "-q", tree], check=True)
    for agent, place in (("ada", ada), ("bo", bo)):
        done = run("mount", str(tree), str(place), "--agent", agent)
        assert done.returncode == 0, done.stderr
    bos_lease = run("claim", "src/**", cwd=bo).stdout.strip()
    yield World(tree, ada, bo, bos_lease)
    for place in (ada, bo):
        done = run("unmount", str(place))
        assert done.returncode == 0, done.stderr
    assert run("ledger", "stop").returncode == 0


TABLE = {
    "empty glob": Bad(["claim", ""], 2, "write ** for everything"),
    "parent": Bad(["claim", ".."], 2, "outside"),
    "above the root": Bad(["claim", "../x"], 2, "outside"),
    "parent inside": Bad(["claim", "a/../../b"], 2, "`..` is not allowed"),
    "absolute path": Bad(
        ["claim", "/etc/passwd"], 2, "give a path relative to the territory's root"
    ),
    "negated": Bad(["claim", "!src"], 2, "write `\\!` or use --literal"),
    "10,000 characters": Bad(["claim", "a" * 10_000], 2, "the limits are"),
    "many wildcards": Bad(["claim", "*a" * 60], 2, "32 wildcards"),
    "open bracket": Bad(["claim", "src/[a"], 2, "write `\\[` for the character itself"),
    "no glob": Bad(["claim"], 2, "name the GLOBs to claim"),
    "no shell": Bad(["completion"], 2, "Choose from: bash, zsh, fish"),
    "good and bad": Bad(["claim", "docs/**", ".."], 2, "outside"),
    "ttl 0": Bad(["claim", "a", "--ttl", "0"], 2, "give 1s to 1d"),
    "ttl negative": Bad(["claim", "a", "--ttl", "-5m"], 2, "give 1s to 1d"),
    "ttl a year": Bad(["claim", "a", "--ttl", "365d"], 2, "give 1s to 1d"),
    "ttl in parsecs": Bad(["claim", "a", "--ttl", "5 parsecs"], 2, "written like 90s, 30m"),
    "ttl without a value": Bad(["claim", "a", "--ttl"], 2, "requires an argument"),
    "wait of a week and a day": Bad(["claim", "a", "--wait", "8d"], 2, "give 0.0s to 7d"),
    "wait in parsecs": Bad(["claim", "a", "--wait", "5 parsecs"], 2, "give 0.0s to 7d"),
    "priority": Bad(["claim", "a", "--priority", "1000"], 2, "from -100 to 100"),
    "long note": Bad(["claim", "a", "--note", "n" * 5000], 2, "at most 4096 characters"),
    "held by another": Bad(["claim", "src/x.py"], 3, "Queue with --wait"),
    "timed out": Bad(["claim", "src/x.py", "--wait", "1s", "-q"], 4, "the claim was withdrawn"),
    "unknown lease": Bad(["release", "L99999"], 5, "`leasefs leases` lists what is held"),
    "unknown glob": Bad(["release", "docs/**"], 5, "`leasefs leases --mine` lists yours"),
    "another agent's lease": Bad(["release", "{world.bos_lease}"], 5, "ask bo to release it"),
    "heartbeat of another's": Bad(["heartbeat", "{world.bos_lease}"], 5, "lists what is held"),
    "release nothing": Bad(["release"], 2, "or give --all"),
    "force without id": Bad(["release", "--force", "src/**"], 5, "you hold no lease over"),
    "force unknown": Bad(["release", "--force", "L99999"], 5, "lists what is held"),
    "not this agent": Bad(["claim", "a", "--agent", "bo"], 9, "leave --agent out"),
    "run without a command": Bad(["run", "--claim", "a"], 2, "missing argument 'CMD"),
    "run with nothing": Bad(["run", "--", "true"], 2, "give --claim GLOB"),
    "run refused": Bad(["run", "--claim", "src", "--", "touch", "{world.tree}/made"], 3, "--wait"),
    "second session": Bad(
        ["mount", "{world.tree}", "{world.tree}-2", "--agent", "ada"], 9, "--replace"
    ),
    "bad agent": Bad(["mount", "{world.tree}", "{world.tree}-2", "--agent", "a b"], 2, "bad agent"),
    "no such policy": Bad(
        ["mount", "{world.tree}", "{world.tree}-2", "--agent", "cy", "--unleased", "maybe"],
        2,
        "claim+wait",
    ),
    "missing directory": Bad(["mount", "/nowhere/repo", "--agent", "cy"], 10, "name the directory"),
    "missing mountpoint": Bad(
        ["mount", "{world.tree}", "{world.tree}-3", "--agent", "cy"], 10, "create it first"
    ),
    "a file": Bad(["mount", "{world.tree}/file", "--agent", "cy"], 10, "is not a directory"),
    "inside its source": Bad(
        ["mount", "{world.tree}", "{world.tree}/src", "--agent", "cy"],
        10,
        "choose a mountpoint outside",
    ),
    "mounted already": Bad(
        ["mount", "{world.tree}", "{world.ada}", "--agent", "cy"], 10, "already a leasefs mount"
    ),
    "not empty": Bad(
        ["mount", "{world.tree}", "/usr", "--agent", "cy"], 10, "choose an empty directory"
    ),
    "no mount there": Bad(
        ["unmount", "{world.tree}/src"], 10, "is not a leasefs mount; your mounts"
    ),
    "two mounts of it": Bad(["unmount", "{world.tree}"], 10, "name one of them"),
    "who outside": Bad(["who", "/etc/passwd"], 2, "outside"),
    "why nothing": Bad(["why", ""], 2, "empty"),
    "unknown event": Bad(["log", "--type", "grnated"], 2, "is not one of"),
    "unknown command": Bad(["relaese", "L1"], 2, "did you mean 'release'?"),
    "unknown option": Bad(["claim", "--tll", "5m", "a"], 2, "no such option"),
    "unknown shell": Bad(["completion", "tcsh"], 2, "is not one of"),
    "no directory": Bad(["-C", "/nowhere", "status"], 2, "name an existing directory"),
}


def _state(run: Any, world: World) -> tuple[Any, ...]:
    """All that a wrong command could have changed."""
    said = json.loads(run("status", "--json", cwd=world.ada).stdout)
    leases = json.loads(run("leases", "--all", "--json", cwd=world.ada).stdout)["leases"]
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return (
        said["ledger"]["sessions"],
        said["ledger"]["waiters"],
        [(lease["lease"], lease["globs"], lease["agent"], lease["state"]) for lease in leases],
        [place for place in mounts if place.startswith(str(world.tree.parent))],
        sorted(os.listdir(world.tree)),
    )


@pytest.fixture(scope="module")
def before(run: Any, world: World) -> tuple[Any, ...]:
    """The state at the start, which every row has to leave as it is."""
    return _state(run, world)


@pytest.mark.parametrize("bad", TABLE.values(), ids=TABLE.keys())
def test_bad_input(run: Any, world: World, before: tuple[Any, ...], bad: Bad) -> None:
    done = run(*(argument.format(world=world) for argument in bad.arguments), cwd=world.ada)
    assert bad.words in done.stderr
    assert (done.returncode, done.stdout) == (bad.code, "")
    assert done.stderr.startswith("leasefs: ")
    assert done.stderr.count("\n") == 1
    assert _state(run, world) == before


def _in_json(arguments: list[str]) -> list[str]:
    own = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:own], "--json", *arguments[own:]]


@pytest.mark.parametrize("bad", TABLE.values(), ids=TABLE.keys())
def test_bad_input_in_json(run: Any, world: World, before: tuple[Any, ...], bad: Bad) -> None:
    if bad.arguments[0] == "completion":
        return  # it prints a script, and has no --json
    arguments = [argument.format(world=world) for argument in bad.arguments]
    done = run(*_in_json(arguments), cwd=world.ada)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["exit_code"]) == (bad.code, bad.code)
    if bad.words != "requires an argument":  # which is `--json` then
        assert bad.words in done.stderr
    assert done.stderr == f"leasefs: {error['message']}\n"
    assert _state(run, world) == before


OUTSIDE = {
    name: bad
    for name, bad in TABLE.items()
    if bad.arguments[0] in ("claim", "release", "heartbeat", "run", "who", "log")
    and "bo" not in bad.arguments
}


@pytest.mark.parametrize("bad", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_bad_input_outside_a_mount(
    run: Any, world: World, before: tuple[Any, ...], bad: Bad
) -> None:
    """The same numbers from a shell in the bare tree, as an agent that has nothing."""
    arguments = [argument.format(world=world) for argument in bad.arguments]
    done = run(*arguments, cwd=world.tree, LEASEFS_AGENT="cy")
    assert (done.returncode, done.stdout) == (bad.code, "")
    assert done.stderr.startswith("leasefs: ")
    assert done.stderr.count("\n") == 1
    assert _state(run, world) == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["claim", "a"], 10, "name an agent with --agent"),
        (["run", "--claim", "a", "--", "true"], 10, "name an agent with --agent"),
        (["release", "L1"], 2, "is in no repository"),
        (["heartbeat"], 2, "is in no repository"),
        (["claim", "a", "--agent", "cy"], 2, "is in no repository"),
        (["who", "a"], 2, "in no repository and no mount"),
        (["why", "a"], 10, "is not inside a leasefs mount"),
        (["unmount", "."], 10, "is not a leasefs mount"),
        (["claim", "a", "--agent", "a b"], 2, "is in no repository"),
    ],
)
def test_nowhere_in_particular(
    run: Any, world: World, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"LEASEFS_LEDGER": "nonsense"}, 2, "bad ledger address"),
        ({"LEASEFS_LEDGER": "unix:relative"}, 2, "must be absolute"),
        ({"LEASEFS_LEDGER": "unix:/nowhere/ledger.sock"}, 7, "no ledger listens there"),
        ({"LEASEFS_LEDGER": "unix:/etc/passwd"}, 7, "no ledger listens there"),
        ({"LEASEFS_LEDGER": "http://127.0.0.1:80"}, 2, "secrets would travel in clear"),
        ({"LEASEFS_LEDGER": "https://127.0.0.1:1"}, 7, "no ledger listens there"),
        ({"XDG_STATE_HOME": "/dev/null"}, 9, "set XDG_RUNTIME_DIR and XDG_STATE_HOME"),
        ({"XDG_STATE_HOME": "/proc/nowhere"}, 9, "set XDG_RUNTIME_DIR and XDG_STATE_HOME"),
        ({"LEASEFS_AGENT": "no good"}, 2, "bad agent"),
        ({"LEASEFS_HARNESS": "no good"}, 2, "bad harness"),
    ],
    ids=str,
)
def test_bad_surroundings(
    run: Any, world: World, variables: dict[str, str], code: int, words: str
) -> None:
    for command in (["claim", "new/**"], ["run", "--claim", "new/**", "--", "true"]):
        done = run(*command, cwd=world.tree, **{"LEASEFS_AGENT": "cy", **variables})
        assert (done.returncode, done.stdout) == (code, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_nul_in_a_glob(
    here: Any, run: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """execve(2) passes none; the public way in is the program's own argument list."""
    monkeypatch.chdir(world.ada)
    ran = here("claim", "a\0b")
    assert (ran.code, ran.out) == (2, "")
    assert "NUL" in ran.err
    assert ran.err.count("\n") == 1


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """The directories of pytest are closed to other users."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        yield Path(place)


@pytest.mark.root
def test_a_ledger_of_another_user_gets_no_secret(run: Any, world: World, open_to_all: Path) -> None:
    """Its socket is there, but the process behind it runs as somebody else."""
    path = str(open_to_all / "ledger.sock")
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.bind(path)
            os.chmod(path, 0o777)
            stranger.listen()
            while True:
                connection, _ = stranger.accept()
                with connection:
                    os.write(tell, connection.recv(65536))
    try:
        while not os.path.exists(path):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        done = run(*("claim", "a", "--agent", "cy"), cwd=world.tree, LEASEFS_LEDGER=f"unix:{path}")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(tell)
        with open(told, "rb") as pipe:
            heard = pipe.read()
    assert heard == b""
    assert (done.returncode, done.stdout) == (9, "")
    assert "belongs to another user" in done.stderr
    assert done.stderr.count("\n") == 1
