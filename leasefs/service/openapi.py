"""The API's description (OpenAPI 3.1), made from the route table and the structs that decode and encode it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from leasefs import __version__
from leasefs.service.errors_http import STATUS
from leasefs.service.exchange import Answer, Call, json_answer
from leasefs.service.replies import ErrorBody
from leasefs.service.routes import Auth, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.service.context import Ledger
    from leasefs.service.requests import Body, Query

_REF = "#/components/schemas/{name}"
_DESCRIPTION = """\
Leases over globs of a repository. Durations only, never times of a clock. `key` is an idempotency key that the
caller chooses. Each answer says what is spoken in `Leasefs-Protocol` (1.0; ...); a request may, and one of another major
version is refused with code `protocol`. Text of paths and globs is UTF-8 with each undecodable byte as a lone surrogate (PEP 383)."""


def route(described: tuple[Route[Any, Any], ...]) -> Route[Any, Any]:
    """The route that serves the description of the others and of itself."""

    async def openapi(ledger: Ledger, call: Call, body: Body, query: Query) -> Answer:
        return answer

    own: Route[Any, Any] = Route(
        "GET", "/openapi.json", openapi, "This description", {200: dict}, auth=Auth.ANYBODY
    )
    answer = json_answer(200, document((*described, own)))
    return own


def document(routes: tuple[Route[Any, Any], ...]) -> dict[str, Any]:
    """The OpenAPI document of `routes`."""
    paths: dict[str, dict[str, Any]] = {}
    schemas, components = _schemas(routes)
    for one in routes:
        operation = _operation(one, schemas, components)
        for status, type_ in one.answers.items():
            if links := _links(type_, routes):
                operation["responses"][str(status)]["links"] = links
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "leasefs ledger", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of an identity (`leasefs agent add`)",
                },
                "session": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Leasefs <session>:<secret>`",
                },
            },
        },
    }


def _types(routes: Iterable[Route[Any, Any]]) -> list[Any]:
    found: dict[Any, None] = {ErrorBody: None}
    for one in routes:
        for type_ in (one.body, one.query, *one.answers.values()):
            if type_ is not None:
                found[type_] = None
    return list(found)


def _schemas(routes: Iterable[Route[Any, Any]]) -> tuple[dict[Any, Any], dict[str, Any]]:
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    return dict(zip(types, schemas, strict=True)), components


def _operation(
    one: Route[Any, Any], schemas: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "responses": {**_answers(one, schemas), **_refusals(one, schemas)},
    }
    parameters = [*_path_parameters(one), *_query_parameters(one, components)]
    if parameters:
        operation["parameters"] = parameters
    if one.body is not None:
        content: dict[str, Any] = {"schema": schemas[one.body]}
        if one.example is not None:
            content["example"] = one.example
        operation["requestBody"] = {
            "required": _says_something(one.body),
            "content": {"application/json": content},
        }
    operation["security"] = _security(one.auth)
    if one.auth is not Auth.ANYBODY:
        operation["x-leasefs-needs"] = one.auth.value
    return operation


def _security(auth: Auth) -> list[dict[str, list[str]]]:
    """How a caller may be known; `{}` is by being a local user, on a Unix socket."""
    if auth is Auth.ANYBODY:
        return []
    return [{"session": []}] if auth is Auth.SESSION else [{"session": []}, {"token": []}, {}]


def _says_something(body: type[Body]) -> bool:
    """Whether no body, which is taken for `{}`, would be refused."""
    return any(field.required for field in msgspec.structs.fields(body))


def _answers(one: Route[Any, Any], schemas: dict[Any, Any]) -> dict[str, Any]:
    return {
        str(status): _answer(one, status, type_, schemas) for status, type_ in one.answers.items()
    }


def _answer(
    one: Route[Any, Any], status: int, type_: type[Any] | None, schemas: dict[Any, Any]
) -> dict[str, Any]:
    if type_ is None:
        return {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
    content: dict[str, Any] = {"schema": schemas[type_]}
    if status in one.example_answers:
        content["example"] = one.example_answers[status]
    kinds: dict[str, Any] = {"application/json": content}
    if one.streams:
        kinds["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": _first_line(type_), "content": kinds}


def _links(type_: type[Any] | None, routes: Iterable[Route[Any, Any]]) -> dict[str, Any]:
    """What can be asked about the lease, session or rescue that an answer is about, by the id in it."""
    if type_ is None or not issubclass(type_, msgspec.Struct):
        return {}
    fields = [field.name for field in msgspec.structs.fields(type_) if field.type is str]
    return {
        one.handler.__name__: {
            "operationId": one.handler.__name__,
            "parameters": {name: f"$response.body#/{name}"},
        }
        for one in routes
        for name in fields
        if f"{{{name}}}" in one.path
    }


def _first_line(type_: type[Any]) -> str:
    return (type_.__doc__ or "OK").strip().splitlines()[0]


def _refusals(one: Route[Any, Any], schemas: dict[Any, Any]) -> dict[str, Any]:
    codes: dict[int, list[str]] = {}
    known = () if one.auth is Auth.ANYBODY else ("denied", "session-ended")
    for code in (*known, *one.refusals, "over-limit"):
        codes.setdefault(STATUS[code], []).append(code)
    if one.auth is not Auth.ANYBODY:
        codes.setdefault(401, []).append("denied")
    if one.body is not None:
        codes.setdefault(413, []).append("too-large")
    content = {"application/json": {"schema": schemas[ErrorBody]}}
    found: dict[str, Any] = {
        str(status): {"description": ", ".join(dict.fromkeys(names)), "content": content}
        for status, names in sorted(codes.items())
    }
    seconds = {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds."}
    found[str(STATUS["over-limit"])]["headers"] = {"Retry-After": seconds}
    return found


def _path_parameters(one: Route[Any, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": part[1:-1],
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for part in one.path.split("/")
        if part.startswith("{")
    ]


def _query_parameters(one: Route[Any, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    schema = components[one.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]
