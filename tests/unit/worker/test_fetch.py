"""`workers.fetch`, over a transport that answers in the process."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wrangler_compat.worker.fetching import fetch
from wrangler_compat.worker.http import Request


@asynccontextmanager
async def serving(*replies: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Answer connections with `replies` in turn; give the URL and what was received."""
    received: list[bytes] = []
    pending = list(replies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            ),
            0,
        )
        received.append(head + await reader.readexactly(length))
        writer.write(pending.pop(0))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


def reply(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        *headers,
        f"content-length: {len(body)}",
        "connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


async def test_fetch_sends_method_headers_and_body_and_reads_the_response() -> None:
    answer = reply(
        "201 Made",
        "set-cookie: a=1",
        "set-cookie: b=2",
        "content-type: application/json",
        body=b"[1]",
    )
    async with serving(answer) as (url, received):
        response = await fetch(
            f"{url}/x?y=1",
            method="POST",
            headers={"X-Mine": 1},
            body="hé",
            cf={"cacheTtl": 5},
            foo="bar",
        )
    assert received[0].startswith(b"POST /x?y=1 HTTP/1.1\r\n")
    assert b"\r\nx-mine: 1\r\n" in received[0].replace(b"X-Mine", b"x-mine")
    assert received[0].endswith("hé".encode())
    assert (response.status, response.status_text, response.ok) == (201, "Made", True)
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert await response.json() == [1]
    assert response.url == f"{url}/x?y=1"


async def test_fetch_takes_a_request() -> None:
    async with serving(reply("204 No Content")) as (url, received):
        response = await fetch(Request(url, method="PUT", body=b"1"), headers={"a": "b"})
    assert received[0].startswith(b"PUT / HTTP/1.1\r\n")
    assert received[0].endswith(b"\r\n\r\n1")
    assert (response.status, response.body) == (204, None)


async def test_a_compressed_body_is_given_plain_without_the_headers_of_the_compressed_one() -> None:
    answer = reply("200 OK", "content-encoding: gzip", body=gzip.compress(b"hello"))
    async with serving(answer) as (url, _):
        response = await fetch(url)
    assert await response.text() == "hello"
    assert not response.headers.has("content-encoding")
    assert not response.headers.has("content-length")


async def test_the_length_of_a_response_is_given() -> None:
    async with serving(reply("200 OK", body=b"hello")) as (url, _):
        response = await fetch(url)
    assert response.headers.get("content-length") == "5"


async def test_redirects_are_followed_or_given() -> None:
    moved = reply("302 Found", "location: /there")
    async with serving(moved, reply("200 OK", body=b"there"), moved) as (url, _):
        followed = await fetch(url)
        assert (await followed.text(), followed.url) == ("there", f"{url}/there")
        assert (await fetch(url, redirect="manual")).status == 302
        assert followed.redirected


async def test_no_connection_is_an_os_error_that_names_the_url() -> None:
    async with serving() as (url, _):
        pass
    with pytest.raises(OSError, match=f"fetch of {url}/a failed"):
        await fetch(f"{url}/a")


async def test_no_cookie_is_kept_between_hops_or_calls() -> None:
    login = reply("302 Found", "location: /home", "set-cookie: sid=1; Path=/")
    async with serving(login, reply("200 OK"), reply("200 OK")) as (url, received):
        await fetch(f"{url}/login")
        await fetch(f"{url}/again", headers={"Cookie": "mine=1"})
    assert b"cookie" not in received[1].lower()
    assert b"\r\ncookie: mine=1\r\n" in received[2].lower()
    assert b"sid" not in received[2]


async def test_host_and_length_are_those_of_what_is_sent() -> None:
    wrong = {"Host": "other.example", "Content-Length": "99", "Transfer-Encoding": "chunked"}
    async with serving(reply("200 OK")) as (url, received):
        await fetch(url, method="POST", body="abc", headers={**wrong, "Accept-Encoding": "br"})
    head = received[0].lower()
    assert f"\r\nhost: {url.removeprefix('http://')}\r\n".encode() in head
    assert b"\r\ncontent-length: 3\r\n" in head
    assert head.count(b"content-length") == head.count(b"host:") == 1
    assert b"transfer-encoding" not in head
    assert b"br" not in head.partition(b"accept-encoding:")[2].partition(b"\r\n")[0]


async def test_a_status_and_headers_that_no_worker_may_make_are_received() -> None:
    async with serving(
        b"HTTP/1.1 999 Odd\r\nX: \xe9\xe2\x98\x83\r\nConnection: close\r\n\r\nok"
    ) as (url, _):
        response = await fetch(url)
    assert (response.status, response.status_text) == (999, "Odd")
    assert response.headers["x"] == b"\xe9\xe2\x98\x83".decode("latin-1")


async def used() -> Request:
    request = Request("http://x/", method="POST", body="x")
    await request.text()
    return request


@pytest.mark.parametrize(
    ("resource", "options", "problem"),
    [
        ("/x", {}, "Invalid URL: /x"),
        ("gopher://x/", {}, "protocol"),
        ("http://x/", {"redirect": "error"}, "Invalid redirect value"),
        ("http://x/", {"headers": {"a b": "c"}}, "no name of a header"),
        ("http://x/", {"method": "POST", "body": {"a": 1}}, "Unsupported type"),
    ],
)
async def test_whatever_cannot_be_asked_is_an_os_error(
    resource: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OSError, match=problem):
        await fetch(resource, **options)


async def test_what_fails_on_the_way_is_an_os_error() -> None:
    loop = reply("302 Found", "location: /")
    for broken in (
        b"nonsense\r\n\r\n",
        reply("200 OK", "content-encoding: gzip", body=b"none"),
        b"",
    ):
        async with serving(broken) as (url, _):
            with pytest.raises(OSError, match=f"fetch of {url} failed: "):
                await fetch(url)
    async with serving(*[loop] * 30) as (url, _):
        with pytest.raises(OSError, match="redirects"):
            await fetch(url)
    with pytest.raises(OSError, match="already"):
        await fetch(await used())
    with pytest.raises(NotImplementedError, match="fetcher"):
        await fetch("http://x/", fetcher=fetch)
