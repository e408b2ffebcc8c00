"""Workers whose requests are answered by an ASGI application, FastAPI's and Starlette's above all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request as AppRequest
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.responses import Response as AppResponse
from starlette.routing import Route

from emulator.journal.memory import MemoryJournal
from emulator.testing.clock import VirtualClock
from wrangler_compat.config import load_config
from wrangler_compat.project import open_project
from wrangler_compat.worker import asgi
from wrangler_compat.worker.app import WorkerApp
from wrangler_compat.worker.entrypoint import ExecutionContext, Worker, WorkerEntrypoint
from wrangler_compat.worker.env import Env
from wrangler_compat.worker.http import Request, Response

ENV = Env({"GREETING": "Hello"}, {})


def app_of(endpoint: Any, *methods: str) -> Starlette:
    return Starlette(routes=[Route("/{path:path}", endpoint, methods=list(methods) or None)])


async def test_starlette_sees_the_request_and_the_worker_its_response() -> None:
    async def endpoint(request: AppRequest) -> JSONResponse:
        seen = {
            "url": str(request.url),
            "path": request.url.path,
            "query": request.query_params.multi_items(),
            "accept": request.headers.getlist("accept"),
            "body": await request.json(),
            "greeting": request.scope["env"].GREETING,
        }
        return JSONResponse(seen, 201, {"x-made-by": "starlette"})

    request = Request(
        "https://shop.example:8443/a%20b/c?d=1&d=%C3%A9",
        method="POST",
        headers=[("Accept", "a/b"), ("Accept", "c/d"), ("host", "shop.example:8443")],
        body='{"n": 1}',
    )
    response = await asgi.fetch(app_of(endpoint, "POST"), request, ENV)
    assert (response.status, response.headers["X-Made-By"]) == (201, "starlette")
    assert await response.json() == {
        "url": "https://shop.example:8443/a b/c?d=1&d=%C3%A9",
        "path": "/a b/c",
        "query": [["d", "1"], ["d", "é"]],
        "accept": ["a/b, c/d"],
        "body": {"n": 1},
        "greeting": "Hello",
    }


async def test_the_javascript_object_of_a_request_is_as_good_as_the_request() -> None:
    async def endpoint(request: AppRequest) -> PlainTextResponse:
        return PlainTextResponse(request.url.path)

    request = Request("http://localhost/x")
    response = await asgi.fetch(app_of(endpoint), request.js_object, ENV)
    assert await response.text() == "/x"


async def test_the_server_is_known_where_no_host_header_is() -> None:
    async def endpoint(request: AppRequest) -> PlainTextResponse:
        return PlainTextResponse(str(request.url))

    for url in ("http://localhost:8787/", "https://shop.example/"):
        response = await asgi.fetch(app_of(endpoint), Request(url), ENV)
        assert await response.text() == url


async def test_each_cookie_has_a_header_of_its_own() -> None:
    async def endpoint(_: AppRequest) -> AppResponse:
        response = AppResponse(status_code=204)
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV)
    assert response.status == 204
    cookies = response.headers.get_all("set-cookie", [])
    assert [cookie.partition(";")[0] for cookie in cookies] == ["a=1", "b=2"]


async def test_outside_of_a_worker_a_streamed_response_is_collected() -> None:
    async def chunks() -> AsyncGenerator[str]:
        for number in range(3):
            yield f"{number}\n"

    async def endpoint(_: AppRequest) -> StreamingResponse:
        return StreamingResponse(chunks(), media_type="text/event-stream")

    response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV)
    assert await response.text() == "0\n1\n2\n"
    assert response.headers["content-type"].startswith("text/event-stream")


class Client:
    """A client of a Worker whose only application is `app`: it takes chunks one by one, and leaves."""

    def __init__(self, app: Any) -> None:
        self.ctx = ExecutionContext()
        self.app = app
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.left = asyncio.Event()
        self._received = False

    async def ask(self) -> None:
        class Default(WorkerEntrypoint):
            async def fetch(_self, request: Request) -> Response:  # noqa: N805
                return await asgi.fetch(self.app, request, ENV, self.ctx)

        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"",
            "headers": [], "scheme": "http", "server": ("x", 80), "http_version": "1.1",
        }  # fmt: skip
        await WorkerApp(Worker(Default, ENV, self.ctx))(scope, self.receive, self.sent.put)

    async def receive(self) -> dict[str, Any]:
        if not self._received:
            self._received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_a_streamed_response_is_sent_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def chunks() -> AsyncGenerator[str]:
        yield "first"
        await go_on.wait()
        yield "second"

    async def endpoint(_: AppRequest) -> StreamingResponse:
        return StreamingResponse(chunks(), headers={"content-length": "11", "x": "y"})

    client = Client(app_of(endpoint))
    async with asgi.applications():
        asking = asyncio.create_task(client.ask())
        start = await client.sent.get()
        assert (start["status"], start["headers"]) == (200, [(b"x", b"y")])
        assert (await client.sent.get())["body"] == b"first"
        go_on.set()
        assert (await client.sent.get())["body"] == b"second"
        assert await client.sent.get() == {
            "type": "http.response.body",
            "body": b"",
            "more_body": False,
        }
        await asking
        await client.ctx.drain()


async def test_an_application_waits_for_its_client_to_take_a_chunk() -> None:
    made: list[int] = []

    async def chunks() -> AsyncGenerator[str]:
        for number in range(5):
            made.append(number)
            yield str(number)

    async def endpoint(_: AppRequest) -> StreamingResponse:
        return StreamingResponse(chunks())

    ctx = ExecutionContext()
    async with asgi.applications():
        response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV, ctx)
        assert response.body is not None
        taken = aiter(response.body)
        assert await anext(taken) == b"0"
        assert made[2:] == []
        assert [chunk async for chunk in taken] == [b"1", b"2", b"3", b"4"]
        await ctx.drain()


async def test_an_application_is_told_that_its_client_has_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        told.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"y", "more_body": True})

    client = Client(app)
    async with asgi.applications():
        asking = asyncio.create_task(client.ask())
        while (await client.sent.get()).get("body") != b"x":
            pass
        client.left.set()
        with caplog.at_level(logging.INFO):
            await asking
            await client.ctx.drain()
    assert told == ["http.disconnect"]
    assert not caplog.records


async def test_a_stream_of_starlette_is_ended_when_its_client_goes() -> None:
    ended = asyncio.Event()

    async def chunks() -> AsyncGenerator[str]:
        try:
            yield "x"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def endpoint(_: AppRequest) -> StreamingResponse:
        return StreamingResponse(chunks())

    client = Client(app_of(endpoint))
    async with asgi.applications():
        asking = asyncio.create_task(client.ask())
        while (await client.sent.get()).get("body") != b"x":
            pass
        client.left.set()
        await asking
        await client.ctx.drain()
    assert ended.is_set()


async def test_an_application_that_goes_on_for_nobody_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asgi, "GONE_GRACE_S", 0)
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        told.append((await receive())["type"])
        await asyncio.Event().wait()

    client = Client(app)
    client.left.set()
    async with asgi.applications():
        await client.ask()
        await client.ctx.drain()
    assert told == ["http.disconnect"]


async def test_a_stream_whose_application_fails_does_not_look_complete(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def chunks() -> AsyncGenerator[str]:
        yield "x"
        raise ZeroDivisionError("boom")

    async def endpoint(_: AppRequest) -> StreamingResponse:
        return StreamingResponse(chunks())

    ctx = ExecutionContext()
    async with asgi.applications():
        with caplog.at_level(logging.ERROR):
            response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV, ctx)
            with pytest.raises(ConnectionError, match="failed before its response was complete"):
                await response.text()
            await ctx.drain()
    assert "boom" in caplog.text


async def test_fastapi_answers_with_what_its_functions_return() -> None:
    app = FastAPI()

    @app.get("/items/{item_id}")
    async def read_item(item_id: int, request: AppRequest) -> dict[str, object]:
        return {"item": item_id, "greeting": request.scope["env"].GREETING}

    assert callable(read_item)
    response = await asgi.fetch(app, Request("http://localhost/items/7"), ENV)
    assert await response.json() == {"item": 7, "greeting": "Hello"}
    refused = await asgi.fetch(app, Request("http://localhost/items/x"), ENV)
    assert refused.status == 422


class Started:
    """An application that counts its startups and shutdowns."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.app = Starlette(routes=[Route("/", self.answer)], lifespan=self.lifespan)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncGenerator[dict[str, str]]:
        self.log.append("startup")
        yield {"pool": "ready"}
        self.log.append("shutdown")

    async def answer(self, request: AppRequest) -> PlainTextResponse:
        self.log.append("request")
        return PlainTextResponse(request.state.pool)


