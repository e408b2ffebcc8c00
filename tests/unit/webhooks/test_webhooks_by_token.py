"""The public addresses of hooks: what a caller is answered, and what the run gets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from bindings import WorkflowStep
from bindings.host import WEBHOOK_PATH
from bindings.webhook import Webhook
from bindings.wire import PREFIX
from emulator.domain.instance import InstanceKey
from emulator.domain.values import JsDict
from emulator.errors import InvalidHook
from tests.unit.bindings.hosts import transport_to
from tests.unit.bindings.project import NAME, ONCE, Project, in_virtual_time, pause_for
from tests.unit.rest.streaming import StreamingTransport
from wrangler_compat.server import Access
from wrangler_compat.worker.http import Response

Opens = Callable[[JsDict, WorkflowStep], Awaitable[Any]]


async def opened(step: WorkflowStep, **options: Any) -> Webhook:
    """Open a webhook, and make its address known."""
    webhook = step.create_webhook(**options)
    await step.set_attributes({"url": webhook.url})
    return webhook


async def shown(webhook: Webhook) -> Any:
    """What a run sees of one request."""
    request = await webhook
    return {
        "method": request.method,
        "url": request.url,
        "headers": request.headers,
        "body": await request.arrayBuffer(),
    }


async def takes_one(event: JsDict, step: WorkflowStep) -> Any:
    """Takes one request; what is answered is in the params."""
    given = event.payload
    respond_with = Response(**given) if isinstance(given, JsDict) and given else None
    return await shown(await opened(step, respond_with=respond_with, metadata={"for": "test"}))


class Caller:
    """Somebody out there, who knows the address of the webhook of instance `a`."""

    def __init__(self, project: Project, transport: StreamingTransport, path: str) -> None:
        self.project = project
        self.transport = transport
        self.path = path

    async def call(
        self, method: str = "POST", query: str = "", host: str = "localhost", **options: Any
    ) -> httpx.Response:
        """Call it. The answer is whole when this returns."""
        async with httpx.AsyncClient(transport=self.transport) as http:
            return await http.request(method, f"http://{host}{self.path}{query}", **options)

    async def refusal(self, *arguments: str, **options: Any) -> tuple[int, str]:
        """Status and code of a refusal."""
        answer = await self.call(*arguments, **options)
        [error] = answer.json()["errors"]
        return answer.status_code, error["code"]


@asynccontextmanager
async def calling(
    run: Opens, params: Any = None, access: Access | None = None
) -> AsyncGenerator[Caller]:
    async with Project(run) as project:
        made = await project.workflow.create(id="a", params=params or {})
        key = InstanceKey(NAME, made.id)
        address = await project.engine.until(key, lambda state: state.attributes.get("url"))
        transport = transport_to(project, access)
        yield Caller(project, transport, address)
        assert transport.open_requests == 0


@in_virtual_time
async def test_a_request_is_accepted_at_once_and_given_to_the_run() -> None:
    async with calling(takes_one) as caller:
        answer = await caller.call(
            "PUT",
            "?a=1&a=%2F",
            content=b"\x00\xffbody",
            headers=[("X-One", "1"), ("Authorization", "Bearer s3cret"), ("Cookie", "id=7")],
        )
        assert (answer.status_code, answer.content) == (202, b"")
        output = (await caller.project.ended("a")).output
        assert (output.method, output.body) == ("PUT", b"\x00\xffbody")
        assert output.url == f"http://localhost{caller.path}?a=1&a=%2F"
        assert output.headers["x-one"] == "1"
        assert output.headers["authorization"] == "Bearer s3cret"
        assert output.headers["cookie"] == "id=7"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "PURGE"])
@in_virtual_time
async def test_every_method_is_delivered(method: str) -> None:
    async with calling(takes_one) as caller:
        assert (await caller.call(method)).status_code == 202
        assert (await caller.project.ended("a")).output.method == method


@in_virtual_time
async def test_a_response_that_was_given_is_the_answer() -> None:
    static = {
        "body": "thanks",
        "status": 201,
        "headers": {"X-Kind": "static", "Content-Length": "1"},
    }
    async with calling(takes_one, static) as caller:
        answer = await caller.call()
        assert (answer.status_code, answer.text) == (201, "thanks")
        assert answer.headers["x-kind"] == "static"
        assert answer.headers["content-length"] == "6"


@in_virtual_time
async def test_several_requests_are_taken_in_their_order() -> None:
    async def takes_three(event: JsDict, step: WorkflowStep) -> Any:
        taken: list[Any] = []
        async for request in await opened(step):
            taken.append(await request.json())
            if len(taken) == 3:
                return taken
        raise AssertionError

    async with calling(takes_three) as caller:
        for number in range(3):
            assert (await caller.call(json=number)).status_code == 202
        assert (await caller.project.ended("a")).output == [0, 1, 2]


async def answers_by_hand(event: JsDict, step: WorkflowStep) -> Any:
    """Answers each request out of a step, until one has no body."""
    async for request in await opened(step, respond_with="manual"):
        text = await request.text()
        await answered(step, request, text)
        if not text:
            break
    return "done"


async def answered(step: WorkflowStep, request: Any, text: str) -> None:
    @step.do("answer", config=ONCE)
    async def answer() -> None:
        await pause_for(5)
        await request.respond_with(Response(f"got {text}", 418, headers={"X-By": "hand"}))

    await answer()


@in_virtual_time
async def test_an_answer_by_hand_is_waited_for() -> None:
    async with calling(answers_by_hand) as caller:
        began_ms = caller.project.now_ms()
        answer = await caller.call(content="one")
        assert (answer.status_code, answer.text, answer.headers["x-by"]) == (418, "got one", "hand")
        assert caller.project.now_ms() - began_ms >= 5_000
        two, last = await asyncio.gather(caller.call(content="two"), caller.call())
        assert (two.text, last.text) == ("got two", "got ")
        assert (await caller.project.ended("a")).output == "done"


async def ends_without_answer(event: JsDict, step: WorkflowStep) -> Any:
    return await shown(await opened(step, respond_with="manual"))


async def fails_without_answer(event: JsDict, step: WorkflowStep) -> Any:
    await (await opened(step, respond_with="manual"))
    raise ValueError("broken")


async def gives_it_up(event: JsDict, step: WorkflowStep) -> Any:
    with await opened(step, respond_with="manual") as webhook:
        await webhook
    await step.sleep("rest", "1 day")


@pytest.mark.parametrize("run", [ends_without_answer, fails_without_answer, gives_it_up])
@in_virtual_time
async def test_a_request_that_nobody_answers_is_told_so(run: Opens) -> None:
    async with calling(run) as caller:
        began_ms = caller.project.now_ms()
        assert await caller.refusal() == (500, "webhook-response-not-sent")
        assert caller.project.now_ms() - began_ms < 60_000


async def rests(event: JsDict, step: WorkflowStep) -> Any:
    """Never takes what comes."""
    await opened(step, respond_with="manual")
    await step.sleep("rest", "1 day")


@pytest.mark.parametrize("call", ["terminate", "restart", "delete"])
@in_virtual_time
async def test_who_waits_is_told_when_the_run_is_taken_away(call: str) -> None:
    async with calling(rests) as caller:
        waiting = asyncio.create_task(caller.refusal())
        await pause_for(60)
        assert not waiting.done()
        await getattr(caller.project.handle("a"), call)()
        assert await waiting == (500, "webhook-response-not-sent")


@in_virtual_time
async def test_who_waits_is_told_when_the_engine_stops() -> None:
    async with calling(rests) as caller:
        waiting = asyncio.create_task(caller.refusal())
        await pause_for(60)
        await caller.project.engine.close()
        assert await waiting == (500, "webhook-response-not-sent")
        assert await caller.refusal() == (500, 10001)


@in_virtual_time
async def test_a_caller_that_hangs_up_is_waited_for_no_more() -> None:
    async with calling(rests) as caller:
        waiting = asyncio.create_task(caller.call())
        await pause_for(60)
        assert caller.transport.open_requests == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert caller.transport.open_requests == 0


@in_virtual_time
async def test_a_second_answer_and_one_where_none_is_wanted_are_refused() -> None:
    async def answers_twice(event: JsDict, step: WorkflowStep) -> Any:
        request = await (await opened(step, respond_with=event.payload or None))

        @step.do("answer", config=ONCE)
        async def answer() -> list[str]:
            told: list[str] = []
            for body in ("one", "two"):
                try:
                    await request.respondWith(Response(body))
                except RuntimeError as error:
                    told.append(str(error))
            return told

        return await answer()

    async with calling(answers_twice, "manual") as caller:
        assert (await caller.call()).text == "one"
        assert (await caller.project.ended("a")).output == ["This request has been answered."]
    async with calling(answers_twice, None) as caller:
        assert (await caller.call()).status_code == 202
        assert len((await caller.project.ended("a")).output) == 2


@in_virtual_time
async def test_what_is_no_webhook_is_answered_as_what_is_not_there() -> None:
    async def holds(event: JsDict, step: WorkflowStep) -> Any:
        step.create_hook(token="order/1")
        await shown(await opened(step))

    async with calling(holds) as caller:
        assert (await caller.call()).status_code == 202
        await caller.project.ended("a")
        retained = await caller.project.workflow.create(
            id="kept", hook={"token": "kept", "min_retention": "1 day"}
        )
        told: set[tuple[int, bytes]] = set()
        for token in ("unknown", "order%2F1", "kept", "", "%20", "x" * 600, caller.path[-24:]):
            caller.path = WEBHOOK_PATH + token
            answer = await caller.call(content=b"x" * 2**21)
            told.add((answer.status_code, answer.content))
        assert {status for status, _ in told} == {404}
        assert len(told) == 1
        assert await caller.project.history(retained) != []


@in_virtual_time
async def test_only_requests_to_its_address_reach_a_webhook() -> None:
    async with calling(takes_one) as caller:
        token = caller.path.removeprefix(WEBHOOK_PATH)
        with pytest.raises(InvalidHook, match="takes requests to its address"):
            await caller.project.workflow.resume_hook(token, {"method": "POST"})
        caller.path = f"{PREFIX}/hooks/{token}/resume"
        assert await caller.refusal(json={}) == (400, "invalid_hook")
        caller.path = WEBHOOK_PATH + token
        assert (await caller.call("PUT")).status_code == 202
        assert (await caller.project.ended("a")).output.method == "PUT"


@pytest.mark.parametrize("size_bytes", [2**20 + 1, 2**20])
@in_virtual_time
async def test_a_request_that_is_too_large_is_refused(size_bytes: int) -> None:
    # The second one is over the limit as it is stored.
    async with calling(takes_one) as caller:
        assert await caller.refusal(content=b"x" * size_bytes) == (413, "value.too_large")
        assert (await caller.call(content=b"x" * 700_000)).status_code == 202
        assert len((await caller.project.ended("a")).output.body) == 700_000


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "shop.example"},
        {"host": "["},
        {"origin": "https://shop.example"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
    ],
)
@in_virtual_time
async def test_it_is_public(headers: dict[str, str]) -> None:
    async with calling(takes_one, access=Access("secret")) as caller:
        assert (await caller.call(headers=headers)).status_code == 202
        # Nothing else is.
        caller.path = "/cdn-cgi/health"
        assert (await caller.call(headers=headers)).status_code == 403


@in_virtual_time
async def test_what_a_caller_sends_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with calling(takes_one) as caller:
        headers = {"authorization": "Bearer s3cret", "cookie": "session=s3cret"}
        await caller.refusal(headers=headers, content=b"x" * 2**21)
        await caller.call(headers=headers)
        await caller.project.ended("a")
    assert "s3cret" not in caplog.text
