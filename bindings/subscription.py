"""`WorkflowSubscription`: the events of an instance, one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any

from bindings.convert import js_dict, with_attributes
from bindings.host import EventSource
from emulator.domain.values import JsDict


class WorkflowSubscription:
    """What `subscribe()` gives (Cloudflare: Workers API, subscribe).

    To be asked with `next()`, as on Cloudflare, or in Python's ways: `async for event in …`, `async with … as events`.
    It may be awaited, which checks that the instance exists; otherwise the first `next()` does.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._ready: deque[dict[str, Any]] = deque()
        self._is_closed = False
        self._asking = asyncio.Lock()
        self._patience: asyncio.Timeout | None = None

    def __await__(self) -> Generator[Any, Any, WorkflowSubscription]:
        yield from self._source.open().__await__()
        return self

    async def next(self) -> JsDict:
        """Wait for the next event: `{"done": False, "value": {"instanceId", "eventId", "timestamp", "type", …}}`.

        After the terminal event, and once closed, it is `{"done": True, "value": None}`. A call that is cancelled loses
        no event.

        Raises:
            InstanceNotFound: the instance is gone.
            EngineStopped: the emulator is.
        """
        async with self._asking:
            if not self._ready and not self._is_closed:
                await self._ask()
            if not self._ready or self._is_closed:
                return js_dict(done=True, value=None)
            return js_dict(done=False, value=with_attributes(self._ready.popleft()))

    async def close(self) -> None:
        """Give up the rest. Idempotent."""
        self._is_closed = True
        if self._patience is not None:
            self._patience.reschedule(0)
            self._patience = None
        async with self._asking:
            await self._source.close()

    async def _ask(self) -> None:
        """Get more events; `close` ends the wait."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self._ready.extend(await self._source.more())
        except TimeoutError:
            if not self._is_closed:
                raise
        finally:
            self._patience = None

    def __aiter__(self) -> WorkflowSubscription:
        return self

    async def __anext__(self) -> JsDict:
        answer = await self.next()
        if answer["done"]:
            raise StopAsyncIteration
        return answer["value"]

    async def __aenter__(self) -> WorkflowSubscription:
        return await self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
