"""What a mount's control socket serves, as OpenAPI 3.1: its own part, and of the ledger's description what is passed on.

The ledger's part is asked for each time, because a mount outlives ledgers: what it passes on is what the ledger that runs
now understands. Loaded when somebody asks.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import leasefs
from leasefs.mount.control_routes import PASSED_ON

Document = dict[str, Any]

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        }
    },
}
_REFUSED = {
    400: "invalid, protocol",
    401: "session-ended",
    403: "denied",
    404: "not-found, unknown-lease",
    413: "too-large",
    429: "over-limit",
    431: "invalid: the head is too long",
    503: "unavailable",
}
_TEXT = {"type": "string"}
_DONE = {"type": "object", "required": ["ok"], "properties": {"ok": {"const": True}}}
_FACTS = {
    "type": "object",
    "required": [
        *("agent", "harness", "session", "territory", "ledger", "control", "source", "mountpoint"),
        *("pid", "version", "ledger_reachable", "leases", "delegations", "recalls", "refusals"),
    ],
    "properties": {
        "pid": {"type": "integer"},
        "ledger_reachable": {"type": "boolean"},
        "leases": {"type": "array", "items": {"type": "object"}},
        "refusals": {"type": "array", "items": {"type": "object"}},
    },
}
_OWN_DESCRIPTION = """\
The control socket of one mount, for the shells in it. What is asked of leases is asked with the mount's own session, whose secret stays in the
daemon; it is answered as by the ledger, whose description this includes."""


def document(ledgers: Document) -> Document:
    """The description, out of that of the ledger."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "leasefs mount",
            "version": leasefs.__version__,
            "description": _OWN_DESCRIPTION,
        },
        "paths": _merged(_own(), _passed_on(ledgers)),
        "components": {"schemas": ledgers.get("components", {}).get("schemas", {})},
    }


def _merged(first: Document, second: Document) -> Document:
    paths = dict(first)
    for path, item in second.items():
        paths[path] = {**paths.get(path, {}), **item}
    return paths


def _passed_on(ledgers: Document) -> Document:
    paths: Document = {}
    kept = {_id_of(ledgers, *one) for one in PASSED_ON}
    for method, path in PASSED_ON:
        operation = deepcopy(ledgers["paths"].get(path, {}).get(method.lower()))
        if operation is None:
            continue  # an older ledger; the mount answers what it answers
        operation.pop("security", None)
        answers = operation["responses"]
        # What is only passed on is answered with 200, however it was done.
        answers.setdefault("200", next(answers[one] for one in answers if one.startswith("2")))
        for status, words in _REFUSED.items():
            answers.setdefault(str(status), _refusal(words))
        for answer in answers.values():
            links = answer.get("links", {})
            answer["links"] = {name: link for name, link in links.items() if name in kept}
        for parameter in operation.get("parameters", ()):
            # The mount makes an idempotency key for whoever sends none.
            parameter["required"] = parameter["required"] and parameter["name"] != "key"
            if parameter["name"] == "dirty":
                ways = {"enum": ["rescue"], "description": "what is uncommitted becomes a rescue"}
                parameter["schema"] = {"anyOf": [parameter["schema"], ways]}
        paths.setdefault(path, {})[method.lower()] = operation
    return paths


def _id_of(ledgers: Document, method: str, path: str) -> str:
    operation = ledgers["paths"].get(path, {}).get(method.lower(), {})
    return str(operation.get("operationId", ""))


def _own() -> Document:
    lease = {"lease": _TEXT}
    return {
        "/openapi.json": {"get": _operation("openapi", "This description", {"type": "object"})},
        "/healthz": {"get": _plain("healthz", "Whether the mount can do what it is for")},
        "/metrics": {
            "get": _plain("metrics", "What a monitor counts, in the format of Prometheus")
        },
        "/v1/mount": {"get": _operation("mount", "The mount, its leases and refusals", _FACTS)},
        "/v1/mount/stop": {
            "post": _operation(
                "stop",
                "Unmount and end; `lazy` waits for nobody",
                _DONE,
                {"lazy": {"type": "boolean"}},
            )
        },
        "/v1/mount/heartbeat": {
            "post": _operation("renew", "Renew all leases now", _answer("renewed", "lost"))
        },
        "/v1/mount/look": {
            "post": _operation(
                "look", "Bring the ledger up to date about what is uncommitted", _DONE
            )
        },
        "/v1/mount/leave": {
            "post": _operation(
                "leave",
                "A claim is done with: its lease is released unless another claim led to it",
                _answer("lease", "state"),
                {**lease, "key": _TEXT},
                ("lease", "key"),
            )
        },
        "/v1/mount/take-back": {
            "post": _operation(
                "take_back",
                "Claim again what was changed here at these paths",
                _DONE,
                {"paths": {"type": "array", "items": _TEXT}},
                ("paths",),
            )
        },
        "/v1/mount/uses": {"post": _uses(lease)},
    }


def _answer(*fields: str) -> Document:
    return {"type": "object", "required": list(fields)}


def _operation(
    name: str,
    summary: str,
    answer: Document,
    fields: Document | None = None,
    needed: tuple[str, ...] = (),
) -> Document:
    operation: Document = {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            **{str(status): _refusal(words) for status, words in _REFUSED.items()},
        },
    }
    if fields is not None:
        schema = {"type": "object", "properties": fields, "required": list(needed)}
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": bool(needed), "content": content}
    return operation


def _plain(name: str, summary: str) -> Document:
    operation = _operation(name, summary, {})
    operation["responses"]["200"]["content"] = {"text/plain": {"schema": _TEXT}}
    return operation


def _uses(lease: Document) -> Document:
    fields = {**lease, "pid": {"type": "integer"}, "program": _TEXT}
    operation = _operation(
        "use", "Keep a lease in use for as long as the stream is open", {}, fields, ("lease",)
    )
    operation["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return operation


def _refusal(words: str) -> Document:
    return {"description": words, "content": {"application/json": {"schema": _ERROR}}}