async def test_a_worker_starts_its_application_once_and_ends_it_at_its_own_end() -> None:
    started, ctx = Started(), ExecutionContext()
    async with asgi.applications():
        requests = [Request("http://localhost/") for _ in range(3)]
        answers = await asyncio.gather(
            *(asgi.fetch(started.app, request, ENV, ctx) for request in requests)
        )
        assert [await answer.text() for answer in answers] == ["ready"] * 3
        assert started.log == ["startup", "request", "request", "request"]
    assert started.log[-1] == "shutdown"
    assert started.log.count("startup") == started.log.count("shutdown") == 1


async def test_outside_of_a_worker_an_application_lives_for_its_request() -> None:
    started = Started()
    for _ in range(2):
        await asgi.fetch(started.app, Request("http://localhost/"), ENV)
    assert started.log == ["startup", "request", "shutdown"] * 2


async def test_an_application_that_does_not_start_is_told() -> None:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        raise OSError("no database")
        yield

    app = Starlette(lifespan=lifespan)
    async with asgi.applications():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no database"):
                await asgi.fetch(app, Request("http://localhost/"), ENV)


async def test_an_application_without_a_lifespan_is_served() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"bare"})
        assert await receive() == {"type": "http.disconnect"}

    response = await asgi.fetch(app, Request("http://localhost/"), ENV)
    assert await response.text() == "bare"


