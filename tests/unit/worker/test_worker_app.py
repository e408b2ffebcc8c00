"""The Worker as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from wrangler_compat.worker import app as app_module
from wrangler_compat.worker import current
from wrangler_compat.worker.app import WorkerApp
from wrangler_compat.worker.entrypoint import (
    ExecutionContext,
    ScheduledController,
    Worker,
    WorkerEntrypoint,
    handler,
)
from wrangler_compat.worker.env import Env
from wrangler_compat.worker.http import Request, Response


def worker_of(default: object, env: object = None, ctx: ExecutionContext | None = None) -> Worker:
    return Worker(default, env, ctx or ExecutionContext())


def class_with(fetch: Callable[..., object]) -> type[WorkerEntrypoint]:
    return type("Default", (WorkerEntrypoint,), {"fetch": fetch})


async def body_as_text(_self: object, request: Request) -> Response:
    return Response("None" if request.body is None else repr(await request.bytes()))


def not_a_response(_self: object, _request: Request) -> object:
    return {"a": 1}


def no_content(_self: object, _request: Request) -> Response:
    return Response(status=204)


async def ask(
    worker: Worker, method: str = "GET", url: str = "/", **options: Any
) -> httpx.Response:
    transport = httpx.ASGITransport(app=WorkerApp(worker))
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.local:8787") as client:
        return await client.request(method, url, **options)


async def test_fetch_of_the_default_class_answers_with_ctx_and_env() -> None:
    class Default(WorkerEntrypoint):
        async def fetch(self, request: Request) -> Response:
            assert isinstance(self.ctx, ExecutionContext)
            body = await request.json()
            return Response.json(
                {
                    "url": request.url,
                    "method": request.method,
                    "x": request.headers["X-A"],
                    "n": body["n"] + self.env.ONE,
                }
            )

    worker = worker_of(Default, Env({"ONE": 1}, {}))
    answer = await ask(worker, "POST", "/a%20b?c=d&c=e", headers={"x-a": "7"}, json={"n": 1})
    assert answer.json() == {
        "url": "http://shop.local:8787/a%20b?c=d&c=e",
        "method": "POST",
        "x": "7",
        "n": 2,
    }
    assert answer.headers["content-type"] == "application/json"


async def test_every_header_and_byte_of_the_response_is_sent() -> None:
    def fetch(_self: object, _request: Request) -> Response:
        return Response(
            b"\x00\xff",
            203,
            headers=[("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("content-length", "9")],
        )

    answer = await ask(worker_of(class_with(fetch)))
    assert (answer.status_code, answer.content) == (203, b"\x00\xff")
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert answer.headers.get_list("content-length") == ["2"]
    assert "content-type" not in answer.headers


async def test_the_framing_that_a_response_asks_for_is_the_servers() -> None:
    def fetch(_self: object, _request: Request) -> Response:
        return Response("abc", headers={"Transfer-Encoding": "chunked", "Content-Length": "10"})

    answer = await ask(worker_of(class_with(fetch)))
    assert (answer.text, answer.headers["content-length"]) == ("abc", "3")
    assert "transfer-encoding" not in answer.headers


async def test_an_answer_to_head_without_a_body_has_no_length() -> None:
    def fetch(_self: object, request: Request) -> Response:
        return Response("abc" if request.url.endswith("/body") else None)

    worker = worker_of(class_with(fetch))
    assert "content-length" not in (await ask(worker, "HEAD")).headers
    assert (await ask(worker, "HEAD", "/body")).headers["content-length"] == "3"


async def test_the_date_of_a_response_that_is_passed_on_is_the_servers() -> None:
    def fetch(_self: object, _request: Request) -> Response:
        return Response("abc", headers={"Date": "Thu, 01 Jan 1970 00:00:00 GMT"})

    assert "date" not in (await ask(worker_of(class_with(fetch)))).headers


async def test_a_header_that_cannot_be_sent_gives_500_with_the_traceback() -> None:
    def fetch(_self: object, _request: Request) -> Response:
        return Response("abc", headers={"a b": "1"})

    answer = await ask(worker_of(class_with(fetch)))
    assert answer.status_code == 500
    assert "ValueError: 'a b' is no name of a header." in answer.text


async def test_a_response_without_a_body_has_no_length() -> None:
    answer = await ask(worker_of(class_with(no_content)))
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers


async def test_a_body_with_get_is_dropped() -> None:
    answer = await ask(worker_of(class_with(body_as_text)), content=b"x")
    assert answer.text == "None"


def on_fetch_alone(request: Request) -> Response:
    return Response(request.url)


def on_fetch_with_env(request: Request, env: Any) -> Response:
    return Response(f"{request.url} {env.A}")


@handler
async def on_fetch_with_all(request: Request, env: Any, ctx: ExecutionContext) -> Response:
    return Response(f"{request.url} {env.A} {type(ctx).__name__}")


def on_fetch_with_a_tuple(*arguments: object) -> Response:
    return Response(str(len(arguments)))


@pytest.mark.parametrize(
    ("on_fetch", "expected"),
    [
        (on_fetch_alone, "http://shop.local:8787/"),
        (on_fetch_with_env, "http://shop.local:8787/ 1"),
        (on_fetch_with_all, "http://shop.local:8787/ 1 ExecutionContext"),
        (on_fetch_with_a_tuple, "3"),
    ],
)
async def test_on_fetch_of_older_workers_gets_as_many_arguments_as_it_takes(
    on_fetch: Callable[..., object], expected: str
) -> None:
    answer = await ask(worker_of(SimpleNamespace(on_fetch=on_fetch), SimpleNamespace(A=1)))
    assert answer.text == expected


async def test_an_exception_in_fetch_gives_500_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fetch(_self: object, _request: Request) -> Response:
        raise KeyError("the missing piece")

    answer = await ask(worker_of(class_with(fetch)), url="/x")
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith("text/plain")
    assert "Traceback" in answer.text
    assert 'raise KeyError("the missing piece")' in answer.text
    for text in (answer.text, caplog.text):
        assert "/wrangler_compat/" not in text, "the emulator's lines say nothing"
    assert "fetch of GET http://shop.local:8787/x failed" in caplog.text


async def test_a_fetch_that_returns_no_response_is_told_so() -> None:
    answer = await ask(worker_of(class_with(not_a_response)))
    assert answer.status_code == 500
    assert (
        "TypeError: fetch returned {'a': 1}; expected a Response. Make one: Response.json(...)."
        in answer.text
    )


async def test_a_fetch_that_returns_nothing_is_asked_for_a_return() -> None:
    def fetch(_self: object, _request: Request) -> None: ...

    answer = await ask(worker_of(class_with(fetch)))
    assert answer.status_code == 500
    assert "fetch returned None; expected a Response. Is a `return` missing?" in answer.text


async def test_a_response_that_was_read_is_not_sent() -> None:
    async def fetch(_self: object, _request: Request) -> Response:
        response = Response("secret")
        await response.text()
        return response

    answer = await ask(worker_of(class_with(fetch)))
    assert answer.status_code == 500
    assert "TypeError: Body has already been used. It can only be used once." in answer.text


@pytest.mark.parametrize("default", [WorkerEntrypoint, SimpleNamespace()])
async def test_a_worker_without_fetch_answers_404_and_says_what_to_define(default: object) -> None:
    answer = await ask(worker_of(default))
    assert answer.status_code == 404
    assert "class `Default(WorkerEntrypoint)` with a `fetch`" in answer.text


async def chunks_of(*chunks: bytes) -> Any:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_body_over_the_limit_is_refused_before_the_worker_sees_it(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    monkeypatch.setattr(app_module, "MAX_BODY_BYTES", 10)
    worker = worker_of(class_with(body_as_text))

    def content(size: int) -> Any:
        return chunks_of(b"x" * (size - 5), b"x" * 5) if streamed else b"x" * size

    assert (await ask(worker, "POST", content=content(10))).text == repr(b"x" * 10)
    refused = await ask(worker, "POST", content=content(11))
    assert (refused.status_code, refused.text) == (
        413,
        "The request body is too large: at most 10 bytes are taken.\n",
    )


async def never() -> Any:
    await asyncio.Event().wait()


def scope_of(path: str) -> dict[str, Any]:
    return {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [], "scheme": "http", "server": ("x", 80), "http_version": "1.1",
    }  # fmt: skip


async def test_a_client_that_hangs_up_does_not_cancel_what_fetch_began() -> None:
    started, go_on, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetch(_self: object, _request: Request) -> Response:
        started.set()
        await go_on.wait()
        finished.set()
        return Response()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    worker = worker_of(class_with(fetch))
    request = asyncio.ensure_future(
        WorkerApp(worker)(scope_of("/"), receive, lambda _message: never())
    )
    await started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    go_on.set()
    await worker.ctx.drain()
    assert finished.is_set()


async def test_a_client_that_hangs_up_within_its_body_is_no_error() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    def send(_message: object) -> Awaitable[None]:
        raise AssertionError("nobody is there to be answered")

    await WorkerApp(worker_of(class_with(no_content)))(scope_of("/"), receive, send)


async def test_wait_until_runs_on_after_the_response() -> None:
    go_on, done = asyncio.Event(), list[str]()

    async def work(name: str) -> None:
        await go_on.wait()
        done.append(name)

    class Default(WorkerEntrypoint):
        def fetch(self, _request: Request) -> Response:
            self.ctx.waitUntil(work("by ctx"))
            current.wait_until(work("by module"))
            return Response("sent")

    worker = worker_of(Default)
    with current.running(Env({}, {}), worker.ctx):
        assert (await ask(worker)).text == "sent"
    assert done == []
    go_on.set()
    await worker.ctx.drain()
    assert sorted(done) == ["by ctx", "by module"]


async def test_work_that_fails_after_the_response_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise ValueError("too late")

    ctx = ExecutionContext()
    ctx.wait_until(work())
    with caplog.at_level(logging.ERROR):
        await ctx.drain()
    assert "waitUntil: the work failed" in caplog.text
    assert "ValueError: too late" in caplog.text


def test_there_is_no_origin_to_pass_through_to() -> None:
    ExecutionContext().passThroughOnException()


def test_exports_of_ctx_are_bindings_by_class_name() -> None:
    ctx = ExecutionContext({"Order": 5})
    assert ctx.exports.Order == 5
    with pytest.raises(AttributeError, match=r"ctx\.exports has no 'Other'; there are: Order\."):
        _ = ctx.exports.Other


async def test_scheduled_gets_its_controller_in_either_style() -> None:
    seen: list[tuple[str, str, int]] = []

    class Default(WorkerEntrypoint):
        async def scheduled(self, controller: ScheduledController) -> None:
            seen.append(("class", controller.cron, controller.scheduledTime))

    async def on_scheduled(controller: ScheduledController, _env: object, _ctx: object) -> None:
        seen.append(("module", controller.cron, controller.scheduledTime))

    for worker in (worker_of(Default), worker_of(SimpleNamespace(on_scheduled=on_scheduled))):
        assert worker.handles("scheduled")
        assert not worker.handles("fetch")
        await worker.scheduled(ScheduledController("* * * * *", 60_000))
    assert seen == [("class", "* * * * *", 60_000), ("module", "* * * * *", 60_000)]
