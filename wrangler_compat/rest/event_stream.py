"""The events of an instance as server-sent events (HTML standard; Cloudflare: REST API, instances/subscribe).

An event is `id:` its number, `event:` its type, `data:` all of it as JSON. The stream ends after the terminal event, or
when the engine stops; a client that reconnects says in `Last-Event-ID` what it has seen. A comment every 15 seconds
keeps proxies from hanging up, and finds out that nobody listens any more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from emulator.engine.subscription import Subscription
from emulator.errors import EmulatorError, InvalidSubscription
from emulator.projection.events import EventFilter, event_filter
from emulator.timing.clock import Clock
from wrangler_compat.rest.operations import Operations
from wrangler_compat.rest.requests import instance_key

HEARTBEAT_MS: Final = 15_000
_DIGITS: Final = re.compile("[0-9]{1,16}")
HEARTBEAT: Final = b": still here\n\n"

T = TypeVar("T")


def wanted_events(request: Request) -> EventFilter:
    """What a request wants: `cursor`, or `Last-Event-ID`, which is newer; `filter`, repeated or with commas.

    Raises:
        InvalidSubscription: one of them is not valid.
    """
    cursor = request.headers.get("last-event-id") or request.query_params.get("cursor")
    given = request.query_params.getlist("filter")
    types = [each for part in given for each in part.split(",") if each] if given else None
    number: object = int(cursor) if cursor and _DIGITS.fullmatch(cursor) else cursor
    try:
        return event_filter(number or None, types)
    except InvalidSubscription as error:
        raise InvalidSubscription(f"{error.message}: {error.detail}") from None


async def subscribe(operations: Operations, request: Request) -> Response:
    """Answer a subscription, as both APIs do."""
    key = instance_key(request)
    subscription = Subscription(operations.engine, key, wanted_events(request))
    await subscription.open()
    return event_stream(to_the_end(frames(subscription, operations.clock)))


def event_stream(
    content: AsyncIterator[bytes], headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """The response that is such a stream."""
    headers = {"cache-control": "no-store", **headers}
    return StreamingResponse(content, media_type="text/event-stream", headers=headers)


async def frames(subscription: Subscription, clock: Clock) -> AsyncIterator[bytes]:
    """The events of a subscription, and a comment whenever there was none for a while.

    Raises:
        EmulatorError: the instance is gone, or the engine has stopped.
    """
    async for events in with_silences(subscription.more, clock):
        if events is None:
            yield HEARTBEAT
        else:
            yield b"".join(
                frame(each["type"], msgspec.json.encode(each), each["eventId"]) for each in events
            )


async def with_silences(
    more: Callable[[], Awaitable[list[T]]], clock: Clock
) -> AsyncIterator[list[T] | None]:
    """What `more` gives, until it gives nothing, and None whenever it has been waited for a while."""
    while True:
        try:
            async with asyncio.timeout(None) as patience:
                due_ms = clock.now_ms() + HEARTBEAT_MS
                call = clock.call_at(due_ms, lambda: patience.reschedule(0))
                try:
                    given = await more()
                finally:
                    call.cancel()
        except TimeoutError:
            yield None
            continue
        if not given:
            return
        yield given


def frame(event: str, data: bytes, number: int | None = None) -> bytes:
    """One event of a stream. JSON has no line breaks."""
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: ".encode() + data + b"\n\n"


async def to_the_end(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The frames, as far as they come: an error ends them."""
    # The answer has begun: what stops it can only end it. A client that reconnects is told.
    with suppress(EmulatorError):
        async for each in content:
            yield each
