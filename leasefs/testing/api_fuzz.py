"""Fuzzes a running server from its own OpenAPI description: every operation, with what fits it and what does not.

What is looked for is the same everywhere (`CHECKS`): no 5xx, nothing but what the description says comes back, what the
description forbids is refused, and every request is answered in time. A `Target` adds what is its own:
credentials, ids that exist, and what a refused request must not have changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis.core.transport import Response

Case: TypeAlias = "schemathesis.Case[Any]"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
# 413 and 431: what is too large is refused before anybody looks at what it says.
_REFUSALS = ["400", "401", "403", "404", "405", "409", "410", "413", "429", "431"]
# 503 is judged by the target: it is what something that waits for another thing's end is answered with.
_CONFIG = {
    "checks": {
        "negative_data_rejection": {"expected-statuses": _REFUSALS},
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "503"]},
    }
}
ANSWERED_WITHIN_S = 20.0
_MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
_MOST_SHOWN = 2000


class Target(Protocol):
    """A server that is fuzzed, and what is known of it."""

    base_url: str
    session: requests.Session
    document: dict[str, Any]

    def season(self, case: Case, chance: random.Random) -> None:
        """Put ids and names that exist into some of the requests, and bound what may take long on purpose."""

    def headers(self, chance: random.Random) -> dict[str, str]:
        """Who asks."""

    def answered(self, case: Case, response: Response) -> None:
        """Look at an answer. Raises AssertionError when a refused request changed something."""


@dataclass
class Found:
    """What was sent, what came back, and what was wrong with it, each kind once."""

    cases: int = 0
    sequences: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    wrong: dict[tuple[str, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        told = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        return f"{self.cases} requests, {self.sequences} sequences, to {len(self.operations)} operations ({told})"


def load(document: dict[str, Any]) -> Any:  # noqa: ANN401 - schemathesis's own type is generic over the specification
    """The description as schemathesis takes it; one that is no valid OpenAPI raises."""
    schema = schemathesis.openapi.from_dict(document, config=schemathesis.Config.from_dict(_CONFIG))
    schema.validate()
    return schema


def fuzz(target: Target, examples: int, seed_: int, found: Found) -> None:
    """Ask each operation `examples` times with data that fits, and as often with data that does not."""
    for result in load(target.document).get_all_operations():
        operation = result.ok()
        for mode in _MODES:
            if mode is GenerationMode.NEGATIVE and not _takes_anything(operation):
                continue
            _ask_with(operation, mode, target, examples, seed_, found)


def fuzz_boundaries(target: Target, found: Found, *, one_in: int = 1) -> None:
    """Ask each operation with what lies at, just inside and just outside the bounds of its description; or a part of it."""
    schema = load(target.document)
    for result in schema.get_all_operations():
        operation = result.ok()
        cases = schema.iter_coverage_cases(
            operation=operation,
            generation_modes=list(_MODES),
            generation_config=schema.config.generation_for(operation=operation),
        )
        for case in itertools.islice(cases, 0, None, one_in):
            ask(target, case, found)


def fuzz_sequences(target: Target, runs: int, steps: int, seed_: int, found: Found) -> None:
    """Follow the links of the description: what one answer names is asked for, changed and ended by later requests."""

    class Sequence(load(target.document).as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            found.sequences += 1

        def call(self, case: Case, **_named: object) -> object:
            return ask(target, case, found)

        def validate_response(self, *_given: object, **_named: object) -> None:
            """Done by `ask`."""

    wanted = found.sequences + runs
    while found.sequences < wanted:
        seed(seed_ + found.sequences)(Sequence)
        # The server remembers earlier runs, and may answer the same request in another way: then the generator,
        # which takes that for a mistake, is begun anew. What was wrong with an answer is in `found` by then.
        with contextlib.suppress(FlakyStrategyDefinition):
            Sequence.run(settings=_settings(wanted - found.sequences, steps=steps))


def ask(target: Target, case: Case, found: Found) -> Response:
    """Send one request, and write down what is wrong with the answer."""
    chance = random.Random(_digest(case))  # noqa: S311 - shall be the same each time
    target.season(case, chance)
    found.cases += 1
    found.operations.add(case.operation.label)
    try:
        response = case.call(
            base_url=target.base_url,
            session=target.session,
            headers=target.headers(chance),
            timeout=ANSWERED_WITHIN_S,
        )
    except requests.RequestException as error:
        shown = f"{error!r}\n{case.as_curl_command()}"
        found.wrong[case.operation.label, "not answered"] = shown[:_MOST_SHOWN]
        raise
    found.statuses[response.status_code] += 1
    try:
        case.validate_response(
            response, checks=list(CHECKS), transport_kwargs={"session": target.session}
        )
        target.answered(case, response)
    except (schemathesis.errors.FailureGroup, AssertionError) as error:
        for each in getattr(error, "exceptions", [error]):
            shown = f"{each}\n{case.as_curl_command()}\n{response.status_code} {response.text}"
            found.wrong.setdefault((case.operation.label, type(each).__name__), shown[:_MOST_SHOWN])
    return response


def _ask_with(
    operation: Any,  # noqa: ANN401
    mode: GenerationMode,
    target: Target,
    examples: int,
    seed_: int,
    found: Found,
) -> None:
    @seed(seed_)
    @_settings(examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Case) -> None:
        ask(target, case, found)

    try:
        run()
    except Unsatisfiable:
        # A string in a path has no value that breaks its schema.
        assert mode is GenerationMode.NEGATIVE, operation.label


def _settings(examples: int, *, steps: int = 1) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        stateful_step_count=steps,
    )


def _takes_anything(operation: Any) -> bool:  # noqa: ANN401
    return bool(operation.body) or any(_parameters(operation))


def _parameters(operation: Any) -> Iterator[object]:  # noqa: ANN401
    for where in (operation.query, operation.path_parameters, operation.headers):
        yield from where


def _digest(case: Case) -> bytes:
    told = repr((case.method, case.path, case.path_parameters, case.query, case.body))
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass")).digest()
