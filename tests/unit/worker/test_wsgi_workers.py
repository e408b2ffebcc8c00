"""Workers whose requests are answered by a WSGI application."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from wrangler_compat.worker import wsgi
from wrangler_compat.worker.env import Env
from wrangler_compat.worker.http import Request
from wrangler_compat.worker.javascript import run_sync


async def greeting() -> str:
    return "Hello"


def show(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    names = [
        "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT", "CONTENT_TYPE",
        "CONTENT_LENGTH", "HTTP_X_A", "wsgi.url_scheme",
    ]  # fmt: skip
    seen = {name: environ[name] for name in names}
    seen["body"] = environ["wsgi.input"].read().decode()
    seen["env"] = environ["workers.env"].A
    seen["greeting"] = run_sync(greeting())
    seen["apart"] = threading.current_thread() is not threading.main_thread()
    start_response("201 Made", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    yield json.dumps(seen).encode()


async def test_an_application_sees_the_request_and_the_worker_its_response() -> None:
    request = Request(
        "https://shop.example/a%20b/%C3%A9?c=%20", method="POST", headers={"x-a": 1}, body="hé"
    )
    response = await wsgi.fetch(show, request, Env({"A": 5}, {}))
    assert (response.status, response.status_text) == (201, "Made")
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert await response.json() == {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/a b/é".encode().decode("latin-1"),
        "QUERY_STRING": "c=%20",
        "SERVER_NAME": "shop.example",
        "SERVER_PORT": "443",
        "CONTENT_TYPE": "text/plain;charset=UTF-8",
        "CONTENT_LENGTH": "3",
        "HTTP_X_A": "1",
        "wsgi.url_scheme": "https",
        "body": "hé",
        "env": 5,
        "greeting": "Hello",
        "apart": True,
    }


class Closing:
    """An answer that wants to be closed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self.is_closed = False

    def __iter__(self) -> Any:
        return iter(self._chunks)

    def close(self) -> None:
        self.is_closed = True


async def test_what_is_written_comes_first_and_the_answer_is_closed() -> None:
    answer = Closing([b"b", b"c"])

    def app(_: object, start_response: Any) -> Closing:
        write = start_response("200 OK", [])
        write(b"a")
        return answer

    response = await wsgi.fetch(app, Request("http://localhost/"), None)
    assert await response.text() == "abc"
    assert answer.is_closed


async def test_an_application_that_raises_or_says_nothing_gives_an_error() -> None:
    def raises(_: object, __: object) -> list[bytes]:
        raise ZeroDivisionError("boom")

    def silent(_: object, __: object) -> list[bytes]:
        return []

    with pytest.raises(ZeroDivisionError, match="boom"):
        await wsgi.fetch(raises, Request("http://localhost/"), None)
    with pytest.raises(RuntimeError, match="did not call start_response"):
        await wsgi.fetch(silent, Request("http://localhost/"), None)


async def test_a_status_without_a_body_has_none() -> None:
    def app(_: object, start_response: Any) -> list[bytes]:
        start_response("204 No Content", [])
        return [b""]

    response = await wsgi.fetch(app, Request("http://localhost/"), None)
    assert (response.status, response.body) == (204, None)
