"""Webhooks by token, as far as a run has to do with them: the address, requests, answers (H38 to H42, B22 to B25)."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import pytest

from bindings import WebhookRequest, WorkflowStep, get_hook_by_token, resume_hook
from bindings.webhook import Answering, StoredResponse, response_of, stored_response
from emulator.domain import values
from emulator.domain.hooks import TokenKey
from emulator.domain.values import JsDict
from emulator.engine.hooks import resume
from emulator.errors import InvalidHook, WorkflowContextError
from tests.unit.bindings.project import Project, in_virtual_time, refusal_of


class Answer:
    """What a response looks like."""

    status = 201
    headers: dict[str, str] = {"X-Colour": "red"}  # noqa: RUF012 - as a response has them
    body = b"created"


def request(reply_id: str | None = None, body: bytes = b'{"a": 1}') -> dict[str, Any]:
    """A request, as the route stores it."""
    headers = [["Content-Type", "application/json"]]
    url = "http://localhost/x?y=1"
    return {"method": "PUT", "url": url, "headers": headers, "body": body, "reply_id": reply_id}


async def send(project: Project, token: str, given: dict[str, Any]) -> None:
    """Do what the route does."""
    await resume(project.engine, TokenKey("", token), values.encode(given, "a request"))


@in_virtual_time
async def test_a_webhook_has_an_address_and_its_payloads_are_requests() -> None:
    addresses: list[str] = []

    async def run(event: JsDict, step: WorkflowStep) -> Any:
        webhook = step.create_webhook(metadata={"for": "tests"})
        addresses.append(webhook.url)
        first = await webhook
        assert isinstance(first, WebhookRequest)
        found = [first.method, first.url, first.headers, await first.json(), await first.text()]
        other = await anext(aiter(webhook))
        return [*found, await other.array_buffer()]

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        assert "/.well-known/workflow/v1/webhook/" in addresses[0]
        token = unquote(addresses[0].rpartition("/")[2])
        hook = await get_hook_by_token(token)
        assert (hook.is_webhook, hook.run_id) == (True, instance.id)
        assert hook.metadata == {"for": "tests"}
        assert isinstance(await refusal_of(resume_hook(token, request())), InvalidHook)
        await send(project, token, request())
        await project.restart()
        await send(project, token, request(body=b"\xff"))
        headers = {"content-type": "application/json"}
        expected = ["PUT", "http://localhost/x?y=1", headers, {"a": 1}, '{"a": 1}', b"\xff"]
        assert (await project.ended(instance))["output"] == expected
    assert len(set(addresses)) == 1


@in_virtual_time
async def test_a_request_is_answered_by_hand_in_a_step_and_once() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        webhook = step.create_webhook("answers", respond_with="manual")
        received = await webhook
        assert isinstance(received, WebhookRequest)
        errors = [await refusal_of(received.respond_with(Answer()))]

        @step.do("answer")
        async def answer() -> list[str]:
            wrong = (None, "manual", 5)
            errors.extend([await refusal_of(received.respond_with(each)) for each in wrong])
            await received.respond_with(Answer())
            errors.append(await refusal_of(received.respond_with(Answer())))
            return [type(error).__name__ for error in errors]

        return await answer()

    async with Project(run) as project:
        tokens: list[str] = []
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        tokens += await project.tokens()
        async with Answering("1") as answered:
            await send(project, tokens[0], request("1"))
            response = await asyncio.wait_for(answered, 60)
        assert response == StoredResponse(201, [("X-Colour", "red")], b"created")
        names = [WorkflowContextError.__name__, *["InvalidHook"] * 3, "RuntimeError"]
        assert (await project.ended(instance))["output"] == names


@in_virtual_time
async def test_nobody_minds_an_answer_that_comes_too_late() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> None:
        received = await step.create_webhook(respond_with="manual")

        @step.do("answer")
        async def answer() -> None:
            await received.respond_with(Answer())

        await answer()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        [token] = await project.tokens()
        await send(project, token, request("gone"))
        assert (await project.ended(instance))["status"] == "complete"


@in_virtual_time
async def test_only_a_webhook_that_says_so_is_answered_by_hand() -> None:
    async def run(event: JsDict, step: WorkflowStep) -> Any:
        received = await step.create_webhook()

        @step.do("answer")
        async def answer() -> str:
            return type(await refusal_of(received.respond_with(Answer()))).__name__

        return await answer()

    async with Project(run) as project:
        instance = await project.workflow.create()
        await project.becomes(instance, "waiting")
        [token] = await project.tokens()
        await send(project, token, request())
        assert (await project.ended(instance))["output"] == "RuntimeError"


def test_a_response_is_stored_and_comes_back() -> None:
    stored = stored_response(Answer())
    assert stored == {"status": 201, "headers": [["X-Colour", "red"]], "body": b"created"}
    assert response_of(stored) == StoredResponse(201, [("X-Colour", "red")], b"created")
    assert stored_response(None) is None
    assert stored_response("manual") == "manual"


@pytest.mark.parametrize("given", ["auto", 5, True, {"status": 200}, object()])
def test_what_is_no_response(given: object) -> None:
    with pytest.raises(InvalidHook, match="webhook-invalid-respond-with-value") as refused:
        stored_response(given)
    assert isinstance(refused.value, ValueError)
