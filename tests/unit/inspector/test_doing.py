"""The buttons and forms of the inspector: what they do, and what they say when it cannot be done."""

from __future__ import annotations

import asyncio

import pytest

from emulator.core.state import InstanceState
from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKey, StepKind
from emulator.domain.values import decode
from tests.unit.inspector.browsing import Browser, Page
from tests.unit.rest.emulated import Emulated, emulated
from wrangler_compat.inspector.urls import instance_url, workflow_url

HELD = InstanceKey("saga", "s-1")


async def output_of(server: Emulated, key: InstanceKey) -> object:
    def ended(state: InstanceState) -> list[object] | None:
        return None if state.output is None else [decode(state.output)]

    async with asyncio.timeout(10):
        [output] = await server.engine.until(key, ended)
    return output


async def holding(server: Emulated) -> Browser:
    """Somebody who looks at an instance that waits for an event, with something to roll back."""
    await server.create(*HELD)
    await server.comes_to_wait(*HELD)
    browser = Browser(server.client)
    await browser.visit(instance_url(HELD))
    return browser


def refusal(page: Page) -> str:
    [text] = page.shown["problem"]
    return text


async def test_an_instance_is_created_with_an_id_and_params() -> None:
    async with emulated() as server:
        browser = Browser(server.client)
        await browser.visit(workflow_url("echo"))
        page = await browser.press("Create", id=" a-1 ", params='{"n": 1}')
        assert page.url == instance_url(InstanceKey("echo", "a-1"))
        assert await output_of(server, InstanceKey("echo", "a-1")) == {"n": 1}


async def test_an_id_is_made_up_and_params_are_an_empty_object() -> None:
    async with emulated() as server:
        browser = Browser(server.client)
        await browser.visit(workflow_url("echo"))
        page = await browser.press("Create")
        key = InstanceKey("echo", page.url.rpartition("/")[2])
        assert await output_of(server, key) == {}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"params": "{"}, "params: expected JSON"),
        ({"id": "a b"}, "An id is 1 to 100 letters"),
        ({"id": "taken"}, "Choose another id"),
    ],
)
async def test_what_cannot_be_created_is_told_beside_the_form(
    typed: dict[str, str], expected: str
) -> None:
    async with emulated() as server:
        await server.create("echo", "taken")
        browser = Browser(server.client)
        await browser.visit(workflow_url("echo"))
        page = await browser.press("Create", **typed)
        assert page.status == 400
        assert expected in refusal(page)
        [form] = page.forms["Create"]
        assert form.fields | typed == form.fields, "what was typed is still there"
        assert (
            len(await server.result("GET", "/cdn-cgi/local/explorer/api/workflows/echo/instances"))
            == 1
        )


async def test_an_instance_is_paused_and_resumed() -> None:
    async with emulated() as server:
        browser = await holding(server)
        page = await browser.press("Pause")
        assert page.shown["paused"] == ["paused"]
        assert "Pause" not in page.forms
        page = await browser.press("Resume")
        assert "paused" not in page.shown


async def test_an_event_goes_to_the_instance_that_waits_for_it() -> None:
    async with emulated() as server:
        browser = await holding(server)
        [form] = browser.page.forms["Send"]
        assert form.fields["type"] == "hold", "the type that is waited for is there already"
        await browser.press("Send", payload='{"by": "Ada"}')
        assert await output_of(server, HELD) == {"by": "Ada"}


async def test_an_event_need_not_have_a_payload() -> None:
    async with emulated() as server:
        browser = await holding(server)
        await browser.press("Send")
        assert await output_of(server, HELD) is None


async def test_a_sleeper_is_woken() -> None:
    key = InstanceKey("orders", "o-1")
    async with emulated() as server:
        await server.create(*key)
        await server.clock.advance(1_000)
        await server.comes_to_wait(*key)
        browser = Browser(server.client)
        page = await browser.visit(instance_url(key))
        before_ms = server.clock.now_ms()
        await browser.press("Wake up")
        async with asyncio.timeout(10):
            await server.engine.until(
                key, lambda state: StepKey(StepKind.WAIT, "approval", 1) in state.open or None
            )
        page = await browser.visit(instance_url(key))
        assert "Wake up" not in page.forms
        assert "approval-1" in page.text
        assert server.clock.now_ms() - before_ms < 1_000, "it was to sleep for a minute"


