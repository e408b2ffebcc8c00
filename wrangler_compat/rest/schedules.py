"""The API of `workflow-emulator schedules`: what is scheduled, and firing it now. It is ours; Cloudflare has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from emulator.domain.cron import Cron, parse_cron
from emulator.domain.instance import Schedule
from emulator.engine.schedules import WORKER, create_scheduled
from emulator.errors import InvalidInput
from emulator.projection.rendering import iso
from wrangler_compat.rest.answers import (
    Answers,
    api_app,
    crashed,
    no_route,
    remote_failure,
    success,
)
from wrangler_compat.rest.operations import Operations
from wrangler_compat.rest.requests import Body, convert, read_json, segment

PREFIX: Final = "/cdn-cgi/schedules"


class Fire(Body, frozen=True):
    """Which of a workflow's schedules to fire; it need not be told if there is one."""

    cron: str | None = None


def schedules_api(operations: Operations) -> Starlette:
    """Make the application, whose paths begin after the prefix and are not decoded yet."""
    api = _SchedulesApi(operations)
    routes = [
        Route("/", api.list_schedules, methods=["GET"]),
        Route("/{workflow}/fire", api.fire, methods=["POST"]),
    ]
    return api_app(routes, operations.worker.scripts, Answers(remote_failure, no_route, crashed))


class _SchedulesApi:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._engine = operations.engine

    async def list_schedules(self, _: Request) -> Response:
        now_ms = self._engine.now_ms()
        settled = await self._engine.journal.last_ticks()
        return success(
            [
                {
                    "workflow": workflow or None,
                    "cron": cron.text,
                    "settled_until": iso(settled.get((workflow, cron.text), now_ms)),
                    "next": iso(cron.next_after(now_ms)),
                }
                for workflow, cron in self._all()
            ]
        )

    async def fire(self, request: Request) -> Response:
        wanted = convert(await read_json(request), Fire).cron
        definition = self._engine.definition(segment(request, "workflow"))
        crons = [each.text for each in definition.schedules]
        if wanted is None and len(crons) == 1:
            [wanted] = crons
        if wanted not in crons:
            if not crons:
                raise InvalidInput(f"The workflow {definition.name} has no schedules.")
            known = ", ".join(f'"{each}"' for each in crons)
            raise InvalidInput(
                f"The workflow {definition.name} has these schedules: {known}. Say which one to fire."
            )
        tick = Schedule(wanted, self._engine.now_ms())
        return success({"id": await create_scheduled(self._engine, definition.name, tick)})

    def _all(self) -> Iterator[tuple[str, Cron]]:
        for definition in self._operations.workflows():
            for cron in definition.schedules:
                yield definition.name, cron
        for text in self._operations.worker.crons:
            yield WORKER, parse_cron(text)
