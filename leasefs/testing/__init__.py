"""Public helpers for tests: fake clock, conformance suites, processes under test."""

from __future__ import annotations
