"""`Request`, `Response` and `Headers`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http import HTTPMethod
from urllib.parse import urlparse

import pytest

from emulator.domain.values import JsDict
from wrangler_compat.worker.http import Request, Response


async def test_a_request_tells_method_url_headers_and_body() -> None:
    request = Request(
        "https://shop.example/a/b?c=d", method="post", headers={"X": "1"}, body='{"n": 1}'
    )
    assert request.method == "POST"
    assert request.method is HTTPMethod.POST
    assert urlparse(request.url).path == "/a/b"
    assert request.headers["x"] == "1"
    assert request.headers["content-type"] == "text/plain;charset=UTF-8"
    assert await request.json() == {"n": 1}


async def test_a_body_is_read_once_as_on_cloudflare() -> None:
    request = Request("http://x/", method="PUT", body="é")
    copy = request.clone()
    assert await request.text() == "é"
    assert request.body_used
    with pytest.raises(OSError, match="Body already used"):
        await request.bytes()
    with pytest.raises(OSError, match="Body already used"):
        request.clone()
    assert await copy.buffer() == "é".encode()


async def test_a_request_made_of_a_request_may_differ() -> None:
    first = Request("http://x/", method="POST", headers={"a": "1"}, body=b"1")
    second = Request(first, method="PUT", headers={"b": "2"})
    assert (second.url, second.method, await second.bytes()) == ("http://x/", "PUT", b"1")
    assert first.body_used
    assert second.headers.items() == [("b", "2")]
    assert repr(second) == "Request(method='PUT', url='http://x/')"


def test_a_method_that_python_does_not_know_is_kept() -> None:
    assert Request("http://x/", method="propfind").method == "PROPFIND"


def test_a_get_request_with_a_body_is_refused() -> None:
    with pytest.raises(TypeError, match="GET or HEAD method cannot have a body"):
        Request("http://x/", body="x")


async def test_a_response_has_cloudflares_arguments() -> None:
    response = Response("hi", 201, "Made", {"x": "1"})
    assert (response.status, response.status_text, response.ok) == (201, "Made", True)
    assert response.headers.items() == [("content-type", "text/plain;charset=UTF-8"), ("x", "1")]
    assert await response.text() == "hi"
    assert (Response().status, Response().body, Response().headers.items()) == (200, None, [])
    assert not Response(status=404).ok


async def test_json_makes_a_response_on_the_class_and_reads_it_on_an_object() -> None:
    response = Response.json({"a": [1, None]}, status=202, headers={"x": "1"})
    assert response.status == 202
    assert response.headers.items() == [("content-type", "application/json"), ("x", "1")]
    assert await response.json() == {"a": [1, None]}
    assert (
        Response.from_json([], headers={"Content-Type": "text/x"}).headers["content-type"]
        == "text/x"
    )


async def test_json_writes_datetimes_as_javascript_does() -> None:
    at = datetime(2026, 11, 30, 3, 4, 5, 678_901, UTC)
    naive = at.astimezone().replace(tzinfo=None)  # Cloudflare's SDK gives naive local times
    text = await Response.json(JsDict(at=at, naive=naive)).text()
    assert json.loads(text) == {
        "at": "2026-11-30T03:04:05.678Z",
        "naive": "2026-11-30T03:04:05.678Z",
    }


def test_json_refuses_what_it_cannot_write() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        Response.json({1})


def test_redirect_has_a_location_and_a_status_that_redirects() -> None:
    response = Response.redirect("https://elsewhere/", 307)
    assert (response.status, response.headers["location"]) == (307, "https://elsewhere/")
    assert Response.redirect("/").status == 302
    with pytest.raises(ValueError, match="Invalid redirect status: 200"):
        Response.redirect("/", 200)


def test_what_javascript_refuses_is_refused() -> None:
    with pytest.raises(TypeError, match="Unsupported type in Response: dict"):
        Response({"a": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="range of 200 to 599; got 99"):
        Response("x", 99)
    with pytest.raises(TypeError, match="null body status"):
        Response("x", 204)


@pytest.mark.parametrize("status", [204, 205, 304])
@pytest.mark.parametrize("empty", ["", b"", None])
async def test_an_empty_body_is_none_where_the_status_allows_none(
    status: int, empty: str | bytes | None
) -> None:
    response = Response(empty, status=status)
    assert (response.status, response.body, response.headers.items()) == (status, None, [])
    assert (await Response(await response.text(), response.status).text()) == ""
    with pytest.raises(TypeError, match="cannot have a body"):
        Response("x", status)


async def test_a_body_that_was_read_makes_no_other_message() -> None:
    request = Request("http://x/", method="PUT", body="x")
    response = Response("x")
    await request.text()
    await response.text()
    message = "Body has already been used. It can only be used once. Use tee() first"
    with pytest.raises(TypeError) as caught:
        Request(request)
    assert str(caught.value).startswith(message)
    with pytest.raises(TypeError) as caught:
        Response(response.body, 201)
    assert str(caught.value).startswith(message)
    assert await response.replace_body("y").text() == "y"


async def test_a_body_that_is_handed_on_is_one_body() -> None:
    first = Response("x", 201)
    second = Response(first.body, 202)
    assert not first.body_used
    assert await second.text() == "x"
    assert first.body_used


async def test_the_chunks_of_a_body_are_buffers_and_tee_makes_two_of_it() -> None:
    body = Response("héllo").body
    assert body is not None
    one, other = body.tee()
    assert [chunk.to_bytes() async for chunk in one] == ["héllo".encode()]
    assert one.used
    assert (await other.read()).decode() == "héllo"
    with pytest.raises(TypeError, match="already been used"):
        body.tee()


async def test_replace_body_keeps_the_rest() -> None:
    response = Response("a", 418, headers={"x": "1"})
    other = response.replace_body("b")
    assert (other.status, other.headers["x"], await other.text()) == (418, "1", "b")
    assert await response.clone().text() == "a"
    assert repr(response) == "Response(status=418, content_type='text/plain;charset=UTF-8')"
