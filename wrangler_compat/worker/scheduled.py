"""The Worker's `scheduled` handler: run at a tick of a cron trigger, or when somebody asks for it over HTTP.

`wrangler dev` has the same address for it: `/cdn-cgi/handler/scheduled?cron=…&time=…` (Cloudflare: Cron Triggers, Test
Cron Triggers locally).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from wrangler_compat.worker.entrypoint import ScheduledController

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from emulator.timing.clock import Clock
    from wrangler_compat.worker.entrypoint import Worker

Outcome = Literal["ok", "exception"]

_WHOLE: Final = re.compile(r"[0-9]{1,16}", re.ASCII)

PATH: Final = "/cdn-cgi/handler/scheduled"

log = logging.getLogger("workflow_emulator")


async def run_scheduled(worker: Worker, cron: str, scheduled_ms: int) -> Outcome:
    """Run the handler and say how it went. A failure is logged, and the tick is not tried again (as on Cloudflare)."""
    if not worker.handles("scheduled"):
        log.error('the cron trigger "%s" is due, but the Worker has no `scheduled`', cron)
        return "exception"
    try:
        await worker.scheduled(ScheduledController(cron, scheduled_ms))
    except Exception:
        log.exception('scheduled of the cron trigger "%s" failed', cron)
        return "exception"
    return "ok"


class ScheduledApp:
    """The ASGI application that runs the handler: `cron` is what the handler is told, `time` when, in milliseconds."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, when the handler is done."""
        answer = await self._answer(Request(scope))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        query = request.query_params
        given = query.get("time", str(self._clock.now_ms()))
        if not _WHOLE.fullmatch(given):
            text = f"time: got {given!r}; expected milliseconds since 1970.\n"
            return PlainTextResponse(text, 400)
        outcome = await run_scheduled(self._worker, query.get("cron", ""), int(given))
        status = 200 if outcome == "ok" else 500
        if query.get("format") == "json":
            return JSONResponse({"outcome": outcome, "noRetry": False}, status)
        return PlainTextResponse(outcome, status)
