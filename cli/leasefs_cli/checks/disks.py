"""Checks of room: where journals and the log lie, nothing can be changed or granted any more once it is gone."""

from __future__ import annotations

import os

from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding

# Journals and the ledger's log grow by kilobytes; the rest is for whoever repairs it.
LEAST_KIB = 4096
SCARCE_KIB = 256 * 1024
SCARCE_PERCENT = 3
LEAST_INODES = 100


def room(name: str, path: str) -> Finding:
    """What is left on the file system of `path`."""
    try:
        system = os.statvfs(path)
    except OSError as error:
        return Finding(UNKNOWN, name, f"{path}: {error.strerror}", "")
    if system.f_flag & os.ST_RDONLY:
        found = (
            f"{path} is on a file system that is read-only now; nothing can be changed or granted"
        )
        return Finding(
            FAIL, name, found, f"see why (dmesg, findmnt -T {path}), and mount it writable"
        )
    free_kib = system.f_bavail * system.f_frsize >> 10
    percent = 100 * system.f_bavail // max(1, system.f_blocks)
    if free_kib < LEAST_KIB:
        return _short(FAIL, name, path, f"{free_kib} KiB")
    if system.f_files and system.f_favail < LEAST_INODES:
        return _short(FAIL, name, path, f"{system.f_favail} inodes")
    if free_kib < SCARCE_KIB and percent < SCARCE_PERCENT:
        return _short(WARN, name, path, f"{free_kib >> 10} MiB, {percent} %")
    return Finding(OK, name, path)


def _short(level: str, name: str, path: str, left: str) -> Finding:
    found = f"{path} has {left} left; a mount whose journal finds no room refuses every change"
    return Finding(level, name, found, f"make room: df {path}; df -i {path}")
