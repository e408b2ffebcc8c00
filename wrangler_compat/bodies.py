"""The body of a request, read with a limit."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from emulator.errors import PayloadTooLarge

MAX_BODY_BYTES: Final = 100 * 1024 * 1024
"""Cloudflare: Workers, limits; the request body of the Free and Pro plans. A batch of the largest params fits."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body as it was sent. One that is too large is not read to its end.

    Raises:
        PayloadTooLarge: it is over `max_bytes`.
    """
    announced = request.headers.get("content-length", "0")
    body = bytearray()
    if not (announced.isdigit() and int(announced) > max_bytes):
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                break
        else:
            return bytes(body)
    raise PayloadTooLarge(f"The request body is too large: at most {max_bytes} bytes are taken.")
