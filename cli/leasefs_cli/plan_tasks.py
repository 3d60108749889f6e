"""The tasks of a plan, from the command line, or from a file of JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import TYPE_CHECKING, NoReturn

from leasefs.client.understand import understand
from leasefs.core.errors import BadPath, BadPattern, InvalidRequest
from leasefs.core.globs import parse_glob
from leasefs.core.partition_types import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.client.understand import Roots
    from leasefs.core.globs import Glob

_MOST_BYTES = 1 << 24


def tasks_of_globs(globs: Sequence[str], roots: Roots) -> list[Task]:
    """A task for each glob, named as it is typed; read from the current directory.

    Raises:
        BadPath, BadPattern: see `understand`.
    """
    here = os.getcwd()
    read = {glob: understand(glob, roots, here).glob for glob in globs}
    return [Task(typed, (parse_glob(text),)) for typed, text in read.items()]


def tasks_of_file(file: str, roots: Roots) -> list[Task]:
    """The tasks in a file whose name ends in `.json` or `.csv`; their globs are read from the tree's root.

    JSON is a list of `{"name": ..., "globs": [...]}`, or an object of globs by name. CSV has a task in each row: its name,
    then globs, several in a cell set apart by blanks; a first row that begins with `name` is the heading.

    Raises:
        InvalidRequest: it cannot be read or is none of these; the message says where.
    """
    content = _read(file)
    if file.endswith(".csv"):
        rows = _csv_rows(file, content)
    elif file.endswith(".json"):
        rows = _json_rows(file, content)
    else:
        _refuse(file, "the name of a file of tasks ends in .json or .csv")
    tasks: dict[str, Task] = {}
    for where, name, globs in rows:
        if name in tasks:
            _refuse(where, f"task {name!r} is there twice; give all of its globs at once")
        if not globs:
            _refuse(where, f"task {name!r} has no globs")
        tasks[name] = Task(name, tuple(_glob(where, glob, roots) for glob in globs))
    if not tasks:
        _refuse(file, "no task is in it")
    return list(tasks.values())


_Row = tuple[str, str, "list[str]"]


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        _refuse(file, f"it cannot be read: {error.strerror}")
    if len(content) > _MOST_BYTES:
        _refuse(file, "it is larger than 16 MiB")
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _json_rows(file: str, content: str) -> list[_Row]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        _refuse(file, f"not JSON: {error}")
    if isinstance(value, dict):
        value = [{"name": name, "globs": globs} for name, globs in value.items()]
    if not isinstance(value, list):
        _refuse(file, "it must be a list of tasks, or an object of globs by task")
    return [_json_row(f"{file}, task {number}", one) for number, one in enumerate(value, 1)]


def _json_row(where: str, value: object) -> _Row:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        _refuse(where, 'a task is written like {"name": "docs", "globs": ["docs/**"]}')
    globs = value.get("globs")
    globs = [globs] if isinstance(globs, str) else globs
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        _refuse(where, f"`globs` of {value['name']!r} must be a list of strings")
    return where, value["name"], globs


def _csv_rows(file: str, content: str) -> list[_Row]:
    rows: list[_Row] = []
    lines = csv.reader(io.StringIO(content, newline=""), strict=True)
    try:
        for cells in lines:
            name = cells[0].strip() if cells else ""
            globs = [glob for cell in cells[1:] for glob in cell.split()]
            if lines.line_num == 1 and name.lower() == "name":
                continue
            if name:
                rows.append((f"{file}:{lines.line_num}", name, globs))
            elif globs:
                _refuse(f"{file}:{lines.line_num}", "the first column must name the task")
    except csv.Error as error:
        _refuse(f"{file}:{lines.line_num}", f"not CSV: {error}")
    return rows


def _glob(where: str, text: str, roots: Roots) -> Glob:
    try:
        return parse_glob(understand(text, roots, roots.mountpoint).glob)
    except (BadPath, BadPattern) as error:
        _refuse(where, error.message)


def _refuse(where: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{where}: {problem}")
