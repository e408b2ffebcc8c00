"""The pages of the inspector: what they show, and how one gets from one to the next."""

from __future__ import annotations

import re

import msgspec
import pytest

from emulator.core.inputs import PauseRequested
from emulator.domain.config import PRODUCTION_DEFAULTS
from emulator.domain.entries import channel
from emulator.domain.instance import Creation, InstanceKey, Schedule
from emulator.domain.status import InstanceStatus
from emulator.domain.steps import StepKind
from emulator.domain.values import encode
from emulator.engine.programs import RunEvent
from emulator.engine.steps import StepContext
from emulator.journal.memory import MemoryJournal
from emulator.projection.detail import DoDetail, InstanceDetail, StepDetail, WaitDetail
from emulator.testing.clock import EPOCH_MS
from tests.unit.inspector.browsing import Browser
from tests.unit.rest.emulated import LOCAL, Emulated, emulated
from wrangler_compat.inspector.pages import PAGE_ROWS, Subject, instance_page
from wrangler_compat.inspector.rendering import MAX_SHOWN_CHARS
from wrangler_compat.inspector.urls import HOME, instance_url, workflow_url
from wrangler_compat.rest.operations import WorkerInfo

COMPLETE = InstanceStatus.COMPLETE


async def finished(server: Emulated, workflow: str, instance_id: str, params: object) -> None:
    await server.create(workflow, instance_id, params)
    await server.becomes(workflow, instance_id, COMPLETE, InstanceStatus.ERRORED)


async def test_the_first_page_lists_the_workflows_and_counts_their_instances() -> None:
    async with emulated(worker=WorkerInfo("shop")) as server:
        await finished(server, "echo", "a", 1)
        await finished(server, "echo", "b", 2)
        browser = Browser(server.client)
        page = await browser.visit(HOME)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert {"orders", "waits", "saga", "secret", "echo", "2 complete"} <= page.links.keys()
        listed = await browser.follow("2 complete")
        assert {"a", "b"} <= listed.links.keys()
        assert (await browser.follow("a")).shown["complete"] == ["complete"]


async def test_the_list_of_a_workflow_is_of_one_status_if_one_is_chosen() -> None:
    async with emulated() as server:
        await server.create("waits", "sleeper")
        await server.comes_to_wait("waits", "sleeper")
        await server.create("waits", "held")
        await server.comes_to_wait("waits", "held")
        await server.engine.ask(InstanceKey("waits", "held"), PauseRequested())
        browser = Browser(server.client)
        page = await browser.visit(workflow_url("waits"))
        assert {"sleeper", "held"} <= page.links.keys()
        page = await browser.follow("1 paused")
        assert "held" in page.links
        assert "sleeper" not in page.links
        page = await browser.visit(workflow_url("waits") + "?status=errored")
        assert "No instance is errored." in page.text


async def test_instances_are_found_by_id_and_by_attribute() -> None:
    async with emulated() as server:
        for name, city in (("a", "Ulm"), ("b", "Köln")):
            body = {"id": name, "attributes": {"city": city}}
            await server.result("POST", f"{LOCAL}/waits/instances", body)
        browser = Browser(server.client)
        await browser.visit(workflow_url("waits"))
        page = await browser.follow("city=Köln")
        assert {"a", "b"} & page.links.keys() == {"b"}
        await browser.follow("b")
        page = await browser.follow("city=Köln")
        assert {"a", "b"} & page.links.keys() == {"b"}
        found = await server.client.get(workflow_url("waits") + "?id=a")
        assert found.headers["location"] == instance_url(InstanceKey("waits", "a"))
        page = await browser.visit(workflow_url("waits") + "?id=c")
        assert (page.status, page.shown["problem"]) == (404, ['There is no instance "c".'])
        assert page.forms["Find"][0].fields == {"id": "c"}


async def test_a_long_list_has_pages_newest_first() -> None:
    async with emulated() as server:
        for number in range(PAGE_ROWS + 1):
            await server.create("echo", f"i-{number}")
        browser = Browser(server.client)
        page = await browser.visit(workflow_url("echo"))
        assert f"i-{PAGE_ROWS}" in page.links
        assert "i-0" not in page.links
        assert "Page 1 of 2" in page.text
        page = await browser.follow("Next")
        assert "i-0" in page.links
        assert "Next" not in page.links
        page = await browser.follow("Previous")
        assert "i-0" not in page.links
        page = await browser.visit(workflow_url("echo") + "?page=99")
        assert "i-0" in page.links, "beyond the last page is the last page"


