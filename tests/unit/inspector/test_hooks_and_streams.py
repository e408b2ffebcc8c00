"""What the page of an instance shows of its hooks and its streams."""

from __future__ import annotations

import asyncio

import pytest

from emulator.domain.instance import InstanceKey
from emulator.domain.status import InstanceStatus
from emulator.domain.values import encode
from emulator.engine.programs import RunEvent
from emulator.engine.steps import StepContext
from tests.unit.inspector.browsing import Browser
from tests.unit.rest.emulated import Emulated, emulated
from wrangler_compat.inspector.pages import PAGE_ROWS
from wrangler_compat.inspector.urls import instance_url, stream_url

KEY = InstanceKey("approval", "a-1")


async def approval(event: RunEvent, step: StepContext) -> object:
    """Writes to a stream, and takes a payload of a hook."""
    for number in range(PAGE_ROWS + 1):
        await step.write("a/b", {"note": number})
    who = encode({"asks": "Ada"}, "metadata")
    return await step.create_hook(token="approve-me", metadata=who).receive()


async def at_the_hook(server: Emulated) -> None:
    async with asyncio.timeout(10):
        await server.engine.until(KEY, lambda state: state.hooks or None)


async def test_a_hook_is_shown_and_resumed() -> None:
    async with emulated(runs={"approval": approval}) as server:
        await server.create(*KEY)
        await at_the_hook(server)
        browser = Browser(server.client)
        page = await browser.visit(instance_url(KEY))
        assert '"asks": "Ada"' in page.text
        [form] = page.forms["Resume"]
        assert form.fields["token"] == "approve-me", "the token is there already"
        await browser.press("Resume", payload='{"ok": true}')
        await server.becomes(*KEY, InstanceStatus.COMPLETE)
        page = await browser.visit(instance_url(KEY))
        assert '"ok": true' in page.text
        assert "approve-me" not in page.source.partition("<h2>Hooks")[2], "it is released"


@pytest.mark.parametrize(("many", "are_all"), [(PAGE_ROWS, True), (PAGE_ROWS + 1, False)])
async def test_more_hooks_than_a_page_has_are_told(many: int, are_all: bool) -> None:
    async def opens(event: RunEvent, step: StepContext) -> object:
        for number in range(many):
            await step.create_hook(token=f"token-{number}").owner()
        await step.sleep("nap", 60_000)
        return None

    async with emulated(runs={"approval": opens}) as server:
        await server.create(*KEY)
        async with asyncio.timeout(10):
            await server.engine.until(KEY, lambda state: len(state.hooks) == many or None)
        page = await Browser(server.client).visit(instance_url(KEY))
        assert page.source.count("<code>token-") == PAGE_ROWS
        assert ("These are the oldest." in page.text) is not are_all


async def test_a_stream_is_shown_in_pages_the_last_first() -> None:
    async with emulated(runs={"approval": approval}) as server:
        await server.create(*KEY)
        await at_the_hook(server)
        browser = Browser(server.client)
        await browser.visit(instance_url(KEY))
        page = await browser.follow("a/b")
        assert page.url == stream_url(KEY, "a/b") == f"{instance_url(KEY)}/streams/a%2Fb"
        assert f'"note": {PAGE_ROWS}' in page.text
        assert '"note": 0' not in page.text
        assert "More may come." in page.text
        assert '"note": 0' in (await browser.follow("Previous")).text


async def test_a_stream_that_nobody_has_written_to_is_empty() -> None:
    async with emulated(runs={"approval": approval}) as server:
        await server.create(*KEY)
        page = await Browser(server.client).visit(stream_url(KEY, "other"))
        assert (page.status, "Nothing yet." in page.text) == (200, True)
