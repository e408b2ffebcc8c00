"""The pages: what each shows, as HTML.

What is shown comes as arguments, the time too. A page works without JavaScript; what is live on it is then as it was when
the page was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from emulator.domain.hooks import HookRecord
from emulator.domain.instance import InstanceKey
from emulator.domain.limits import MAX_REASON_UNITS
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.engine.programs import WorkflowDefinition
from emulator.engine.reading import StreamInfo
from emulator.journal.port import ChunkRow, InstanceRow
from emulator.projection.detail import InstanceDetail
from emulator.projection.rendering import Json
from emulator.projection.timeline import window
from wrangler_compat.inspector.rendering import json_text, render, value_text
from wrangler_compat.inspector.steps import awaited_types, is_asleep, step_row
from wrangler_compat.inspector.urls import HOME, instance_url, with_query
from wrangler_compat.rest.requests import page_count

PAGE_ROWS: Final = 50
"""Instances, steps or events on a page."""


class Problem(NamedTuple):
    """What was refused: its text, what is allowed, and what had been typed, by field."""

    text: str = ""
    hints: Sequence[str] = ()
    given: Mapping[str, str] = MappingProxyType({})


class Paging(NamedTuple):
    """Which page of how many, from one. `url` is where they are, `asked` what is asked for beside the page."""

    page: int
    pages: int
    url: str
    asked: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(
        cls, page: int | None, total: int, url: str, asked: Sequence[tuple[str, str]] = ()
    ) -> Paging:
        """The nearest page that there is; None: the last."""
        pages = page_count(total, PAGE_ROWS)
        return cls(pages if page is None else min(page, pages), pages, url, asked)

    @property
    def first(self) -> int:
        """How many come before it."""
        return (self.page - 1) * PAGE_ROWS

    def at(self, page: int) -> str:
        """Where another page is."""
        return with_query(self.url, [*self.asked, ("page", page)])


class Subject(NamedTuple):
    """Everything that the page of an instance shows."""

    key: InstanceKey
    detail: InstanceDetail
    hooks: Sequence[HookRecord]
    streams: Sequence[StreamInfo]
    now_ms: int


Counts = Mapping[InstanceStatus, int]


def workflows_page(script: str, workflows: Sequence[tuple[WorkflowDefinition, Counts]]) -> bytes:
    """All workflows, their instances counted by status."""
    return render(
        "workflows.html",
        page_url=HOME,
        changes_url=f"{HOME}changes",
        script=script,
        workflows=workflows,
    )


def instances_page(
    definition: WorkflowDefinition,
    rows: Sequence[InstanceRow],
    counts: Counts,
    paging: Paging,
    problem: Problem | None = None,
) -> bytes:
    """Instances of a workflow, newest first, and a form for a new one."""
    return render(
        "instances.html",
        page_url=paging.at(paging.page),
        changes_url=f"{HOME}changes",
        definition=definition,
        rows=rows,
        counts=counts,
        status=dict(paging.asked).get("status"),
        attributes=[each for name, each in paging.asked if name == "attribute"],
        paging=paging,
        problem=problem or Problem(),
    )


def instance_page(
    subject: Subject, page: int | None = None, problem: Problem | None = None
) -> bytes:
    """An instance: how it is, what can be done to it, its steps on a line of time.

    `page` counts pages of steps. Without one it is the last, where something happens.
    """
    key, detail, hooks, streams, now_ms = subject
    url, is_over = instance_url(key), detail.status in TERMINAL
    paging = Paging.of(page, len(detail.steps), url)
    picture = window(detail, now_ms)
    shown = detail.steps[paging.first : paging.first + PAGE_ROWS]
    return render(
        "instance.html",
        page_url=url if page is None else paging.at(paging.page),
        changes_url=f"{url}/changes",
        url=url,
        key=key,
        detail=detail,
        is_over=is_over,
        params=value_text(detail.creation.params),
        output=None if detail.output is None else value_text(detail.output),
        steps=[
            step_row(each, number, picture) for number, each in enumerate(shown, paging.first + 1)
        ],
        paging=paging,
        is_asleep=not is_over and is_asleep(detail.steps),
        awaited=awaited_types(detail.steps),
        max_reason=MAX_REASON_UNITS,
        hooks=[(each, value_text(each.metadata)) for each in hooks[:PAGE_ROWS]],
        has_more_hooks=len(hooks) > PAGE_ROWS,
        streams=streams,
        problem=problem or Problem(),
    )


def events_page(key: InstanceKey, events: Sequence[Json], page: int) -> bytes:
    """The events of an instance, in order, as subscriptions have them."""
    url = f"{instance_url(key)}/events"
    paging = Paging.of(page, len(events), url)
    named = {"instanceId", "eventId", "timestamp", "type", "stepName"}
    return render(
        "events.html",
        page_url=paging.at(paging.page),
        changes_url=f"{instance_url(key)}/changes",
        key=key,
        events=[
            (each, {name: json_text(each[name]) for name in each if name not in named})
            for each in events[paging.first : paging.first + PAGE_ROWS]
        ],
        paging=paging,
    )


def stream_page(
    key: InstanceKey, stream: StreamInfo, chunks: Sequence[ChunkRow], paging: Paging
) -> bytes:
    """What an instance has written to a stream."""
    return render(
        "stream.html",
        page_url=paging.at(paging.page),
        changes_url=f"{instance_url(key)}/changes",
        key=key,
        stream=stream,
        chunks=[(each, value_text(each.value)) for each in chunks],
        paging=paging,
    )


def error_page(problem: Problem) -> bytes:
    """That something is not there, or did not work."""
    return render("error.html", problem=problem)