async def test_an_instance_shows_its_steps_with_attempts_results_and_errors() -> None:
    async with emulated() as server:
        await server.create("orders", "o-1", {"sku": "mug"})
        await server.clock.advance(1_000)
        await server.comes_to_wait("orders", "o-1")
        page = await Browser(server.client).visit(instance_url(InstanceKey("orders", "o-1")))
        assert page.shown["waiting"] == ["waiting"]
        assert '"sku": "mug"' in page.text
        steps = page.source.partition("<h2>Steps</h2>")[2]
        named = ["charge-1", "nothing-1", "flaky-1", "nap-1"]
        assert sorted(named, key=steps.index) == named, "in the order of their starts"
        assert "Boom: no" in page.text
        assert "retry limit 1, exponential delay of 1 second, timeout 1 minute" in page.text
        assert 'class="failed"' in page.source
        assert 'class="resting"' in page.source
        assert "until 2026" in page.text


async def test_what_a_step_must_not_show_is_not_shown() -> None:
    async with emulated() as server:
        await finished(server, "secret", "s-1", None)
        browser = Browser(server.client)
        url = instance_url(InstanceKey("secret", "s-1"))
        assert "[REDACTED]" in (await browser.visit(url)).text
        assert "s3cret" not in browser.page.source
        assert "[REDACTED]" in (await browser.follow("All events")).text
        assert "s3cret" not in browser.page.source


async def test_nothing_that_is_shown_becomes_html() -> None:
    evil = "</pre><script>alert(1)</script>\ud800"
    async with emulated() as server:
        await server.engine.create(
            [Creation("echo", "e-1", encode({"<b>": evil}, "params"), EPOCH_MS)], may_be_taken=True
        )
        await server.becomes("echo", "e-1", COMPLETE)
        browser = Browser(server.client)
        page = await browser.visit(instance_url(InstanceKey("echo", "e-1")))
        assert "</pre><script>alert(1)</script>" in page.text
        assert "<script>alert" not in page.source
        await browser.follow("All events")
        assert "<script>alert" not in browser.page.source


async def test_the_events_of_an_instance_are_listed_in_order() -> None:
    async with emulated() as server:
        await finished(server, "secret", "s-1", None)
        page = await Browser(server.client).visit(
            instance_url(InstanceKey("secret", "s-1")) + "/events"
        )
        expected = ["workflow_queued", "workflow_started", "step_started", "workflow_completed"]
        assert sorted(expected, key=page.text.index) == expected


async def test_an_id_with_a_slash_has_a_page() -> None:
    async with emulated() as server:
        made = Creation("echo", "0 3 */2 * *-1", encode(1, "params"), EPOCH_MS)
        await server.engine.create([made], may_be_taken=True)
        browser = Browser(server.client)
        await browser.visit(workflow_url("echo"))
        assert (await browser.follow("0 3 */2 * *-1")).status == 200
        assert (await browser.follow("All events")).status == 200


@pytest.mark.parametrize(
    ("url", "status", "text"),
    [
        (workflow_url("nope"), 404, 'Workflow "nope" does not exist. There are: '),
        (instance_url(InstanceKey("nope", "a")), 404, 'Workflow "nope" does not exist'),
        (instance_url(InstanceKey("echo", "a")), 404, 'Instance "a" does not exist'),
        (instance_url(InstanceKey("echo", "a")) + "/events", 404, 'Instance "a" does not exist'),
        (instance_url(InstanceKey("echo", "a")) + "/streams/s", 404, 'Instance "a" does not exist'),
        (workflow_url("echo") + "?status=done", 400, 'expected one of "queued"|'),
        (workflow_url("echo") + "?page=x", 400, "page: Expected query param to be number"),
        (HOME + "nowhere", 404, "There is no such page."),
        (HOME + "static/nowhere.css", 404, "There is no such page."),
        (HOME + "static/", 404, "There is no such page."),
    ],
)
async def test_what_is_not_there_is_told_on_a_page(url: str, status: int, text: str) -> None:
    async with emulated() as server:
        page = await Browser(server.client).visit(url)
        assert page.status == status
        assert text in page.text
        assert page.links["Workflows"] == HOME


async def test_a_page_that_cannot_be_made_says_so() -> None:
    class Broken(MemoryJournal):
        async def status_counts(self, workflow: str) -> dict[InstanceStatus, int]:
            raise RuntimeError("no")

    async with emulated(journal=Broken()) as server:
        page = await Browser(server.client).visit(HOME)
        assert (page.status, "The log of the emulator says why." in page.text) == (500, True)


