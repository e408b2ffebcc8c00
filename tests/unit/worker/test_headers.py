"""`Headers`, and what `headers` of a request or a response is."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from wrangler_compat.worker.headers import Headers, HeadersInit
from wrangler_compat.worker.http import Request, Response


@pytest.mark.parametrize(
    "init",
    [
        {"X-One": "1", "Two": "2"},
        [("X-One", "1"), ("Two", "2")],
        Headers({"X-One": "1", "Two": "2"}),
    ],
)
def test_headers_are_made_of_a_dict_of_pairs_or_of_headers(init: HeadersInit) -> None:
    assert Headers(init).items() == [("X-One", "1"), ("Two", "2")]


def test_headers_are_case_insensitive_and_a_missing_one_is_none() -> None:
    headers = Headers({"Content-Type": " text/html "})
    assert headers["content-type"] == headers.get("CONTENT-TYPE") == "text/html"
    assert "content-TYPE" in headers
    assert headers["absent"] is None
    assert headers.get("absent", "x") == "x"


def test_headers_hold_several_values_of_a_name() -> None:
    headers = Headers([("set-cookie", "a=1"), ("Set-Cookie", "b=2")])
    assert headers.get_all("SET-COOKIE") == ["a=1", "b=2"]
    headers.set("set-cookie", "c=3")
    assert headers.get_all("set-cookie") == ["c=3"]
    headers.append("set-cookie", "d=4")
    assert headers.get_all("set-cookie") == ["c=3", "d=4"]
    headers.delete("set-cookie")
    assert not headers.has("set-cookie")


def test_several_values_are_read_as_one_but_for_cookies() -> None:
    pairs = [("Accept", "a/b"), ("accept", "c/d"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    headers = Headers(pairs)
    assert headers["accept"] == headers.get("ACCEPT") == "a/b, c/d"
    assert headers["set-cookie"] == "a=1"
    assert headers.get_all("accept") == ["a/b", "c/d"]


@pytest.mark.parametrize(
    "message",
    [
        Request(
            "http://x/",
            headers=[("X-A", "1"), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("x-a", "2")],
        ),
        Response(
            None, headers=[("X-A", "1"), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("x-a", "2")]
        ),
    ],
)
def test_headers_of_a_message_are_sorted_and_combined(message: Request | Response) -> None:
    expected = [("set-cookie", "a"), ("set-cookie", "b"), ("x-a", "1, 2")]
    assert message.headers.items() == expected
    assert message.headers.get_all("X-A") == ["1, 2"]


def test_headers_of_a_message_are_a_copy_and_whoever_changes_it_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    response = Response("x", headers={"x-gone": "1"})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            response.headers["X-Added"] = "1"
        del response.headers["x-gone"]
    assert response.headers["x-added"] is None
    assert response.headers["x-gone"] == "1"
    told = [record.message for record in caplog.records]
    assert [text.partition(" was changed in a copy")[0] for text in told] == [
        "'X-Added'",
        "'x-gone'",
    ]
    assert "Response(body, headers={...})" in told[0]


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (1.5, "1.5"), (2.0, "2"), (True, "true"), (" é\t", "é")]
)
def test_a_number_becomes_the_text_that_javascript_makes_of_it(value: Any, text: str) -> None:
    assert Headers({"x": value})["x"] == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "1\r\nset-cookie: evil"),
        ("x", "a\x00b"),
        ("x", "a\x0bb"),
        ("x", "☃"),
        ("a b", "1"),
        ("", "1"),
        ("a\nb", "1"),
        ("é", "1"),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_set(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="header"):
        Headers({name: value})
    with pytest.raises(ValueError, match="header"):
        Headers()[name] = value
    with pytest.raises(ValueError, match="header"):
        Headers().set(name, value)
    with pytest.raises(ValueError, match="header"):
        Response("x", headers=[(name, value)])


def test_a_value_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="header 'x' is a text or a number, not NoneType"):
        Request("http://x/", headers={"x": None})
