"""How senders prove who they are, one class for each scheme.

Each checks a request as it was sent, before its body is looked into, and knows what its sender calls a delivery. A
signature is checked before its age, so that only who has the secret learns whether a timestamp is good. The time is
the engine's: where a test moves the clock, signatures age.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

from emulator.errors import ConfigError, InvalidSignature

if TYPE_CHECKING:
    from standardwebhooks import Webhook as Signer
    from starlette.datastructures import Headers

_SECRET: Final = re.compile(r"(whsec_)?[A-Za-z0-9+/]+={0,2}")
_UNIX_S: Final = re.compile(r"[0-9]{1,11}")


class SignedRequest(NamedTuple):
    """A request as it was sent, and when it came."""

    headers: Headers
    body: bytes
    now_ms: int

    def header(self, name: str) -> str:
        """The value of a header.

        Raises:
            InvalidSignature: there is none.
        """
        value = self.headers.get(name)
        if not value:
            raise InvalidSignature(f"The header {name} is missing.")
        return value

    def check_age(self, sent_s: int, tolerance_ms: int) -> None:
        """Accept what was sent at this time of the sender's.

        Raises:
            InvalidSignature: that is too long ago, or yet to come.
        """
        age_ms = self.now_ms - sent_s * 1000
        if abs(age_ms) > tolerance_ms:
            direction = "old" if age_ms > 0 else "far in the future"
            allowed = f"{tolerance_ms / 1000:g} seconds are allowed."
            raise InvalidSignature(f"The timestamp is too {direction}: {allowed}")


class Scheme(ABC):
    """A way to sign requests.

    `id_header` and `id_field` say where the sender names a delivery, the same when it is repeated: in a header, or in
    a field of the body. Where neither is, a repetition cannot be told from another delivery.
    """

    __slots__ = ()

    id_header: ClassVar[str | None] = None
    id_field: ClassVar[str | None] = None

    @abstractmethod
    def verify(self, request: SignedRequest) -> None:
        """Accept a request.

        Raises:
            InvalidSignature: it was not signed with the secret, not as it is now, or too long ago.
        """

    def delivery_id(self, headers: Headers, data: object) -> str | None:
        """What the sender calls this delivery; None if it has no name for it."""
        if self.id_header is not None:
            return headers.get(self.id_header)
        if self.id_field is None or not isinstance(data, dict):
            return None
        name = cast("dict[str, object]", data).get(self.id_field)
        return name if isinstance(name, str) else None


class StandardWebhooks(Scheme):
    """Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature` (standardwebhooks.com)."""

    id_header = "webhook-id"

    def __init__(self, secret: str, tolerance_ms: int) -> None:
        self._signer = _signer(secret)
        self._tolerance_ms = tolerance_ms

    def verify(self, request: SignedRequest) -> None:
        """See `Scheme.verify`."""
        delivery = request.header("webhook-id")
        sent_s = _unix_s(request.header("webhook-timestamp"), "webhook-timestamp")
        given = request.header("webhook-signature").split()
        try:
            text = request.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidSignature("The body is not UTF-8, which is what is signed.") from error
        signed = self._signer.sign(delivery, datetime.fromtimestamp(sent_s, UTC), text)
        _check_any(given, signed)
        request.check_age(sent_s, self._tolerance_ms)


@dataclass(frozen=True, slots=True)
class GitHub(Scheme):
    """GitHub: `X-Hub-Signature-256` over the body (GitHub: Validating webhook deliveries). It has no timestamp."""

    id_header = "X-GitHub-Delivery"

    secret: str = field(repr=False)

    def verify(self, request: SignedRequest) -> None:
        """See `Scheme.verify`."""
        given = request.header("X-Hub-Signature-256")
        _check_any([given], "sha256=" + _hex_hmac(self.secret, request.body))


@dataclass(frozen=True, slots=True)
class Stripe(Scheme):
    """Stripe: `Stripe-Signature` with a time and signatures, `t=…,v1=…` (Stripe: Verify webhook signatures)."""

    id_field = "id"

    secret: str = field(repr=False)
    tolerance_ms: int

    def verify(self, request: SignedRequest) -> None:
        """See `Scheme.verify`."""
        items = [item.partition("=") for item in request.header("Stripe-Signature").split(",")]
        time = next((value for name, _, value in items if name.strip() == "t"), "")
        sent_s = _unix_s(time, "Stripe-Signature")
        given = [value for name, _, value in items if name.strip() == "v1"]
        _check_any(given, _hex_hmac(self.secret, time.encode() + b"." + request.body))
        request.check_age(sent_s, self.tolerance_ms)


@dataclass(frozen=True, slots=True)
class Slack(Scheme):
    """Slack: `X-Slack-Signature` and `X-Slack-Request-Timestamp` (Slack: Verifying requests)."""

    id_field = "event_id"

    secret: str = field(repr=False)
    tolerance_ms: int

    def verify(self, request: SignedRequest) -> None:
        """See `Scheme.verify`."""
        time = request.header("X-Slack-Request-Timestamp")
        sent_s = _unix_s(time, "X-Slack-Request-Timestamp")
        given = request.header("X-Slack-Signature")
        _check_any(
            [given], "v0=" + _hex_hmac(self.secret, b"v0:" + time.encode() + b":" + request.body)
        )
        request.check_age(sent_s, self.tolerance_ms)


@dataclass(frozen=True, slots=True)
class SharedToken(Scheme):
    """A secret that stands in a header as it is. A sender that wants to repeat itself sends a `webhook-id`."""

    id_header = "webhook-id"

    secret: str = field(repr=False)
    header: str

    def verify(self, request: SignedRequest) -> None:
        """See `Scheme.verify`."""
        if not _is_same(request.header(self.header), self.secret):
            raise InvalidSignature(f"The token in the header {self.header} is not the right one.")


def _signer(secret: str) -> Signer:
    from standardwebhooks import Webhook as Signer

    try:
        if _SECRET.fullmatch(secret):
            return Signer(secret)
    except binascii.Error:
        pass
    raise ConfigError('its value is not right: expected "whsec_" and base64 (Standard Webhooks)')


def _unix_s(text: str, header: str) -> int:
    if not _UNIX_S.fullmatch(text):
        raise InvalidSignature(f"The header {header} has no timestamp in seconds.")
    return int(text)


def _hex_hmac(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def _is_same(given: str, expected: str) -> bool:
    # A header has bytes, which Starlette shows as characters of Latin-1; a sender writes a secret in UTF-8.
    return hmac.compare_digest(given.encode("latin-1"), expected.encode())


def _check_any(given: Iterable[str], expected: str) -> None:
    """While a secret is replaced, a sender signs with the old and the new one."""
    if not any(_is_same(each, expected) for each in given):
        raise InvalidSignature("The signature does not match.")
