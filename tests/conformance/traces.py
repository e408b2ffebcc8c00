"""What a scenario leaves behind, in a form in which two engines can be compared. Pure functions over JSON.

A trace has the answers to the scenario's operations, the status at the end, what the callbacks did (effects), and the
log of steps. Instants are left out, long texts become their length, and an error that lost its name at one of
Cloudflare's internal boundaries (`{"name": "Error", "message": "Custom: why"}`) has it back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

ABSENT = "<absent>"
"""Stands for what only the other trace has."""

MAX_TEXT_CHARS = 1_000

_STEP_FIELDS = ("name", "type", "success", "finished", "output", "config")
_FOLDED_NAME = re.compile(r"([A-Z]\w*)(?:: |$)")
_FOLDED_IN_ROLLBACK = re.compile(r"^(rollback .* error) Error: ([A-Z]\w*): ")
_NAMELESS_TERMINATION = " error Error: Instance terminated"
_NAMED_TERMINATION = " error Terminated: Instance terminated"


class Difference(NamedTuple):
    """One place where two traces differ, in JSON texts."""

    recorded: str
    here: str


def tidied(value: Json) -> Json:
    """Shorten long texts, and give errors their names back."""
    if isinstance(value, str):
        named = _FOLDED_IN_ROLLBACK.sub(r"\1 \2: ", value)
        named = named.replace(_NAMELESS_TERMINATION, _NAMED_TERMINATION)
        return named if len(named) <= MAX_TEXT_CHARS else f"<{len(named)} characters>"
    if isinstance(value, list):
        return [tidied(each) for each in value]
    if isinstance(value, dict):
        return _unfolded({key: tidied(each) for key, each in value.items()})
    return value


def _unfolded(value: dict[str, Json]) -> dict[str, Json]:
    message = value.get("message")
    if value.get("name") == "Error" and isinstance(message, str):
        folded = _FOLDED_NAME.match(message)
        if folded:
            return {**value, "name": folded[1], "message": message[folded.end() :]}
    return value


def step_trace(logged: dict[str, Json]) -> dict[str, Json]:
    """Keep what a step of the log did, and drop when it did it."""
    kept = {key: logged[key] for key in _STEP_FIELDS if key in logged}
    kept["error"] = logged.get("error")
    if isinstance(output := kept.get("output"), dict):
        kept["output"] = {key: each for key, each in output.items() if key != "timestamp"}
    if isinstance(attempts := logged.get("attempts"), list):
        kept["attempts"] = [
            {"success": each.get("success"), "error": each.get("error")}
            for each in attempts
            if isinstance(each, dict)
        ]
    return kept


def differences(recorded: Json, here: Json) -> dict[str, Difference]:
    """Map the path of each difference to it. Lists of different lengths differ as a whole."""
    return dict(_differences(recorded, here, ""))


def _differences(recorded: Json, here: Json, path: str) -> Iterator[tuple[str, Difference]]:
    if isinstance(recorded, dict) and isinstance(here, dict):
        for key in sorted(recorded.keys() | here.keys()):
            both = recorded.get(key, ABSENT), here.get(key, ABSENT)
            yield from _differences(*both, f"{path}/{key}")
    elif isinstance(recorded, list) and isinstance(here, list) and len(recorded) == len(here):
        for index, both in enumerate(zip(recorded, here, strict=True)):
            yield from _differences(*both, f"{path}/{index}")
    elif (difference := Difference(_text(recorded), _text(here))).recorded != difference.here:
        yield path, difference


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
