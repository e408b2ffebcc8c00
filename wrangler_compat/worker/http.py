"""`Request` and `Response` as Python Workers have them (Cloudflare: Python Workers, the `workers` module).

Cloudflare's classes wrap JavaScript's; these hold plain Python values and answer to the same names. A body
is read once, as there.
"""

from __future__ import annotations

import json
from http import HTTPMethod, HTTPStatus
from typing import Any, Protocol, Self, TypeAlias, overload

from wrangler_compat.worker.blob import Blob
from wrangler_compat.worker.body import BODY_USED, ArrayBuffer, ReadableStream
from wrangler_compat.worker.form import FormData, encode_form, parse_form
from wrangler_compat.worker.headers import Headers, HeadersInit
from wrangler_compat.worker.url import normalised

Body: TypeAlias = str | bytes | Blob | FormData | ReadableStream | None
_Bytes: TypeAlias = bytes  # inside the classes, these two are methods
_View: TypeAlias = "memoryview[int]"

BODILESS = (101, 204, 205, 304)
_REDIRECTS = (301, 302, 303, 307, 308)
_STATUSES = frozenset(HTTPStatus)


class HttpMessage:
    """What a request and a response share: headers, and a body that is read once."""

    _headers_class = Headers

    def __init__(self, body: Body, headers: HeadersInit | None) -> None:
        self._headers = self._headers_class(headers)
        self._body = self._extract(body)

    def _extract(self, body: Body) -> ReadableStream | None:
        """Make a body of what was given, and the content type that goes with it (Fetch standard: extract a body).

        Raises:
            TypeError: it is nothing that a body is made of, or has been used.
        """
        match body:
            case None:
                return None
            case str():
                self._default_content_type("text/plain;charset=UTF-8")
                return ReadableStream(body.encode())
            case bytes():
                return ReadableStream(body)
            case Blob():
                self._default_content_type(body.content_type)
                return ReadableStream(bytes(body))
            case FormData():
                content, content_type = encode_form(body)
                self._default_content_type(content_type)
                return ReadableStream(content)
            case ReadableStream():
                if body.used:
                    raise TypeError(BODY_USED)
                return body  # shared: used by one of its owners, it is used for all
            case _:
                error = TypeError(
                    f"Unsupported type in {type(self).__name__}: {type(body).__name__}"
                )
                error.add_note(
                    "A body is text or bytes: of data json.dumps(...), or Response.json(...)."
                )
                raise error

    def _default_content_type(self, content_type: str) -> None:
        if content_type and not self._headers.has("content-type"):
            self._headers.set("content-type", content_type)

    @property
    def headers(self) -> Headers:
        """The headers: a new copy each time, as in Cloudflare's SDK, so that changing it changes no message."""
        return self._headers.combined()

    @property
    def body(self) -> ReadableStream | None:
        """The body, unread; None if there is none."""
        return self._body

    @property
    def body_used(self) -> bool:
        """Whether the body has been read."""
        return self._body is not None and self._body.used

    @property
    def js_object(self) -> Self:
        """The message itself: what code hands over where on Cloudflare the JavaScript object is wanted."""
        return self

    async def bytes(self) -> _Bytes:
        """Read the body.

        Raises:
            OSError: it was read before.
        """
        self._check_unread()
        return b"" if self._body is None else await self._body.read()

    async def buffer(self) -> ArrayBuffer:
        """Read the body as JavaScript's buffer."""
        return ArrayBuffer(await self.bytes())

    async def blob(self) -> Blob:
        """Read the body as a blob of the message's content type."""
        return Blob(await self.bytes(), self.headers.get("content-type"))

    async def text(self) -> str:
        """Read the body as UTF-8; bytes that are not become U+FFFD."""
        return (await self.bytes()).decode(errors="replace")

    async def form_data(self) -> FormData:
        """Read the body as a form."""
        return parse_form(await self.bytes(), self.headers.get("content-type", ""))

    def _check_unread(self) -> None:
        if self.body_used:
            raise OSError("Body already used")

    def _copy_of_body(self) -> ReadableStream | None:
        """A second body of the same content.

        Raises:
            OSError: the body was read before.
        """
        self._check_unread()
        if self._body is None:
            return None
        self._body, copy = self._body.tee()
        return copy


class Request(HttpMessage):
    """An HTTP request: a client's, or one made for `fetch`.

    `cf` is what Cloudflare knows of a client, and what `fetch` is told about caching: nothing here. What else there is
    to be said of a request in a browser (`mode`, `credentials` and the like) is accepted and ignored, as there.
    """

    integrity = ""
    keepalive = False

    def __init__(
        self,
        input: object,  # noqa: A002  Cloudflare's name
        *,
        method: str | None = None,
        headers: HeadersInit | None = None,
        body: Body = None,
        redirect: str | None = None,
        cf: Any = None,
        **_ignored: object,
    ) -> None:
        if isinstance(input, Request):
            self.url = input.url
            method = method or input.method
            headers = input.headers if headers is None else headers
            redirect = redirect or input.redirect
            cf = cf or input.cf
            if body is None and input.body is not None:
                body = ReadableStream(input.body.take())  # it is the new request's from now on
        else:
            self.url = normalised(input)
        super().__init__(body, headers)
        name = (method or "GET").upper()
        self.method: str = HTTPMethod[name] if name in HTTPMethod.__members__ else name
        if self.body is not None and name in ("GET", "HEAD"):
            raise TypeError("Request with a GET or HEAD method cannot have a body.")
        self.redirect = redirect or "follow"
        if self.redirect not in ("follow", "manual"):
            raise TypeError(
                'Invalid redirect value, must be one of "follow" or "manual" ("error" does not exist on Cloudflare; use '
                '"manual" and check the status).'
            )
        self.cf = cf

    def __repr__(self) -> str:
        return f"Request(method={str(self.method)!r}, url={self.url!r})"

    async def json(self, **options: Any) -> Any:
        """Read the body as JSON; `options` go to `json.loads`."""
        return json.loads(await self.text(), **options)

    def clone(self) -> Request:
        """Copy the request, so that its body can be read twice.

        Raises:
            OSError: the body was read before.
        """
        copy = self._copy_of_body()
        request = Request(self.url, method=self.method, headers=self.headers, body=copy)
        request.redirect, request.cf = self.redirect, self.cf
        return request