@pytest.mark.parametrize(
    ("name", "kind"), [("inspector.css", "text/css"), ("inspector.js", "text/javascript")]
)
async def test_style_and_script_are_served(name: str, kind: str) -> None:
    async with emulated() as server:
        page = (await server.client.get(HOME)).text
        assert f"{HOME}static/{name}" in page
        response = await server.client.get(f"{HOME}static/{name}")
        assert response.headers["content-type"].startswith(kind)
        assert response.headers["cache-control"] == "no-cache"
        known = {"if-none-match": response.headers["etag"]}
        assert (await server.client.get(f"{HOME}static/{name}", headers=known)).status_code == 304


async def test_a_page_allows_itself_nothing_from_elsewhere() -> None:
    async with emulated() as server:
        response = await server.client.get(HOME)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "style=" not in response.text, "which the policy forbids"


def subject(*steps: StepDetail) -> Subject:
    made = Creation("shop", "o-1", encode({}, "params"), 0)
    shown = InstanceDetail(
        made, InstanceStatus.RUNNING, 0, 0, None, None, None, None, None, tuple(steps)
    )
    return Subject(made.key, shown, [], [], 1_000)


def text_of(page: bytes) -> str:
    return page.decode()


def test_an_instance_of_many_steps_shows_the_last_ones_first() -> None:
    steps = [DoDetail(f"s-{number}", 0, PRODUCTION_DEFAULTS) for number in range(1, PAGE_ROWS + 2)]
    last, first = instance_page(subject(*steps)), instance_page(subject(*steps), page=1)
    assert "Page 2 of 2 of steps" in " ".join(text_of(last).split())
    assert f"s-{PAGE_ROWS + 1}<" in text_of(last)
    assert "s-1<" not in text_of(last)
    assert "s-1<" in text_of(first)


def test_a_long_value_is_cut_and_the_page_says_so() -> None:
    result = encode("x" * (MAX_SHOWN_CHARS + 5), "result")
    step = DoDetail("a-1", 0, PRODUCTION_DEFAULTS, end_ms=1, success=True, result=result)
    assert "… 7 more characters" in text_of(instance_page(subject(step)))


def test_a_restart_from_a_step_names_it() -> None:
    step = DoDetail("pay-2-1", 0, PRODUCTION_DEFAULTS)
    source = text_of(instance_page(subject(step)))
    for name, value in (("name", "pay-2"), ("count", "1"), ("type", StepKind.DO)):
        assert f'name="{name}" value="{value}"' in source


def test_a_handler_of_a_rollback_is_no_place_to_restart_from() -> None:
    step = DoDetail("pay-1", 0, PRODUCTION_DEFAULTS, is_rollback=True)
    assert "Restart from this step" not in text_of(instance_page(subject(step)))


def test_a_payload_of_a_hook_is_no_event_that_somebody_could_send() -> None:
    source = text_of(instance_page(subject(WaitDetail("approve-1", 0, None, channel("hook_1")))))
    assert '<span class="quiet">hook</span> approve-1' in source
    assert "hook_1" not in source
    assert "Restart from this step" not in source


def test_a_scheduled_instance_shows_its_cron() -> None:
    given = subject()
    made = msgspec.structs.replace(given.detail.creation, schedule=Schedule("0 3 * * *", 0))
    scheduled = msgspec.structs.replace(given.detail, creation=made)
    assert "<code>0 3 * * *</code>" in text_of(instance_page(given._replace(detail=scheduled)))


async def test_characters_that_html_does_not_allow_are_shown_as_pictures() -> None:
    async def run(event: RunEvent, step: StepContext) -> object:
        raise ValueError("\x1b[31mred\x7f\x9b\x00\n")

    async with emulated(runs={"red": run}) as server:
        await finished(server, "red", "one", None)
        page = await Browser(server.client).visit(instance_url(InstanceKey("red", "one")))
        assert "ValueError: ␛[31mred␡\ufffd␀\n" in page.source
        assert not {"\x1b", "\x7f", "\x9b", "\x00"} & set(page.source)


async def test_headers_of_tables_say_that_they_are_of_columns() -> None:
    async with emulated() as server:
        await finished(server, "echo", "one", 1)
        browser = Browser(server.client)
        url = instance_url(InstanceKey("echo", "one"))
        for page in (HOME, workflow_url("echo"), url, f"{url}/events"):
            source = (await browser.visit(page)).source
            headers = re.findall(r"<th\b(?!ead)[^>]*>([^<]*)", source)
            assert headers
            assert all(headers), "one that is empty says nothing"
            assert source.count('<th scope="col"') == len(headers)
