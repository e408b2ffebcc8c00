"""The few names of `js` and `pyodide.ffi`."""

from __future__ import annotations

import pytest

from wrangler_compat.worker.http import Request as PythonRequest
from wrangler_compat.worker.http import Response as PythonResponse
from wrangler_compat.worker.javascript import (
    JSON,
    Date,
    JsException,
    JsProxy,
    Object,
    WebSocketPair,
    console,
    create_once_callable,
    create_proxy,
    destroy_proxies,
    run_sync,
    to_js,
)
from wrangler_compat.worker.javascript_http import (
    URL,
    Blob,
    FormData,
    Headers,
    Request,
    Response,
    URLSearchParams,
    fetch,
)


def test_conversions_have_nothing_to_do() -> None:
    value = {"a": [1, None]}
    assert to_js(value, dict_converter=Object.fromEntries) is value
    assert create_proxy(len) is len
    assert create_once_callable(len) is len
    destroy_proxies([len])
    assert not isinstance(value, JsProxy)
    assert issubclass(JsException, Exception)


def test_object_from_entries_makes_a_dictionary() -> None:
    assert Object.fromEntries([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    assert (Object.new(), Object.keys({"a": 1}), Object.entries({"a": 1})) == (
        {},
        ["a"],
        [("a", 1)],
    )


def test_json_is_written_as_javascript_writes_it_and_read_back() -> None:
    assert JSON.stringify({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    parsed = JSON.parse('{"a": [{"b": 1}]}')
    assert parsed.a[0].b == 1
    plain = parsed.to_py()
    assert (plain, type(plain), type(plain["a"][0])) == ({"a": [{"b": 1}]}, dict, dict)


def test_console_prints_to_output_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    console.log("a", 1)
    console.info({"b": 2})
    console.debug("c")
    console.warn("careful")
    console.error("no")
    captured = capsys.readouterr()
    assert captured.out == "a 1\n{'b': 2}\nc\n"
    assert captured.err == "careful\nno\n"


def test_what_makes_no_sense_here_says_so_when_it_is_used() -> None:
    with pytest.raises(AttributeError, match=r"js\.Date is not emulated: use datetime\."):
        Date.now()
    with pytest.raises(NotImplementedError, match=r"js\.WebSocketPair is not emulated"):
        WebSocketPair()


async def test_the_event_loop_cannot_be_waited_for_within_itself() -> None:
    async def answer() -> int:
        return 1

    with pytest.raises(RuntimeError, match="use `await`"):
        run_sync(answer())


async def test_responses_are_made_in_the_manner_of_older_workers() -> None:
    response = Response.new("hi", {"status": 201, "statusText": "Made", "headers": {"A": "b"}})
    assert isinstance(response, PythonResponse)
    assert (response.status, response.statusText) == (201, "Made")
    response.headers.set("X-Added", "1")
    assert response.headers.get("x-added") == "1"
    assert list(response.headers) == [
        ("a", "b"),
        ("content-type", "text/plain;charset=UTF-8"),
        ("x-added", "1"),
    ]
    assert (await response.arrayBuffer()).to_bytes() == b"hi"
    assert response.bodyUsed
    headers = Headers.new({"content-type": "text/html"}.items())
    other = Response.new("<p>", status=404, headers=headers)
    assert (other.status, other.headers.get("content-type")) == (404, "text/html")
    parsed = await Response.new('{"a": {"b": 1}}').json()
    assert (parsed.a.b, parsed.to_py()) == (1, {"a": {"b": 1}})


async def test_requests_are_made_in_the_manner_of_older_workers() -> None:
    request = Request.new("https://t.com", to_js({"method": "POST", "body": "x"}))
    assert isinstance(request, PythonRequest)
    assert (request.url, request.method, await request.text()) == ("https://t.com/", "POST", "x")
    with pytest.raises(OSError, match="Invalid URL: /x"):
        await fetch("/x", to_js({"method": "POST"}))


def test_headers_have_javascripts_methods() -> None:
    headers = Headers.new([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("B", "1"), ("b", "2")])
    assert headers.getSetCookie() == ["a=1", "b=2"]
    assert next(headers.entries()) == ("b", "1, 2")
    assert dict(headers)["B"] == "1, 2"


async def test_forms_and_blobs_are_made_by_new() -> None:
    form = FormData.new()
    form.append("a", Blob.new(["x", b"y"], {"type": "a/b"}))
    sent = await Response.new(form).form_data()
    assert [(name, bytes(value)) for name, value in sent.items() if not isinstance(value, str)] == [
        ("a", b"xy")
    ]


def test_a_url_has_its_parts() -> None:
    url = URL.new("https://u@t.com:8443/a/b?c=d&c=e&f=%20#g")
    parts = (url.protocol, url.host, url.hostname, url.port, url.origin)
    assert parts == ("https:", "t.com:8443", "t.com", "8443", "https://t.com:8443")
    assert (url.pathname, url.search, url.hash) == ("/a/b", "?c=d&c=e&f=%20", "#g")
    assert str(url) == url.href == url.toString() == "https://u@t.com:8443/a/b?c=d&c=e&f=%20#g"
    assert (url.searchParams.get("c"), url.searchParams.getAll("c")) == ("d", ["d", "e"])
    assert (url.searchParams.get("absent"), url.searchParams.has("f")) == (None, True)
    url.searchParams.set("c", 1)
    url.searchParams.delete("f")
    assert url.href == "https://u@t.com:8443/a/b?c=1#g"
    assert URL.new("../x", "https://t.com/a/b").href == "https://t.com/x"
    assert (URL.new("https://t.com").search, URL.new("https://t.com").port) == ("", "")
    with pytest.raises(TypeError, match="Invalid URL: x"):
        URL.new("x")


def test_search_params_are_made_of_a_query_a_dictionary_or_pairs() -> None:
    for init in ("?a=1&b=+2", {"a": "1", "b": " 2"}, [("a", "1"), ("b", " 2")]):
        params = URLSearchParams.new(init)
        assert list(params) == list(params.entries()) == [("a", "1"), ("b", " 2")]
        assert str(params) == "a=1&b=+2"
