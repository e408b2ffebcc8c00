"""`Request`, `Response` and `Headers`."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPMethod, HTTPStatus
from typing import Any
from urllib.parse import urlparse

import pytest

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


async def test_json_is_written_as_json_dumps_writes_it() -> None:
    assert await Response.json({"a": {"b": "é"}}).text() == '{"a": {"b": "\\u00e9"}}'


def test_json_refuses_what_it_cannot_write() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        Response.json({1})
    with pytest.raises(TypeError, match="datetime is not JSON serializable"):
        Response.json({"at": datetime(2026, 11, 30, tzinfo=UTC)})


def test_redirect_has_a_location_and_a_status_that_redirects() -> None:
    response = Response.redirect("https://elsewhere/", 307)
    assert (response.status, response.headers["location"]) == (307, "https://elsewhere/")
    assert Response.redirect("https://e.com").headers["location"] == "https://e.com/"
    assert Response.redirect("https://e.com/", HTTPStatus.SEE_OTHER).status == 303
    with pytest.raises(TypeError, match="Invalid URL: /foo"):
        Response.redirect("/foo")
    with pytest.raises(ValueError, match="Invalid redirect status: 200"):
        Response.redirect("/", 200)


def test_what_javascript_refuses_is_refused() -> None:
    with pytest.raises(TypeError, match="Unsupported type in Response: dict") as refused:
        Response({"a": 1})  # type: ignore[arg-type]
    assert "Response.json(...)" in refused.value.__notes__[0]
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
    shown = "status=418, status_text=\"I'm a Teapot\", content_type='text/plain;charset=UTF-8'"
    assert repr(response) == f"Response({shown})"


def test_a_request_knows_what_it_was_given_and_ignores_what_cloudflare_ignores() -> None:
    request = Request("https://t.com")
    assert (request.url, request.cf, request.redirect) == ("https://t.com/", None, "follow")
    assert (request.integrity, request.keepalive) == ("", False)
    given = Request("https://t.com/", redirect="manual", cf={"cacheTtl": 5}, mode="cors")
    for copy in (given.clone(), Request(given)):
        assert (copy.redirect, copy.cf) == ("manual", {"cacheTtl": 5})
    with pytest.raises(TypeError, match="Invalid URL: /x"):
        Request("/x")
    with pytest.raises(TypeError, match='must be one of "follow" or "manual"'):
        Request("https://t.com/", redirect="error")


async def test_a_body_is_read_as_a_blob_a_buffer_or_a_form_by_every_name() -> None:
    request = Request("http://x/", method="POST", body="foobar")
    blob = await request.blob()
    assert (blob.content_type, await blob.text()) == ("text/plain;charset=utf-8", "foobar")
    assert await (await Response("foobar").blob()).bytes() == b"foobar"
    buffer = await Response("abc").buffer()
    assert (buffer.byteLength, buffer.to_bytes(), buffer) == (3, b"abc", b"abc")
    assert await Response("abc").memoryview() == b"abc"
    assert await Response("abc").string() == "abc"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert dict(await Response("a=1", headers=headers).formData()) == {"a": "1"}


def test_a_response_has_the_status_text_of_its_status() -> None:
    assert Response("x").status_text == "OK"
    assert Response(None, 599).status_text == ""
    assert repr(Response()) == "Response(status=200, status_text='OK')"
    assert Response("x", None).status == 200
    assert (Response().type, Response().redirected) == ("default", False)


@pytest.mark.parametrize(("status", "side"), [(404, "Client"), (500, "Server")])
def test_an_error_is_raised_for_its_status(status: int, side: str) -> None:
    Response("x", 302).raise_for_status()
    with pytest.raises(OSError, match=f"{status} {side} Error: "):
        Response("x", status).raise_for_status()


async def test_a_response_is_made_of_another_one() -> None:
    response = Response(Response("x", 201, "Made", {"a": "b"}).js_object)
    assert (response.status, response.status_text, response.headers["a"]) == (201, "Made", "b")
    assert await response.text() == "x"
    with pytest.raises(ValueError, match="no options"):
        Response(response, 202)


def test_a_response_with_a_web_socket_is_refused() -> None:
    socket: Any = object()
    with pytest.raises(NotImplementedError, match="WebSockets are not emulated"):
        Response(None, 101, web_socket=socket)
