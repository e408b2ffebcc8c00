"""How names and tokens stand in an HTTP request, whoever sends it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from emulator.errors import ConfigError

_API_TOKEN: Final = re.compile(r"[!-~]([ -~]*[!-~])?")
_DOTS: Final = (".", "..")


def encode_path(name: str) -> str:
    """A name as a part of a path. One that is nothing but dots would lead elsewhere, so its dots are encoded too."""
    return name.replace(".", "%2E") if name in _DOTS else quote(name, safe="")


def check_api_token(token: str) -> str:
    """Accept what the APIs ask for. It is not told what it is when it is none: it is secret.

    Raises:
        ConfigError: no header can hold it.
    """
    if not _API_TOKEN.fullmatch(token):
        raise ConfigError(
            "The API token can only have letters, digits, signs of ASCII and spaces between them."
        )
    return token
