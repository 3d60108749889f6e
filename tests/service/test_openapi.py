"""The description says what the server does, no more and no less."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from leasefs.core.errors import InvalidRequest
from leasefs.service import requests
from leasefs.service.app import ROUTES
from leasefs.service.decode import body_of
from leasefs.service.errors_http import STATUS
from leasefs.service.openapi import document

DOCUMENT = document(ROUTES)


def test_it_is_served_and_describes_every_route_and_nothing_else(serving: Any) -> None:
    async def main() -> None:
        async with serving() as ledger:
            served = (await ledger.client.ask("GET", "/openapi.json")).json
            described = {
                (method.upper(), path) for path, item in served["paths"].items() for method in item
            }
            assert described == {(route.method, route.path) for route in ROUTES}
            assert served["openapi"].startswith("3.1.")
            for method, path in described:
                reply = await ledger.client.ask(method, path)
                assert reply.status != 405, path
                assert reply.status != 404 or reply.code != "not-found", path

    asyncio.run(main())


def test_operation_ids_are_unique() -> None:
    ids = [
        operation["operationId"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
    ]
    assert len(set(ids)) == len(ids)


def test_every_reference_leads_somewhere() -> None:
    def references(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    found = set(references(DOCUMENT))
    assert found
    for reference in found:
        name = reference.removeprefix("#/components/schemas/")
        assert name in DOCUMENT["components"]["schemas"], reference


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body], ids=lambda r: r.path)
def test_the_example_of_a_body_is_one(route: Any) -> None:
    assert route.example is not None
    body_of(route.body, json.dumps(route.example).encode())


@pytest.mark.parametrize(
    ("route", "status"),
    [
        (route, status)
        for route in ROUTES
        for status, type_ in route.answers.items()
        if type_ not in {None, dict}
    ],
    ids=lambda value: str(getattr(value, "path", value)),
)
def test_the_example_of_an_answer_is_one(route: Any, status: int) -> None:
    class _Strict(route.answers[status], frozen=True, forbid_unknown_fields=True):
        pass

    msgspec.convert(route.example_answers[status], _Strict)


def test_an_answer_links_to_what_can_be_asked_about_it() -> None:
    claimed = DOCUMENT["paths"]["/v1/leases"]["post"]["responses"]["201"]["links"]
    assert claimed["release"] == {
        "operationId": "release",
        "parameters": {"lease": "$response.body#/lease"},
    }
    opened = DOCUMENT["paths"]["/v1/sessions"]["post"]["responses"]["201"]["links"]
    assert {"heartbeat", "end_session"} <= set(opened)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body], ids=lambda r: r.path)
def test_a_body_may_be_left_out_if_nothing_in_it_is_needed(route: Any) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    try:
        body_of(route.body, b"")
    except InvalidRequest:
        assert operation["requestBody"]["required"]
    else:
        assert not operation["requestBody"]["required"]
    assert "413" in operation["responses"]


def test_refusals_name_codes_that_exist() -> None:
    for route in ROUTES:
        assert set(route.refusals) <= set(STATUS), route.path


def test_query_parameters_are_those_that_are_decoded() -> None:
    operation = DOCUMENT["paths"]["/v1/events"]["get"]
    names = [parameter["name"] for parameter in operation["parameters"]]
    assert tuple(names) == requests.EventsQuery.__struct_fields__
    claim = DOCUMENT["paths"]["/v1/leases/{lease}"]["delete"]
    assert {(p["name"], p["in"], p["required"]) for p in claim["parameters"]} == {
        ("lease", "path", True),
        ("key", "query", True),
        ("require", "query", False),
        ("dirty", "query", False),
        ("note", "query", False),
        ("commit", "query", False),
        ("again", "query", False),
    }
