"""Every attempt of this directory stands in docs/BYPASSES.md, and what is not refused in docs/THREATS.md as well."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"


def attempts() -> dict[str, str]:
    """`tests/bypass/FILE.py::TEST` of each, and what its docstring says."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        if file.name != Path(__file__).name:
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                    found[f"tests/bypass/{file.name}::{node.name}"] = ast.get_docstring(node) or ""
    return found


def rows() -> dict[str, str]:
    """The same names as the page has them, and what it says comes of each."""
    found = {}
    for section in (DOCS / "BYPASSES.md").read_text().split("\n## ")[1:]:
        file = re.search(r"`(tests/bypass/test_\w+\.py)`", section.splitlines()[0])
        assert file, section.splitlines()[0]
        for _, outcome, test in re.findall(
            r"^\| (.+) \| (.+) \| `(\w+)` \|$", section, re.MULTILINE
        ):
            found[f"{file[1]}::{test}"] = outcome
    return found


def test_every_attempt_has_its_row_and_every_row_its_attempt() -> None:
    assert sorted(attempts()) == sorted(rows())
    assert len(rows()) >= 30


def test_what_is_not_refused_is_said_to_be_not_covered() -> None:
    threats = (DOCS / "THREATS.md").read_text()
    not_covered = threats[threats.index("## Not covered") :]
    told = {name for name, outcome in rows().items() if "**not refused**" in outcome}
    assert told == {name for name, words in attempts().items() if "ot covered" in words}
    assert not [name for name in sorted(told) if f"`{name}`" not in not_covered]
