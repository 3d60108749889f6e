"""`leasefs plan` on real repositories: what it says, what it reads, and what it claims."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.understand import Roots
from leasefs.core.errors import InvalidRequest
from leasefs.core.globs import parse_glob
from leasefs.core.partition import partition
from leasefs.core.partition_types import File, Task
from leasefs.testing.agents import agent_mount
from leasefs_cli.plan_rows import say_plan, size
from leasefs_cli.plan_tasks import tasks_of_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repo"
    (root / "src" / "core").mkdir(parents=True)
    (root / "docs").mkdir()
    for name in ("src/core/a.py", "src/core/b.py", "src/main.py", "docs/x.md", "top.md", "hot"):
        (root / name).write_text(name)
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "some")
    for number in range(6):
        (root / "hot").write_text(str(number))
        git(root, "commit", "-q", "-a", "-m", "hot")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def ledger_stopped(installed: Any) -> Iterator[None]:
    yield
    stopped = installed("ledger", "stop")
    assert stopped.code in (0, 7), stopped.err


def test_a_plan_for_a_person(repo: Path, here: Any) -> None:
    ran = here("plan", "src/**", "src/core", "**/*.md", "docs")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["REGION", "TASK", "THEN", "FILES", "SIZE", "COMMITS", "GLOBS"]
    assert " ".join(lines[1].split()).startswith("R1 src/** **/*.md 1 11 1 9 globs, cut: src/* ")
    assert " ".join(lines[2].split()) == "R2 src/core src/**, **/*.md 2 26 2 src/core/**"
    assert "4 conflicts between tasks, 2 of them over files that exist:" in lines
    assert (
        "  src/** and src/core both want 2 files, as src/core/a.py (src/** and src/core/**): src/core first"
        in lines
    )
    assert (
        "  src/** and **/*.md could both come to want src/a.md, which does not exist yet (src/** and **/*.md): "
        "src/** first" in lines
    )
    assert lines[-2:] == ["unclaimed: 1 of 6 files", "  hot, 1"]


def test_a_plan_for_a_program(repo: Path, here: Any) -> None:
    said = json.loads(here("plan", "src/**", "src/core", "hot", "--json").out)
    assert (said["files"], said["commits"]) == (6, 7)
    assert [region["task"] for region in said["regions"]] == ["src/**", "src/core", "hot"]
    assert said["regions"][1] == {
        "id": "R2",
        "task": "src/core",
        "then": ["src/**"],
        "globs": ["src/core/**"],
        "files": 2,
        "size_bytes": 26,
        "commits": 2,
        "spelling": "asked",
    }
    assert said["conflicts"] == [
        {
            "tasks": ["src/**", "src/core"],
            "globs": ["src/**", "src/core/**"],
            "files": 2,
            "witness": "src/core/a.py",
            "exists": True,
            "regions": ["R2"],
        }
    ]
    assert said["unclaimed"] == [
        {"path": "docs/", "files": 1, "size_bytes": 9},
        {"path": "top.md", "files": 1, "size_bytes": 6},
    ]
    assert said["hottest"][0] == {
        "path": "hot",
        "size_bytes": 1,
        "commits": 7,
        "region": "R3",
        "tasks": ["hot"],
        "apart": False,
    }
    assert "lease" not in said["regions"][0]


def test_what_changes_most_should_be_apart_and_is_if_asked_for(repo: Path, here: Any) -> None:
    ran = here("plan", ".")
    assert "  hot: 1, changed in 7 of 7 commits; wanted by ., in R1" in ran.out
    assert "worth a region" not in here("plan", ".", "--commits", "0").out
    said = json.loads(here("plan", ".", "--apart", "hot", "--json").out)
    assert ["hot"] in [region["globs"] for region in said["regions"]]
    assert "worth a region" not in here("plan", ".", "--apart", "hot").out


def test_siblings_are_plain_and_say_what_they_leave_open(repo: Path, here: Any) -> None:
    ran = here("plan", "src", "src/core", "--siblings")
    assert "1 globs, cut, existing names: src/main.py" in ran.out
    assert "new names directly in these may be in no region: src/" in ran.out


def test_globs_are_read_from_where_one_stands(repo: Path, here: Any) -> None:
    os.chdir(repo / "src")
    said = json.loads(here("plan", "core", "*.py", "--json").out)
    assert [task["globs"] for task in said["tasks"]] == [["src/core/**"], ["src/*.py"]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "t.json",
            '[{"name": "one", "globs": ["src", "top.md"]}, {"name": "two", "globs": "**/*.md"}]',
        ),
        ("t.json", '\ufeff{"one": ["src", "top.md"], "two": "**/*.md"}'),
        ("t.csv", "name,globs\none,src top.md\ntwo,**/*.md\n"),
        ("t.csv", 'one,"src",top.md\r\n\r\n"two",**/*.md'),
    ],
)
def test_tasks_from_a_file(repo: Path, here: Any, name: str, content: str) -> None:
    (repo.parent / name).write_text(content)
    os.chdir(repo / "docs")  # its globs are read from the root all the same
    said = json.loads(here("plan", "--tasks", str(repo.parent / name), "--json").out)
    assert said["tasks"] == [
        {"name": "one", "globs": ["src/**", "top.md"]},
        {"name": "two", "globs": ["**/*.md"]},
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", "[", "t.json: not JSON"),
        ("t.json", "3", "a list of tasks"),
        ("t.json", "[3]", "t.json, task 1: a task is written like"),
        ("t.json", '[{"name": "a", "globs": [1]}]', "`globs` of 'a' must be a list of strings"),
        ("t.json", '[{"name": "a", "globs": []}]', "task 'a' has no globs"),
        ("t.json", "[]", "no task is in it"),
        ("t.json", '{"a": "../x"}', "t.json, task 1: bad"),
        ("t.csv", "a,b\na,c\n", "t.csv:2: task 'a' is there twice"),
        ("t.csv", "a,b\n,c\n", "t.csv:2: the first column must name the task"),
        ("t.csv", 'a,"b', "t.csv:1: not CSV"),
        ("t.csv", "a,[b\n", "t.csv:1: bad glob"),
        ("t.txt", "a", "ends in .json or .csv"),
    ],
)
def test_a_bad_file_is_told_by_its_place(repo: Path, name: str, content: str, words: str) -> None:
    file = repo.parent / name
    file.write_text(content)
    with pytest.raises(InvalidRequest) as refused:
        tasks_of_file(str(file), Roots(str(repo)))
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a glob for each task, or --tasks FILE"),
        (("a", "--tasks", "t.csv"), "not both"),
        (("--tasks", "none.csv"), "none.csv: it cannot be read: No such file"),
        (("/etc",), "lies outside"),
        (("a[",), "bad glob"),
    ],
)
def test_bad_usage(repo: Path, here: Any, arguments: tuple[str, ...], words: str) -> None:
    ran = here("plan", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "Traceback" not in ran.err


def test_there_is_nothing_to_plan_outside_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = here("plan", "a")
    assert ran.code == 2
    assert "there is no repository here to plan in" in ran.err


def test_long_lists_are_cut_short_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [Task(f"t{n}", (parse_glob("a\x1b"),)) for n in range(8)]
    files = [File(b"b%d" % n) for n in range(30)]
    say_plan(partition(tasks, files), 0, [])
    out = capsys.readouterr().out
    assert "  and 8 more; --json has all" in out  # of 28 conflicts
    assert "  and 10 more; --json has all" in out
    assert "others come first in all that these want: t1, t2, t3, t4, t5, t6, t7" in out
    assert "\x1b" not in out


def test_sizes_in_words() -> None:
    assert [size(one) for one in (0, 1023, 1024, 10_240, 3 << 20, 5 << 50)] == [
        "0",
        "1023",
        "1.0K",
        "10K",
        "3.0M",
        "5120T",
    ]


@pytest.mark.usefixtures("ledger_stopped")
def test_a_plan_becomes_leases_in_one_step_or_not_at_all(repo: Path, installed: Any) -> None:
    def held() -> dict[str, list[str]]:
        leases = json.loads(installed("leases", "--json").out)["leases"]
        return {lease["lease"]: lease["globs"] for lease in leases}

    plan = ("plan", "src/**", "src/core", "docs", "--claim")
    first = installed(*plan, "--agent", "ann", "--json", "--ttl", "5m")
    assert first.code == 0, first.err
    said = json.loads(first.out)
    assert held() == {region["lease"]: region["globs"] for region in said["regions"]}
    assert [lease["note"] for lease in said["leases"]] == [
        "plan: src/**",
        "plan: src/core, then src/**",
        "plan: docs",
    ]
    assert {lease["ttl_s"] for lease in said["leases"]} == {300.0}
    second = installed("plan", "top.md", "docs/x.md", "--claim", "--agent", "bob")
    assert second.code == 3
    assert "held by ann" in second.err
    assert held().keys() == {lease["lease"] for lease in said["leases"]}
    # Who got nothing leaves nothing behind: the name is free, and the ground that was not in the way too.
    third = installed("plan", "top.md", "hot", "--claim", "--agent", "bob")
    assert third.code == 0, third.err
    assert third.out.splitlines()[0].startswith("LEASE  TASK")
    assert third.out.splitlines()[1].split()[0] in held()


@pytest.mark.usefixtures("ledger_stopped")
def test_a_cap_on_the_share_of_files_counts_what_git_tracks(repo: Path, installed: Any) -> None:
    assert installed("admission", "set", "--max-share", "50%").code == 0
    for name in ("1", "2", "3", "4"):
        (repo / "src" / name).touch()  # not tracked
    assert installed("claim", "src", "--agent", "ann").code == 0  # 3 of 6
    refused = installed("claim", "docs", "top.md", "hot", "src/**", "--agent", "bob")
    assert refused.code == 3
    assert "covers 100.0% of the files" in refused.err
    refused = installed("plan", "docs", "*", "--claim", "--agent", "bob")
    assert refused.code == 0, refused.err  # each region by itself, as it would be claimed
    refused = installed("plan", "**", "--claim", "--agent", "eve")
    assert refused.code == 3
    assert "covers 100.0% of the files" in refused.err


@pytest.mark.usefixtures("ledger_stopped")
def test_without_an_agent_nothing_is_claimed(repo: Path, installed: Any) -> None:
    ran = installed("plan", "src", "--claim")
    assert ran.code == 10
    assert "or name an agent with --agent" in ran.err


@pytest.mark.mount
@pytest.mark.usefixtures("ledger_stopped")
def test_in_a_mount_the_regions_are_its_own_when_the_command_returns(
    repo: Path, tmp_path: Path, installed: Any
) -> None:
    (tmp_path / "mnt").mkdir()
    with agent_mount(str(repo), str(tmp_path / "mnt"), "ann") as ann:
        ran = installed("plan", "src/core", "docs", "--claim", "--json", cwd=ann.root)
        assert ran.code == 0, ran.err
        ann.write("src/core/new.py")
        ann.write("docs/new.md")
        assert not ann.may_write("top.md")
        leases = {region["lease"] for region in json.loads(ran.out)["regions"]}
        assert {lease["id"] for lease in ann.held()} == leases
