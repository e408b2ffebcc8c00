"""Each scheme by itself: what its sender signs is accepted, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.datastructures import Headers

from emulator.errors import ConfigError, InvalidSignature
from tests.unit.webhooks.senders import SECRET, SENDERS, WHSEC, Sender
from wrangler_compat.webhooks.schemes import (
    GitHub,
    Scheme,
    SharedToken,
    SignedRequest,
    Slack,
    StandardWebhooks,
    Stripe,
)

NOW_S = 1_700_000_000
TOLERANCE_S = 300
BODY = '{"name": "Größe"}'.encode()
SCHEMES: dict[str, Scheme] = {
    "standard": StandardWebhooks(WHSEC, TOLERANCE_S * 1000),
    "github": GitHub(SECRET),
    "stripe": Stripe(SECRET, TOLERANCE_S * 1000),
    "slack": Slack(SECRET, TOLERANCE_S * 1000),
    "token": SharedToken(SECRET, "X-Token"),
}
SLACK_BODY = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    "&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    "&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    "%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
TIMED = [sender for sender in SENDERS if sender.is_timed]

every_sender = pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
every_timed_sender = pytest.mark.parametrize("sender", TIMED, ids=lambda sender: sender.name)


def check(
    scheme: Scheme, headers: Mapping[str, str], body: bytes = BODY, now_ms: int = NOW_S * 1000
) -> None:
    scheme.verify(SignedRequest(Headers(headers), body, now_ms))


def reason(scheme: Scheme, headers: Mapping[str, str], body: bytes = BODY) -> str:
    with pytest.raises(InvalidSignature) as caught:
        check(scheme, headers, body)
    return caught.value.message


@pytest.mark.parametrize(
    ("scheme", "sent_s", "body", "headers"),
    [
        (
            StandardWebhooks("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1_000),
            1_614_265_330,
            '{"test": 2432232314}',
            {
                "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "webhook-timestamp": "1614265330",
                "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            },
        ),
        (
            GitHub("It's a Secret to Everybody"),
            0,
            "Hello, World!",
            {
                "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a"
                "37570b6d7586c22c46f4379c8b043e17"
            },
        ),
        (
            Slack("8f742231b10e8888abcd99yyyzzz85a5", 1_000),
            1_531_420_618,
            SLACK_BODY,
            {
                "X-Slack-Request-Timestamp": "1531420618",
                "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            },
        ),
    ],
    ids=["standard", "github", "slack"],
)
def test_the_examples_of_the_documentations_are_accepted(
    scheme: Scheme, sent_s: int, body: str, headers: dict[str, str]
) -> None:
    check(scheme, headers, body.encode(), sent_s * 1000)


@every_sender
def test_what_the_sender_signed_is_accepted(sender: Sender) -> None:
    check(SCHEMES[sender.name], sender.sign(BODY, NOW_S, "d-1"))


@every_sender
def test_another_secret_is_refused(sender: Sender) -> None:
    headers = sender.sign(BODY, NOW_S, "d-1", secret=b"another")
    text = reason(SCHEMES[sender.name], headers)
    assert "does not match" in text or "not the right one" in text


@pytest.mark.parametrize(
    "sender", [each for each in SENDERS if each.signs_body], ids=lambda sender: sender.name
)
def test_a_changed_body_is_refused(sender: Sender) -> None:
    headers = sender.sign(BODY, NOW_S, "d-1")
    assert reason(SCHEMES[sender.name], headers, BODY + b" ") == "The signature does not match."


@every_sender
def test_without_its_headers_a_request_is_refused_with_the_name_of_the_missing_one(
    sender: Sender,
) -> None:
    headers = sender.sign(BODY, NOW_S, "d-1")
    signed = [name for name in headers if sender.name == "standard" or not is_unsigned_name(name)]
    for name in signed:
        rest = {key: value for key, value in headers.items() if key != name}
        assert reason(SCHEMES[sender.name], rest) == f"The header {name} is missing."


def is_unsigned_name(header: str) -> bool:
    """Whether a header only names the delivery, but for Standard Webhooks, which signs it."""
    return header in ("webhook-id", "X-GitHub-Delivery")


@every_timed_sender
@pytest.mark.parametrize("age_s", [-TOLERANCE_S, 0, TOLERANCE_S])
def test_a_signature_as_old_or_young_as_tolerated_is_accepted(sender: Sender, age_s: int) -> None:
    check(SCHEMES[sender.name], sender.sign(BODY, NOW_S - age_s, "d-1"))


@every_timed_sender
def test_an_old_signature_is_refused(sender: Sender) -> None:
    headers = sender.sign(BODY, NOW_S - TOLERANCE_S - 1, "d-1")
    expected = "The timestamp is too old: 300 seconds are allowed."
    assert reason(SCHEMES[sender.name], headers) == expected


@every_timed_sender
def test_a_signature_of_the_future_is_refused(sender: Sender) -> None:
    headers = sender.sign(BODY, NOW_S + TOLERANCE_S + 1, "d-1")
    expected = "The timestamp is too far in the future: 300 seconds are allowed."
    assert reason(SCHEMES[sender.name], headers) == expected


@every_timed_sender
def test_who_lacks_the_secret_does_not_learn_whether_the_time_is_right(sender: Sender) -> None:
    headers = sender.sign(BODY, 1, "d-1", secret=b"another")
    assert reason(SCHEMES[sender.name], headers) == "The signature does not match."


@every_timed_sender
def test_a_newer_timestamp_is_not_taken_with_an_older_signature(sender: Sender) -> None:
    headers = {
        name: value.replace(str(NOW_S - 900), str(NOW_S))
        for name, value in sender.sign(BODY, NOW_S - 900, "d-1").items()
    }
    assert reason(SCHEMES[sender.name], headers) == "The signature does not match."


@every_timed_sender
@pytest.mark.parametrize("time", ["", "soon", "-1", "1_700_000_000", "17e8", "٣", "9" * 40])
def test_a_timestamp_that_is_no_number_of_seconds_is_refused(sender: Sender, time: str) -> None:
    headers = {
        name: value.replace(str(NOW_S), time)
        for name, value in sender.sign(BODY, NOW_S, "d-1").items()
    }
    scheme = SCHEMES[sender.name]
    with pytest.raises(InvalidSignature, match=r"no timestamp|is missing"):
        scheme.verify(
            SignedRequest(
                Headers(raw=[(k.lower().encode(), v.encode()) for k, v in headers.items()]),
                BODY,
                NOW_S * 1000,
            )
        )


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("standard", "webhook-signature"),
        ("github", "X-Hub-Signature-256"),
        ("stripe", "Stripe-Signature"),
        ("slack", "X-Slack-Signature"),
        ("token", "X-Token"),
    ],
)
@pytest.mark.parametrize("given", ["x", ",", "v1,", "t=1700000000", "v1=é", "sha256=", " v0=="])
def test_a_signature_of_another_form_is_refused(name: str, header: str, given: str) -> None:
    sender = next(each for each in SENDERS if each.name == name)
    headers = {**sender.sign(BODY, NOW_S, "d-1"), header: given}
    assert reason(SCHEMES[name], headers)


@pytest.mark.parametrize(
    ("name", "header", "form"),
    [
        ("standard", "webhook-signature", "v1,b2xk v2,{0} {1} v1,bmV4dA=="),
        ("stripe", "Stripe-Signature", "t=1700000000,v1=0123,{1}"),
    ],
)
def test_one_right_signature_among_several_is_enough(name: str, header: str, form: str) -> None:
    sender = next(each for each in SENDERS if each.name == name)
    headers = sender.sign(BODY, NOW_S, "d-1")
    right = headers[header] if name == "standard" else headers[header].split(",")[1]
    check(SCHEMES[name], {**headers, header: form.format("bm93", right)})


def test_a_signature_of_another_delivery_is_refused() -> None:
    headers = {**SENDERS[0].sign(BODY, NOW_S, "d-1"), "webhook-id": "d-2"}
    assert reason(SCHEMES["standard"], headers) == "The signature does not match."


def test_a_body_that_is_no_text_is_refused() -> None:
    headers = SENDERS[0].sign(b"\xff", NOW_S, "d-1")
    assert "UTF-8" in reason(SCHEMES["standard"], headers, b"\xff")


@pytest.mark.parametrize("secret", ["whsec_", "whsec_a", "s3cret!", "whsec_ä", " "])
def test_a_secret_that_is_no_base64_is_refused_without_being_told(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StandardWebhooks(secret, 1_000)
    assert "whsec_" in caught.value.message
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "headers", "data", "expected"),
    [
        ("standard", {"webhook-id": "d-1"}, {"id": "x"}, "d-1"),
        ("github", {"X-GitHub-Delivery": "d-1"}, {"id": "x"}, "d-1"),
        ("github", {}, {"id": "x"}, None),
        ("stripe", {"webhook-id": "x"}, {"id": "evt_1"}, "evt_1"),
        ("stripe", {}, {"id": 5}, None),
        ("stripe", {}, ["id"], None),
        ("slack", {}, {"event_id": "Ev1"}, "Ev1"),
        ("slack", {}, {}, None),
        ("token", {"webhook-id": "d-1"}, {}, "d-1"),
        ("token", {}, {"id": "x"}, None),
    ],
)
def test_a_delivery_has_the_name_that_its_sender_gives_it(
    name: str, headers: dict[str, str], data: object, expected: str | None
) -> None:
    assert SCHEMES[name].delivery_id(Headers(headers), data) == expected


@every_sender
def test_a_secret_is_not_shown(sender: Sender) -> None:
    assert SECRET not in repr(SCHEMES[sender.name])


def test_a_token_beyond_ascii_is_compared_as_the_bytes_of_its_header() -> None:
    sent = Headers(raw=[(b"x-token", "Schlüssel €".encode())])
    request = SignedRequest(sent, BODY, NOW_S * 1000)
    SharedToken("Schlüssel €", "X-Token").verify(request)
    with pytest.raises(InvalidSignature):
        SharedToken("Schlüssel", "X-Token").verify(request)
