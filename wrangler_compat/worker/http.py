"""`Request`, `Response` and `fetch` as Python Workers have them (Cloudflare: Python Workers, the `workers` module).

Cloudflare's classes wrap JavaScript's; these hold plain Python values and answer to the same names. A body
is read once, as there. httpx is imported when `fetch` is first called.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from http import HTTPMethod
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, overload

from wrangler_compat.worker.blob import Blob
from wrangler_compat.worker.body import BODY_USED, ReadableStream
from wrangler_compat.worker.form import FormData, encode_form, parse_form
from wrangler_compat.worker.headers import Headers, HeadersInit

if TYPE_CHECKING:
    import ssl

Body: TypeAlias = str | bytes | Blob | FormData | ReadableStream | None
_Bytes: TypeAlias = bytes  # inside the classes, `bytes` is the method

_BODILESS = (101, 204, 205, 304)
_REDIRECTS = (301, 302, 303, 307, 308)


class HttpMessage:
    """What a request and a response share: headers, and a body that is read once."""

    def __init__(self, body: Body, headers: HeadersInit | None) -> None:
        self._headers = Headers(headers)
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
                raise TypeError(f"Unsupported type in {type(self).__name__}: {type(body).__name__}")

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

    async def buffer(self) -> _Bytes:
        """Read the body, by JavaScript's name."""
        return await self.bytes()

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
    """An HTTP request: a client's, or one made for `fetch`."""

    def __init__(
        self,
        input: str | Request,  # noqa: A002  Cloudflare's name
        *,
        method: str | None = None,
        headers: HeadersInit | None = None,
        body: Body = None,
    ) -> None:
        self.url: str
        if isinstance(input, Request):
            self.url = input.url
            method = method or input.method
            headers = input.headers if headers is None else headers
            if body is None and input.body is not None:
                body = ReadableStream(input.body.take())  # it is the new request's from now on
        else:
            self.url = input
        super().__init__(body, headers)
        name = (method or "GET").upper()
        self.method: str = HTTPMethod[name] if name in HTTPMethod.__members__ else name
        if self.body is not None and name in ("GET", "HEAD"):
            raise TypeError("Request with a GET or HEAD method cannot have a body.")

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
        return Request(self.url, method=self.method, headers=self.headers, body=copy)


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

    def __init__(
        self,
        body: Body = None,
        status: int = 200,
        status_text: str = "",
        headers: HeadersInit | None = None,
    ) -> None:
        if not 200 <= status <= 599:
            raise ValueError(f"Responses have a status in the range of 200 to 599; got {status}.")
        if status in _BODILESS and not body:
            body = None  # workerd: a body without a byte counts as none
        super().__init__(body, headers)
        if self.body is not None and status in _BODILESS:
            raise TypeError(f"Response with null body status ({status}) cannot have a body.")
        self.status = int(status)
        self.status_text = status_text
        self.url = ""

    def __repr__(self) -> str:
        return f"Response(status={self.status}, content_type={self.headers.get('content-type')!r})"

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
        """Make a response of JSON; a datetime becomes what JavaScript's `Date` becomes."""
        given = Headers(headers)
        if not given.has("content-type"):
            given.set("content-type", "application/json")
        return cls(
            json.dumps(data, default=_json_value, separators=(",", ":")), status, status_text, given
        )

    @classmethod
    def redirect(cls, url: str, status: int = 302) -> Response:
        """Make a response that sends the client to `url`.

        Raises:
            ValueError: the status is not one of a redirect.
        """
        if status not in _REDIRECTS:
            raise ValueError(f"Invalid redirect status: {status}; expected one of {_REDIRECTS}.")
        return cls(None, status, headers={"location": url})

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
        response.url = self.url
        return response


def _json_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


async def fetch(
    resource: str | Request,
    *,
    method: str | None = None,
    headers: HeadersInit | None = None,
    body: Body = None,
    redirect: Literal["follow", "manual", "error"] = "follow",
    cf: object = None,  # noqa: ARG001  Cloudflare's settings have no meaning here, and do no harm
) -> Response:
    """Send a request and read the whole response.

    Raises:
        OSError: there is no response: no connection, or a redirect where `redirect` is "error".
    """
    import httpx

    request = Request(resource, method=method, headers=headers, body=body)
    async with httpx.AsyncClient(
        verify=_ssl_context(),
        timeout=None,  # noqa: S113  Cloudflare has none either
        follow_redirects=redirect == "follow",
    ) as client:
        try:
            reply = await client.request(
                str(request.method),
                request.url,
                headers=list(request.headers.items()),
                content=await request.bytes(),
            )
        except httpx.HTTPError as error:
            raise OSError(f"fetch of {request.url} failed: {error}") from error
    if redirect == "error" and reply.has_redirect_location:
        raise OSError(f"fetch of {request.url} failed: it redirects to {reply.headers['location']}")
    # httpx has undone the encoding, and the length with it.
    kept = [
        pair
        for pair in reply.headers.multi_items()
        if pair[0] not in ("content-encoding", "content-length")
    ]
    content = None if reply.status_code in _BODILESS else reply.content
    response = Response(content, reply.status_code, reply.reason_phrase, kept)
    response.url = str(reply.url)
    return response


@cache
def _ssl_context() -> ssl.SSLContext:
    """Make the context once: reading the certificates takes longer than many a request."""
    import httpx

    return httpx.create_ssl_context()
