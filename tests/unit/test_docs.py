"""The documentation names tests and files; they must be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_named_tests_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for file, test in re.findall(r"`((?:tests|leasefs|scripts|cli)/[\w./-]+)(?:::(\w+))?`", text):
        assert (ROOT / file).exists(), f"{page.name} names {file}"
        if test:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{page.name} names {file}::{test}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_promise_is_held_by_a_test() -> None:
    text = (ROOT / "docs" / "SEMANTICS.md").read_text()
    promises = re.split(r"\n\*\*P\d+ ", text.split("## Globs")[0])[1:]
    assert len(promises) == 12
    for promise in promises:
        assert "`tests/" in promise, promise.splitlines()[0]
