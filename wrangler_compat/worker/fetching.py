"""`fetch` of Python Workers. httpx and its like are imported when it is first called."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from wrangler_compat.worker.http import BODILESS, Request, Response

if TYPE_CHECKING:
    import ssl

    import httpx

_OWN: Final = ("accept-encoding", "content-length", "host", "transfer-encoding")
"""What is said of a request by the address, its body and what can be decoded here, whatever its headers say."""
_UNDONE: Final = ("content-encoding", "content-length")
"""What was true of a response before it was decoded, if it was."""


async def fetch(resource: object, *, fetcher: object = None, **options: Any) -> Response:
    """Send a request and read the whole response. The options are those of `Request`.

    Raises:
        OSError: there is no response, whatever the reason (Pyodide: pyfetch).
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    if fetcher is not None:
        raise NotImplementedError(
            "fetch(fetcher=…) is not emulated: call what it is given instead."
        )
    try:
        request = Request(resource, **options)
        sent = [pair for pair in request.headers.items() if pair[0].lower() not in _OWN]
        content = await request.bytes()
        async with httpx.AsyncClient(
            verify=_ssl_context(),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # Workers keep none
            timeout=None,  # noqa: S113  Cloudflare has none either
            follow_redirects=request.redirect == "follow",
        ) as client:
            method = str(request.method)
            reply = await client.request(method, request.url, headers=sent, content=content)
    except (httpx.HTTPError, httpx.InvalidURL, TypeError, ValueError) as error:
        url = resource.url if isinstance(resource, Request) else resource
        raise OSError(f"fetch of {url} failed: {error or type(error).__name__}") from error
    return _received(reply)


def _received(reply: httpx.Response) -> Response:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in reply.headers.raw]
    undone = _UNDONE if "content-encoding" in reply.headers else ()
    response = Response(
        None if reply.status_code in BODILESS else reply.content,
        status_text=reply.reason_phrase,
        headers=[pair for pair in pairs if pair[0].lower() not in undone],
    )
    response.status = reply.status_code  # any: only what a Worker makes is limited
    response.url, response.redirected = str(reply.url), bool(reply.history)
    return response


@cache
def _ssl_context() -> ssl.SSLContext:
    """Make the context once: reading the certificates takes longer than many a request."""
    import httpx

    return httpx.create_ssl_context()
