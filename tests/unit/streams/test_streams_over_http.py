"""Streams over HTTP: as server-sent events, and as they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from bindings import WorkflowInstance, WorkflowStep, wire
from bindings.http import HttpWorkflow
from emulator.domain.values import JsDict
from tests.unit.bindings.hosts import transport_to
from tests.unit.bindings.project import AT_ONCE, Project, in_virtual_time
from wrangler_compat.rest.event_stream import HEARTBEAT, HEARTBEAT_MS
from wrangler_compat.server import Access

URL = f"http://localhost{wire.PREFIX}/orders/instances"
EVENTS = {"accept": "text/event-stream"}


async def letters(event: JsDict, step: WorkflowStep) -> None:
    @step.do("write", config=AT_ONCE)
    async def write(ctx: JsDict) -> None:
        writable = step.get_writable()
        await writable.write({"attempt": ctx["attempt"], "é": "\u2028"})
        if ctx["attempt"] == 1:
            raise ValueError("again")
        await writable.write(b"\x00raw\n")
        await writable.write("text")
        await step.get_writable("a/b c").close()

    await write()
    await step.wait_for_event("go", "go", timeout="1 hour")
    await step.get_writable().write("last")


@asynccontextmanager
async def served(
    project: Project, access: Access | None = None
) -> AsyncGenerator[tuple[httpx.AsyncClient, WorkflowInstance]]:
    """A client, and an instance that has written what it writes before it waits. In the end no request is open."""
    transport = transport_to(project, access)
    async with httpx.AsyncClient(transport=transport) as client:
        instance = await project.workflow.create(id="one")
        await project.becomes(instance, "waiting")
        yield client, instance
    assert transport.open_requests == 0


async def finish(project: Project, instance: WorkflowInstance) -> None:
    await instance.send_event(type="go")
    await project.ended(instance)


def frames_of(body: bytes) -> list[dict[str, str]]:
    frames, rest = wire.split_frames(body)
    assert rest == b""
    return frames


@in_virtual_time
async def test_the_streams_are_listed() -> None:
    async with Project(letters) as project, served(project) as (client, instance):
        listed = (await client.get(f"{URL}/one/streams")).json()
        assert listed == {
            "streams": [
                {"namespace": "a/b c", "tailIndex": -1, "done": True},
                {"namespace": "default", "tailIndex": 3, "done": False},
            ]
        }
        await finish(project, instance)
        info = await client.get(f"{URL}/one/streams/default/info")
        assert info.json() == {"namespace": "default", "tailIndex": 4, "done": True}


@in_virtual_time
async def test_events_have_the_index_as_their_number_and_say_who_wrote_them() -> None:
    async with Project(letters) as project, served(project) as (client, instance):
        await finish(project, instance)
        answer = await client.get(f"{URL}/one/streams/default", headers=EVENTS)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-workflow-run-id"] == "one"
        assert answer.headers["x-workflow-stream-tail-index"] == "4"
        *chunks, end = frames_of(answer.content)
        assert end == {"event": "end", "data": "{}"}
        assert [each["id"] for each in chunks] == ["0", "1", "2", "3", "4"]
        assert [json.loads(each["data"]) for each in chunks] == [
            {"index": 0, "value": {"attempt": 1, "é": "\u2028"}, "step": "write-1", "attempt": 1},
            {"index": 1, "value": {"attempt": 2, "é": "\u2028"}, "step": "write-1", "attempt": 2},
            {
                "index": 2,
                "value": {"$": "bytes", "value": "AHJhdwo="},
                "step": "write-1",
                "attempt": 2,
            },
            {"index": 3, "value": "text", "step": "write-1", "attempt": 2},
            {"index": 4, "value": "last", "step": None, "attempt": None},
        ]


@in_virtual_time
async def test_a_client_goes_on_where_it_was() -> None:
    async with Project(letters) as project, served(project) as (client, instance):
        await finish(project, instance)

        async def ids(query: str = "", **headers: str) -> list[str]:
            url = f"{URL}/one/streams/default{query}"
            answer = await client.get(url, headers={**EVENTS, **headers})
            return [each["id"] for each in frames_of(answer.content)[:-1]]

        assert await ids("?startIndex=3") == ["3", "4"]
        assert await ids("?startIndex=-1") == ["4"]
        assert await ids("?startIndex=9") == []
        assert await ids("?startIndex=0", **{"last-event-id": "2"}) == ["3", "4"]


@in_virtual_time
async def test_the_plain_stream_is_bytes_as_they_are_and_lines_of_json() -> None:
    async with (
        Project(letters) as project,
        served(project) as (client, _),
        client.stream("GET", f"{URL}/one/streams/default?startIndex=1") as answer,
    ):
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-workflow-stream-tail-index"] == "3"
        parts = answer.aiter_bytes()
        line = '{"attempt":2,"é":"\u2028"}\n'.encode()
        assert await anext(parts) == line + b'\x00raw\n"text"\n'
        waiting = asyncio.ensure_future(anext(parts))
        await project.handle("one").send_event(type="go")
        assert await waiting == b'"last"\n'
        assert [part async for part in parts if part] == []


@in_virtual_time
async def test_silence_is_broken_by_a_comment_and_a_client_that_hangs_up_is_forgotten() -> None:
    async with Project(letters) as project, served(project) as (client, _):
        url = f"{URL}/one/streams/default?startIndex=4"
        async with client.stream("GET", url, headers=EVENTS) as answer:
            began_ms = project.now_ms()
            assert await anext(answer.aiter_bytes()) == HEARTBEAT
            assert project.now_ms() == began_ms + HEARTBEAT_MS


@in_virtual_time
async def test_an_instance_that_goes_ends_its_streams_with_the_reason() -> None:
    async with Project(letters) as project, served(project) as (client, instance):
        url = f"{URL}/one/streams/default?startIndex=4"
        async with client.stream("GET", url, headers=EVENTS) as answer:
            await instance.delete()
            [end] = frames_of(b"".join([part async for part in answer.aiter_bytes()]))
        assert (end["event"], json.loads(end["data"])["type"]) == ("refused", "InstanceNotFound")


@in_virtual_time
async def test_a_plain_stream_that_stops_before_its_end_is_broken_off() -> None:
    async with Project(letters) as project, served(project) as (client, instance):
        url = f"{URL}/one/streams/default?startIndex=3"
        async with client.stream("GET", url) as answer:
            parts = answer.aiter_bytes()
            assert await anext(parts) == b'"text"\n'
            await instance.delete()
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(parts)


@in_virtual_time
async def test_what_is_not_there_or_not_valid_is_refused() -> None:
    async with Project(letters) as project, served(project) as (client, _):

        async def refused(path: str, **headers: str) -> tuple[int, Any]:
            answer = await client.get(URL + path, headers=headers)
            return answer.status_code, answer.json()["refusal"]["code"]

        for path in ("/two/streams", "/two/streams/default", "/two/streams/default/info"):
            assert await refused(path) == (404, "instance.not_found")
        for query in ("x", "1.5", "", "9999999999999999"):
            assert await refused(f"/one/streams/default?startIndex={query}") == (
                400,
                "stream.invalid",
            )
        assert await refused("/one/streams/default", **{"last-event-id": "x"}) == (
            400,
            "stream.invalid",
        )
        assert await refused("/one/streams/%1Fx") == (400, "stream.invalid")
        answer = await client.get(f"{URL}/one/streams/a%2Fb%20c/info")
        assert answer.json()["done"]
        unknown = await client.get(URL.replace("orders", "nothing") + "/one/streams")
        assert unknown.json()["refusal"]["code"] == "workflow.not_found"


@in_virtual_time
async def test_streams_want_the_token() -> None:
    async with Project(letters) as project, served(project, Access("secret")) as (client, _):
        assert (await client.get(f"{URL}/one/streams/default")).status_code == 403
        headers = {"authorization": "Bearer secret"}
        assert (await client.get(f"{URL}/one/streams", headers=headers)).status_code == 200


@in_virtual_time
async def test_a_name_of_dots_is_the_name_of_a_stream() -> None:
    async def dots(_: JsDict, step: WorkflowStep) -> None:
        for name in (".", ".."):
            await step.get_writable(name).write(name)

    async with Project(dots) as project:
        await project.ended(await project.workflow.create(id="one"))
        transport = transport_to(project)
        async with HttpWorkflow("http://localhost", "orders", transport=transport) as orders:
            instance = await orders.get("one")
            for name in (".", ".."):
                assert (await instance.stream_info(name)).tailIndex == 0
                assert [chunk async for chunk in instance.readable(namespace=name)] == [name]
