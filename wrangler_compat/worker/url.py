"""URLs as JavaScript writes them (WHATWG URL standard, as far as requests over HTTP go)."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_DOTS: Final = {"%2e": ".", "%2e.": "..", ".%2e": "..", "%2e%2e": ".."}
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_NO_BREAKS: Final = str.maketrans(dict.fromkeys("\t\n\r"))
_IN_PATH: Final = "".join(set(_PRINTABLE) - set('"#<>?`{}^'))
_IN_QUERY: Final = "".join(set(_PRINTABLE) - set("\"#<>'"))
_IN_FRAGMENT: Final = "".join(set(_PRINTABLE) - set('"<>`'))


def normalised(url: object) -> str:
    """The URL as `new URL(url).href` gives it: `https://t.com` is `https://t.com/`.

    Raises:
        TypeError: it is none, or relative.
    """
    text = str(url).strip("\0\t\n\f\r ").translate(_NO_BREAKS)
    try:
        parts = urlsplit(text)
        if not parts.scheme or (parts.scheme in DEFAULT_PORTS and not parts.hostname):
            raise ValueError
        return _written(parts) if parts.scheme in DEFAULT_PORTS else text
    except ValueError:
        raise TypeError(f"Invalid URL: {url}") from None


def _written(parts: SplitResult) -> str:
    user, at, _ = parts.netloc.rpartition("@")
    host = (parts.hostname or "").lower()
    if not host.isascii():
        host = host.encode("idna").decode()
    if set(host) & set(" <>^|\\#?/@%"):
        raise ValueError
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    query = f"?{quote(parts.query, _IN_QUERY)}" if parts.query else ""
    fragment = f"#{quote(parts.fragment, _IN_FRAGMENT)}" if parts.fragment else ""
    return f"{parts.scheme}://{user}{at}{host}{port}{_path(parts.path)}{query}{fragment}"


def _path(path: str) -> str:
    """A path without `.` and `..`, and with everything escaped that has to be."""
    kept: list[str] = []
    segment = ""
    for segment in path.replace("\\", "/").split("/")[1:]:
        segment = _DOTS.get(segment.lower(), segment)
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segment in (".", ".."):
        kept.append("")  # a directory
    return quote("/" + "/".join(kept), _IN_PATH)