async def test_who_terminates_may_roll_back() -> None:
    async with emulated() as server:
        browser = await holding(server)
        assert 'name="reason" value="" placeholder="none" maxlength="512"' in browser.page.source
        page = await browser.press("Terminate", reason="no stock", rollback="on")
        assert page.shown["terminated"] == ["terminated"]
        assert "no stock" in page.text
        assert "rollback reserve-1" in " ".join(page.text.split())


async def test_who_terminates_need_not_roll_back() -> None:
    async with emulated() as server:
        browser = await holding(server)
        page = await browser.press("Terminate")
        assert page.shown["terminated"] == ["terminated"]
        assert "rollback" not in " ".join(page.text.split()).partition("Send an event")[0]


async def test_an_instance_is_restarted_as_a_whole_or_from_a_step() -> None:
    async with emulated() as server:
        browser = await holding(server)
        await browser.press("Send", payload="1")
        assert await output_of(server, HELD) == 1
        await browser.visit(instance_url(HELD))
        await browser.press("Restart from this step", 1)  # the wait
        await server.comes_to_wait(*HELD)
        await browser.visit(instance_url(HELD))
        await browser.press("Send", payload="2")
        assert await output_of(server, HELD) == 2
        await browser.press("Restart")
        await server.comes_to_wait(*HELD)


async def test_an_instance_is_deleted_and_the_list_is_next() -> None:
    async with emulated() as server:
        browser = await holding(server)
        page = await browser.press("Delete")
        assert page.url == workflow_url("saga")
        assert "No instances yet." in page.text
        assert (await browser.visit(instance_url(HELD))).status == 404


async def test_a_payload_that_is_no_json_is_told_and_kept() -> None:
    async with emulated() as server:
        browser = await holding(server)
        page = await browser.press("Send", payload="hello")
        assert page.status == 400
        assert 'payload: expected JSON, in which a text has quotes: "like this".' in refusal(page)
        assert page.forms["Send"][0].fields["payload"] == "hello"
        assert page.shown["waiting"] == ["waiting"], "the page is that of the instance"


async def test_a_finished_instance_takes_no_event_and_says_so() -> None:
    async with emulated() as server:
        browser = await holding(server)
        await browser.press("Send")
        await server.becomes(*HELD, InstanceStatus.COMPLETE)
        page = await browser.press("Send", type="hold")
        assert (page.status, "finite state" in refusal(page)) == (400, True)
        page = await browser.press("Terminate")
        assert (page.status, "It has ended already." in refusal(page)) == (400, True)


@pytest.mark.parametrize(
    ("action", "body", "status", "text"),
    [
        ("restart", "name=nope&count=1&type=do", 404, 'Step "nope" not found'),
        (
            "restart",
            "name=first&count=x&type=do",
            400,
            'from.count: got "x"; expected a whole number from 1 up',
        ),
        (
            "status",
            "status=stop",
            400,
            'got "stop"; expected "pause", "restart", "resume" or "terminate"',
        ),
        ("status", "", 400, "status"),
        ("hook", "token=nope", 404, "nope"),
        ("event", "type=", 400, "invalid_event_type"),
        ("event", "type=a+b", 400, "invalid_event_type"),
        ("nope", "", 404, "There is no such page."),
    ],
)
async def test_what_no_button_would_send_is_refused(
    action: str, body: str, status: int, text: str
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    async with emulated() as server:
        await holding(server)
        url = f"{instance_url(HELD)}/{action}"
        page = Page(await server.client.post(url, content=body, headers=form))
        assert page.status == status
        assert text in refusal(page)
        await server.becomes(*HELD, InstanceStatus.WAITING)


async def test_a_body_that_is_no_form_is_refused() -> None:
    async with emulated() as server:
        await holding(server)
        response = await server.client.post(f"{instance_url(HELD)}/event", json={"type": "hold"})
        assert (response.status_code, "is no form" in response.text) == (400, True)


async def test_what_is_done_to_an_instance_that_is_gone_says_so() -> None:
    async with emulated() as server:
        browser = await holding(server)
        await server.client.post(f"{instance_url(HELD)}/delete")
        page = await browser.press("Pause")
        assert (page.status, 'Instance "s-1" does not exist' in page.text) == (404, True)


async def test_a_method_that_a_page_does_not_have_is_refused_with_those_that_it_has() -> None:
    async with emulated() as server:
        response = await server.client.get(f"{instance_url(HELD)}/delete")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
        assert "Method Not Allowed." in response.text