async def test_background_tasks_go_on_after_the_response() -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    async def endpoint(_: AppRequest) -> PlainTextResponse:
        return PlainTextResponse("soon", background=BackgroundTask(work))

    ctx = ExecutionContext()
    async with asgi.applications():
        response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV, ctx)
        assert await response.text() == "soon"
        assert not done.is_set()
        go.set()
        await ctx.drain()
        assert done.is_set()


async def test_an_error_of_the_application_is_answered_by_it_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def endpoint(_: AppRequest) -> PlainTextResponse:
        raise ZeroDivisionError("boom")

    ctx = ExecutionContext()
    async with asgi.applications():
        with caplog.at_level(logging.ERROR):
            response = await asgi.fetch(app_of(endpoint), Request("http://localhost/"), ENV, ctx)
            await ctx.drain()
    assert response.status == 500
    assert "boom" in caplog.text


async def test_an_application_that_raises_or_says_nothing_gives_an_error() -> None:
    async def raises(scope: Any, _: Any, __: Any) -> None:
        raise ZeroDivisionError(scope["type"])

    async def silent(_: Any, __: Any, ___: Any) -> None:
        pass

    with pytest.raises(ZeroDivisionError, match="http"):
        await asgi.fetch(raises, Request("http://localhost/"), ENV)
    with pytest.raises(RuntimeError, match="without a complete response"):
        await asgi.fetch(silent, Request("http://localhost/"), ENV)


async def test_a_cancelled_request_is_cancelled_in_the_application() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, _: Any, __: Any) -> None:
        assert scope["type"] == "http"
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    asking = asyncio.create_task(asgi.fetch(app, Request("http://localhost/"), ENV))
    await entered.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await left.wait()


WRANGLER = """{
  "name": "shop", "main": "src/entry.py",
  "vars": { "GREETING": "Hello" },
  "workflows": [{ "name": "orders", "binding": "ORDERS", "class_name": "Orders" }],
}"""
ENTRY = """
import asgi
from contextlib import asynccontextmanager
from fastapi import FastAPI, Request
from workers import WorkerEntrypoint, WorkflowEntrypoint, asgi as the_same

assert asgi.fetch is the_same.fetch
log = []


@asynccontextmanager
async def lifespan(app):
    log.append("startup")
    yield
    log.append("shutdown")


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order_id}")
async def create(order_id: str, request: Request):
    env = request.scope["env"]
    instance = await env.ORDERS.create(id=order_id, params=await request.json())
    return {"id": instance.id, "greeting": env.GREETING, "log": log}


class Orders(WorkflowEntrypoint):
    async def run(self, event, step):
        return event["payload"]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await asgi.fetch(app, request.js_object, self.env)
"""


async def test_a_fastapi_worker_of_a_project_creates_instances(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "entry.py").write_text(ENTRY)
    (tmp_path / "wrangler.jsonc").write_text(WRANGLER)
    config = load_config(tmp_path)
    async with open_project(config, MemoryJournal(), VirtualClock()) as project:
        transport = httpx.ASGITransport(project.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for order in ("o-1", "o-2"):
                answer = await client.post(f"/orders/{order}", json={"n": 1})
                expected = {"id": order, "greeting": "Hello", "log": ["startup"]}
                assert (answer.status_code, answer.json()) == (200, expected)
