"""docs/CONFIGURATION.md lists every setting as it is, and its examples are true."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leasefs.core.layers import Layer
from leasefs.core.setting import USER
from leasefs.core.settings import SETTINGS
from leasefs.core.settings_file import parse

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "CONFIGURATION.md").read_text()


def _module() -> Any:
    path = ROOT / "scripts" / "manual" / "settings_table.py"
    spec = importlib.util.spec_from_file_location("settings_table", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_up_to_date() -> None:
    assert _module().written_into(TEXT) == TEXT, "run scripts/man and commit docs/CONFIGURATION.md"


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_has_its_row_below_its_table(name: str) -> None:
    table, _, key = name.rpartition(".")
    title = f"`[{table}]`" if table else "At the top"
    section = TEXT.partition(f"\n### {title}\n")[2].partition("\n##")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| `{key}` |")]
    setting = SETTINGS[name]
    assert setting.help.replace("|", r"\|") in row
    assert f"`{setting.variable}`" in row or not setting.variable
    for place, word in (("system", "machine"), ("user", "user"), ("repository", "repository")):
        assert (word in row.split(" | ")[-2].split(", ")) == (place in setting.files)


def test_no_row_is_about_a_setting_that_is_none() -> None:
    section = TEXT.partition("## Settings\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| `", section, re.MULTILINE)) == len(SETTINGS)


def test_the_example_of_a_file_is_one() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    parsed = parse(example.encode(), USER)
    assert parsed.problems == ()
    assert len(parsed.said) == sum(map(len, tomllib.loads(example).values()))
    assert Layer(USER, parsed.said).values["ledger.url"] == "unix:/run/leasefs/ledger.sock"
    for name in re.findall(r"# ([a-z]+\.[a-z_]+)", example):
        assert name in parsed.said


def test_every_variable_that_is_named_exists() -> None:
    known = {setting.variable for setting in SETTINGS.values()}
    other = {"LEASEFS_SOURCE", "LEASEFS_MOUNTPOINT", "LEASEFS_MOUNT_OPTIONS", "LEASEFS_DEBUG"}
    named = set(re.findall(r"LEASEFS_[A-Z_]*[A-Z]", TEXT))
    assert named - known == other | {"LEASEFS_CONFIG_SYSTEM"}
