"""Senders of webhooks: each signs as its own documentation says, with nothing but hashes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

Headers = dict[str, str]

RAW_SECRET = b"a secret of 24 bytes, yes"
WHSEC = "whsec_" + base64.b64encode(RAW_SECRET).decode()
SECRET = "s3cret"


def digest(secret: bytes, content: bytes) -> hmac.HMAC:
    return hmac.new(secret, content, hashlib.sha256)


def standard(body: bytes, sent_s: int, delivery: str, secret: bytes = RAW_SECRET) -> Headers:
    signed = digest(secret, f"{delivery}.{sent_s}.".encode() + body).digest()
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(sent_s),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }


def github(body: bytes, _: int, delivery: str, secret: bytes = SECRET.encode()) -> Headers:
    signed = digest(secret, body).hexdigest()
    return {"X-GitHub-Delivery": delivery, "X-Hub-Signature-256": f"sha256={signed}"}


def stripe(body: bytes, sent_s: int, _: str, secret: bytes = SECRET.encode()) -> Headers:
    signed = digest(secret, f"{sent_s}.".encode() + body).hexdigest()
    return {"Stripe-Signature": f"t={sent_s},v1={signed},v0=6ffbb59b2300aae63f272406069a9788"}


def slack(body: bytes, sent_s: int, _: str, secret: bytes = SECRET.encode()) -> Headers:
    signed = digest(secret, f"v0:{sent_s}:".encode() + body).hexdigest()
    return {"X-Slack-Request-Timestamp": str(sent_s), "X-Slack-Signature": f"v0={signed}"}


def token(_: bytes, __: int, delivery: str, secret: bytes = SECRET.encode()) -> Headers:
    return {"X-Token": secret.decode(), "webhook-id": delivery}


@dataclass(frozen=True)
class Sender:
    """A sender, and the settings that fit it. `id_field` is where it names a delivery in the body."""

    name: str
    sign: Callable[..., Headers]
    settings: str = ""
    id_field: str | None = None
    is_timed: bool = True
    signs_body: bool = True

    @property
    def secret(self) -> str:
        return WHSEC if self.name == "standard" else SECRET


SENDERS = [
    Sender("standard", standard),
    Sender("github", github, is_timed=False),
    Sender("stripe", stripe, id_field="id"),
    Sender("slack", slack, id_field="event_id"),
    Sender("token", token, 'header = "X-Token"', is_timed=False, signs_body=False),
]