class _FromJson(Protocol):
    def __call__(
        self,
        data: object,
        status: int = 200,
        status_text: str = "",
        headers: HeadersInit | None = None,
    ) -> Response: ...


class _ReadJson(Protocol):
    async def __call__(self, **options: Any) -> Any: ...


class _Json:
    """`json` makes a response when asked of the class, and reads the body when asked of a response."""

    @overload
    def __get__(self, response: None, kind: type[Response]) -> _FromJson: ...
    @overload
    def __get__(self, response: Response, kind: type[Response]) -> _ReadJson: ...
    def __get__(self, response: Response | None, kind: type[Response]) -> _FromJson | _ReadJson:
        return kind.from_json if response is None else response.read_json


class Response(HttpMessage):
    """An HTTP response: one to send, or what `fetch` got. `url` is empty but for the latter."""

    json = _Json()
    type = "default"

    def __init__(
        self,
        body: Body | Response = None,
        status: int | None = None,
        status_text: str = "",
        headers: HeadersInit | None = None,
        web_socket: object = None,
    ) -> None:
        if web_socket is not None:
            raise NotImplementedError("WebSockets are not emulated.")
        self.url: str = ""
        self.redirected: bool = False
        if isinstance(body, Response):  # the same once more, in the SDK: of the JavaScript object
            if status is not None or status_text or headers is not None:
                raise ValueError(
                    "Expected no options when constructing Response from another Response."
                )
            status, status_text, headers = body.status, body.status_text, body.headers
            self.url, self.redirected, body = body.url, body.redirected, body.body
        status = int(status or 200)
        if not 200 <= status <= 599:
            raise ValueError(f"Responses have a status in the range of 200 to 599; got {status}.")
        if status in BODILESS and body in ("", b""):
            body = None  # workerd: a body without a byte counts as none
        super().__init__(body, headers)
        if self.body is not None and status in BODILESS:
            raise TypeError(f"Response with null body status ({status}) cannot have a body.")
        self.status = status
        self.status_text: str = status_text or _phrase(status)

    def __repr__(self) -> str:
        about = [f"status={self.status}"]
        about += [f"status_text={self.status_text!r}"] if self.status_text else []
        content_type = self.headers.get("content-type")
        about += [f"content_type={content_type!r}"] if content_type is not None else []
        about += [f"url={self.url!r}"] if self.url else []
        return f"Response({', '.join(about)})"

    @property
    def ok(self) -> bool:
        """Whether the status is 200 to 299."""
        return 200 <= self.status <= 299

    @classmethod
    def from_json(
        cls,
        data: object,
        status: int = 200,
        status_text: str = "",
        headers: HeadersInit | None = None,
    ) -> Response:
        """Make a response of JSON, as `json.dumps` writes it."""
        given = Headers(headers)
        if not given.has("content-type"):
            given.set("content-type", "application/json")
        return cls(json.dumps(data), status, status_text, given)

    @classmethod
    def redirect(cls, url: str, status: int = 302) -> Response:
        """Make a response that sends the client to `url`.

        Raises:
            ValueError: the status is not one of a redirect.
            TypeError: the URL is not absolute.
        """
        if status not in _REDIRECTS:
            raise ValueError(f"Invalid redirect status: {status}; expected one of {_REDIRECTS}.")
        return cls(None, status, headers={"location": normalised(url)})

    def raise_for_status(self) -> None:
        """Do nothing, but for an error's status.

        Raises:
            OSError: the status is 400 or more.
        """
        if self.status >= 400:
            side = "Client" if self.status < 500 else "Server"
            raise OSError(f"{self.status} {side} Error: {self.status_text} for url: {self.url}")

    async def string(self) -> str:
        """Read the body as UTF-8, by Pyodide's older name."""
        return await self.text()

    async def memoryview(self) -> _View:
        """Read the body as a view of its bytes."""
        return (await self.buffer()).to_memoryview()

    async def formData(self) -> FormData:  # noqa: N802
        """Read the body as a form, by JavaScript's name."""
        return await self.form_data()

    async def read_json(self, **options: Any) -> Any:
        """Read the body as JSON; `options` go to `json.loads`. Users call it `json`."""
        return json.loads(await self.text(), **options)

    def clone(self) -> Response:
        """Copy the response, so that its body can be read twice.

        Raises:
            OSError: the body was read before.
        """
        return self.replace_body(self._copy_of_body())

    def replace_body(self, body: Body) -> Response:
        """Make a response that differs in its body only."""
        response = Response(body, self.status, self.status_text, self.headers)
        response.url, response.redirected = self.url, self.redirected
        return response


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in _STATUSES else ""
