"""The two ways to a binding: in the engine's process, and over HTTP to a server of the same engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from bindings import Workflow
from bindings.host import EngineHost
from bindings.http import HttpWorkflow
from tests.unit.bindings.project import NAME, Project
from tests.unit.rest.streaming import StreamingTransport
from wrangler_compat.rest.operations import Operations
from wrangler_compat.server import Access, Server

Way = Callable[..., AbstractAsyncContextManager[Workflow]]
"""Opens the binding to a workflow of a project, `orders` unless another name is given."""


@asynccontextmanager
async def in_process(project: Project, name: str = NAME) -> AsyncGenerator[Workflow]:
    """The binding that a Worker has."""
    yield Workflow(EngineHost(project.engine), name)


@asynccontextmanager
async def over_http(project: Project, name: str = NAME) -> AsyncGenerator[Workflow]:
    """The binding of another process. In the end no request may be open."""
    transport = transport_to(project)
    async with HttpWorkflow("http://localhost:8787/", name, transport=transport) as workflow:
        yield workflow
    assert transport.open_requests == 0


def transport_to(project: Project, access: Access | None = None) -> StreamingTransport:
    """The server of a project, without a socket."""
    operations = Operations(project.engine, 0, clock=project.clock)
    return StreamingTransport(Server(_no_worker, operations, access or Access()))


async def _no_worker(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(f"{scope['path']} is the Worker's")


both_ways = pytest.mark.parametrize("way", [in_process, over_http])
