"""Small files of ours that are whole whenever they can be seen, and for nobody else's eyes."""

from __future__ import annotations

import contextlib
import json
import os


def write_whole(path: str, content: object) -> None:
    """Put `content`, as JSON, at `path` in one step (rename(2)), with mode 0600. Raises OSError."""
    draft = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w", encoding="ascii") as file:
            json.dump(content, file)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
