"""Hooks: a token that one instance holds, and through which payloads reach it (Workflow SDK: hooks, atomic start).

A token is unique among the instances of a scope, across all workflows. It is held from its registration until the
instance ends or disposes of the hook; with a minimum retention also beyond the end, until that is over.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from emulator.domain.duration import parse_duration, unknown_unit
from emulator.domain.instance import InstanceKey, scope_of
from emulator.domain.limits import DAY_MS, MAX_HOOK_RETENTION_MS, MAX_HOOK_TOKEN_BYTES
from emulator.domain.names import has_control, is_unicode, plain_text
from emulator.domain.steps import StepKey, StepKind
from emulator.errors import HookRetentionTooLong, InvalidHook

NO_METADATA: Final = msgspec.Raw(b"null")


class HookStage(StrEnum):
    """What is left of a hook: it takes payloads, its token is only kept from others, or neither."""

    LIVE = "live"
    RETAINED = "retained"
    RELEASED = "released"


class TokenKey(NamedTuple):
    """A token, and the scope in which it is unique."""

    scope: str
    token: str


class HookRecord(msgspec.Struct, frozen=True, gc=False):
    """A hook as it is stored and seen from outside.

    `metadata` is a stored value, null if none was given; `schema` names the class that payloads are checked against, as
    "module:class".
    """

    hook_id: str
    workflow: str
    instance_id: str
    token: str
    created_ms: int
    metadata: msgspec.Raw = NO_METADATA
    retain_until_ms: int | None = None
    is_webhook: bool = False
    schema: str | None = None
    stage: HookStage = HookStage.LIVE

    @property
    def key(self) -> TokenKey:
        """Its token, in its scope."""
        return TokenKey(scope_of(self.instance_id), self.token)

    @property
    def owner(self) -> InstanceKey:
        """The instance that holds it."""
        return InstanceKey(self.workflow, self.instance_id)

    def holds_at(self, now_ms: int) -> bool:
        """Whether the token is kept from others."""
        if self.stage is HookStage.RETAINED:
            return self.retain_until_ms is not None and self.retain_until_ms > now_ms
        return self.stage is HookStage.LIVE


class MinRetention(msgspec.Struct, frozen=True, gc=False):
    """For how long a token stays taken at least: a duration, or an instant. One of the two is set."""

    duration_ms: int | None = None
    until_ms: int | None = None

    def deadline_ms(self, now_ms: int) -> int:
        """When it is over, if it begins now."""
        if self.duration_ms is not None:
            return now_ms + self.duration_ms
        assert self.until_ms is not None
        return self.until_ms


class HookRequest(msgspec.Struct, frozen=True, gc=False):
    """A hook that somebody wants to register. Its id and its token are made by the shell."""

    hook_id: str
    token: str
    metadata: msgspec.Raw = NO_METADATA
    min_retention: MinRetention | None = None
    is_webhook: bool = False
    schema: str | None = None


def check_token(token: object) -> str:
    """Accept a token: any text that is not blank and has no control characters, of at most 512 bytes of UTF-8.

    Raises:
        InvalidHook: it is none.
    """
    if not isinstance(token, str):
        raise InvalidHook(f"A hook's token is a text, not {token!r}.")
    if not token.strip():
        raise InvalidHook("A hook's token must not be blank. Leave it out to get one made up.")
    if has_control(token):
        raise InvalidHook(f"A hook's token must have no control characters, as {token!r} has.")
    if not is_unicode(token):
        raise InvalidHook(f"A hook's token must be valid Unicode, not {token!r}.")
    size_bytes = len(token.encode())
    if size_bytes > MAX_HOOK_TOKEN_BYTES:
        raise InvalidHook(
            f"A hook's token has at most {MAX_HOOK_TOKEN_BYTES} bytes; this one has {size_bytes}."
        )
    return plain_text(token)


def check_resume_id(resume_id: object) -> str:
    """Accept what a sender calls a payload: any text, as a token is, that is not blank.

    Raises:
        InvalidHook: it is none.
    """
    if (
        not isinstance(resume_id, str)
        or not resume_id.strip()
        or has_control(resume_id)
        or not is_unicode(resume_id)
        or len(resume_id.encode()) > MAX_HOOK_TOKEN_BYTES
    ):
        raise InvalidHook(
            f"A resume_id is a text of at most {MAX_HOOK_TOKEN_BYTES} bytes that is not blank, not {resume_id!r}."
        )
    return plain_text(resume_id)


def check_retention(given: MinRetention | None, now_ms: int) -> MinRetention | None:
    """Accept a minimum retention that has been read elsewhere: a moment ago, or in an earlier life.

    So an instant may have passed since; but no number is larger than what can be stored.

    Raises:
        InvalidHook: it is not one of the two, not positive, or before 1970.
        HookRetentionTooLong: it ends later than 30 days from now.
    """
    if given is None:
        return None
    if (given.duration_ms is None) == (given.until_ms is None):
        raise InvalidHook("min_retention is a duration or an instant.")
    if given.deadline_ms(now_ms) - now_ms > MAX_HOOK_RETENTION_MS:
        raise HookRetentionTooLong
    if (given.duration_ms is not None and given.duration_ms <= 0) or (
        given.until_ms is not None and given.until_ms < 0
    ):
        raise InvalidHook("min_retention must end in the future.")
    return given


def min_retention(given: object, now_ms: int, since_ms: int | None = None) -> MinRetention:
    """Read a minimum retention: a duration (a number is milliseconds), or a datetime with a time zone.

    An instant is past if it is not after `since_ms`, or now: a replay says later again what was the future at first.

    Raises:
        InvalidHook: it is neither, not positive, past, or a datetime without a time zone.
        HookRetentionTooLong: it ends later than 30 days from now.
    """
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InvalidHook(f"min_retention {given!r} has no time zone.")
        until_ms = round(given.timestamp() * 1000)
        left_ms = float(until_ms - now_ms)
        is_past = until_ms <= (now_ms if since_ms is None else since_ms)
    else:
        until_ms = None
        left_ms = parse_duration(given)
        is_past = left_ms <= 0
    if math.isnan(left_ms) or unknown_unit(given):
        raise InvalidHook(
            f"min_retention cannot be {given!r}: it is a number of milliseconds, a text such as "
            '"1 day", a timedelta, or a datetime with a time zone.'
        )
    if left_ms > MAX_HOOK_RETENTION_MS:
        days = MAX_HOOK_RETENTION_MS // DAY_MS
        raise HookRetentionTooLong(
            f"(hook.retention) Hook minimum retention cannot exceed {days} days"
        )
    if is_past:
        raise InvalidHook(f"min_retention cannot be {given!r}: it must end in the future.")
    if until_ms is None:
        return MinRetention(duration_ms=max(1, round(left_ms)))
    return MinRetention(until_ms=until_ms)


Retention = int | float | str | timedelta | datetime
"""What `min_retention` takes."""


def step_name(token: str | None, name: str | None) -> str:
    """What a hook is called among the steps: by its token, else by its name. The two never meet."""
    if token is not None:
        return f"token {token}"
    return "hook" if name is None else f"hook {name}"


def named_in(step: str) -> tuple[str | None, str | None]:
    """The token and the name out of a `step_name`."""
    if step.startswith("token "):
        return step.removeprefix("token "), None
    return None, None if step == "hook" else step.removeprefix("hook ")


def claim_step(token: str) -> StepKey:
    """The step that a claim at the start is: the first hook with that token that `run()` opens."""
    return StepKey(StepKind.HOOK, step_name(token, None), 1)
