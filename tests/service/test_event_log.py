"""What of the ledger's events meets the eye in the system's log, at which level, and that no secret does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.log_events import Event
from leasefs.client.log_lines import JsonLines
from leasefs.core.events import AnyEvent
from leasefs.service import event_log
from leasefs.service.event_log import EventLog

if TYPE_CHECKING:
    from pathlib import Path

# Courses of the day, or told in other words by what led to them.
QUIET = {
    *("ledger-started", "renewed", "queued", "withdrawn", "recall-ended"),
    *("downgraded", "release-refused", "intents-noted", "intents-settled", "rescue-dropped"),
    "fresh-recorded",
}


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLines().format(one)) for one in caplog.records if hasattr(one, "event")]


def test_every_kind_of_event_is_told_or_left_out_on_purpose() -> None:
    from typing import get_args

    from leasefs.service.event_log import _TELLERS

    tags = {str(event.__struct_config__.tag) for event in get_args(AnyEvent)}
    assert tags == {*_TELLERS, *QUIET}
    assert not QUIET & set(_TELLERS)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_what_an_operator_wants_to_meet(
    serving: Any, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    async def main() -> None:
        async with serving() as ledger:
            ledger.writer.listen(EventLog().heard)
            ada, bob = await ledger.agent("ada"), await ledger.agent("bob")
            body = {"key": "1", "globs": ["src/**"], "ttl_s": 60}
            lease = (await ada.ask("POST", "/v1/leases", body)).json["lease"]
            await bob.ask("POST", "/v1/leases", {"key": "2", "globs": ["src/x"]})
            refusal = {
                "path": "src/y\nlevel=error",
                "op": "write",
                "reason": "no lease",
                "errno": "EACCES",
                "pid": 7,
                "program": "vi",
                "wall_s": 1.0,
            }
            await bob.ask("POST", "/v1/refusals", {"refusals": [refusal, refusal]})
            await ledger.client.ask("POST", f"/v1/leases/{lease}/revoke", {})
            ledger.clock.advance(200)
            await ledger.timers.look()

    with caplog.at_level(level, "leasefs"):
        asyncio.run(main())
    said = told(caplog)
    expected = ["session-opened", "session-opened", "granted", "claim-refused", "write-refused"]
    expected += ["revoked", "expired"]
    if level == logging.INFO:
        expected.remove("granted")
    assert [one["event"] for one in said][: len(expected)] == expected
    by_event = {one["event"]: one for one in said}
    assert by_event["claim-refused"]["agent"] == "bob"
    assert by_event["claim-refused"]["code"] == "conflict"
    assert by_event["write-refused"] | {"msg": ""} == by_event["write-refused"] | {
        "msg": "",
        "path": "src/y\nlevel=error",
        "count": 2,
        "pid": 7,
        "session": "session-bob",
        "territory": "t",
    }
    assert by_event["revoked"]["lease"] == by_event["expired"]["lease"] != ""
    assert "SECRET" not in caplog.text
    assert "x" * 40 not in caplog.text


def test_the_servers_own_messages_have_fields_and_a_level(tmp_path: Path) -> None:
    """The whole process: `--log-format`, `--log-level` and their variables."""
    place = ["--socket", str(tmp_path / "s"), "--store", ":memory:", "--ready-fd", "1"]
    command = [sys.executable, "-m", "leasefs.service", *place, "--log-format", "json"]
    environment = {**os.environ, "LEASEFS_LOG_FORMAT": "text", "LEASEFS_LOG_LEVEL": "error"}

    def run(*flags: str) -> list[dict[str, Any]]:
        with subprocess.Popen(
            [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as server:
            assert server.stdout is not None
            assert server.stderr is not None
            assert server.stdout.readline() == b"ready\n"
            server.send_signal(signal.SIGTERM)
            lines = server.stderr.read().splitlines()
            assert server.wait(20) == 0
        return [json.loads(line) for line in lines]

    assert run() == []
    said = run("--log-level", "info")
    assert [one["event"] for one in said] == ["serving", "stopped"]
    assert said[0]["level"] == "info"
    assert Event.SERVING.word == "serving"


def test_a_report_of_lost_events_without_a_change_is_told(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel dropped events, and nothing was found different: the ledger goes on, and says so."""

    async def main() -> None:
        async with serving() as ledger:
            ledger.writer.listen(EventLog().heard)
            ada = await ledger.agent("ada")
            body = {"tree": "t-1", "changes": [], "events_lost": True}
            assert (await ada.ask("POST", "/v1/foreign-writes", body)).status == 200
            assert (await ada.ask("POST", "/v1/leases", {"key": "k", "globs": ["a"]})).status == 201

    with caplog.at_level(logging.INFO, "leasefs"):
        asyncio.run(main())
    assert "events of ada's tree were lost" in caplog.text


def test_an_event_without_words_ends_nothing(
    serving: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(event: object) -> Any:
        raise IndexError(event)

    monkeypatch.setitem(event_log._TELLERS, "granted", fails)

    async def main() -> None:
        async with serving() as ledger:
            ledger.writer.listen(EventLog().heard)
            ada = await ledger.agent("ada")
            for key in ("1", "2"):
                body = {"key": key, "globs": [key]}
                assert (await ada.ask("POST", "/v1/leases", body)).status == 201

    asyncio.run(main())
    assert "(granted) cannot be told" in caplog.text
