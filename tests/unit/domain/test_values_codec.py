"""The codec of values: what is stored, what is refused, and what comes back."""

from __future__ import annotations

import collections
import copy
import json
import math
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum

import msgspec
import pydantic
import pytest

from emulator.domain.limits import MAX_VALUE_BYTES, MAX_VALUE_DEPTH_LEVELS
from emulator.domain.values import JsDict, decode, encode, plain, size_bytes
from emulator.errors import JournalCorrupt, PayloadTooLarge, SerializationError

WHERE = 'the result of step "a-1"'


def stored(value: object) -> str:
    return bytes(encode(value, WHERE)).decode()


def refusal(value: object) -> str:
    with pytest.raises(SerializationError) as caught:
        encode(value, WHERE)
    return caught.value.message


def nested_list(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not the text"


class Number(int):
    pass


class Real(float):
    pass


class Items(list[object]):
    pass


@dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    x: int


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        ("", '""'),
        ("\u6ce8\u6587", '"\u6ce8\u6587"'),
        ([], "[]"),
        ({}, "{}"),
        ({"a": [1, None, {"b": False}]}, '{"a":[1,null,{"b":false}]}'),
        (b"hello", '{"$":"bytes","value":"aGVsbG8="}'),
        (
            datetime(2026, 1, 2, 3, 4, 5, 6000),
            '{"$":"datetime","value":"2026-01-02T03:04:05.006000"}',
        ),
        (
            datetime(2026, 1, 2, tzinfo=UTC),
            '{"$":"datetime","value":"2026-01-02T00:00:00+00:00"}',
        ),
        ({7}, '{"$":"set","value":[7]}'),
        (math.nan, '{"$":"number","value":"NaN"}'),
        (math.inf, '{"$":"number","value":"Infinity"}'),
        (-math.inf, '{"$":"number","value":"-Infinity"}'),
        (2**63, '{"$":"int","value":"0x8000000000000000"}'),
        ({1: "one"}, '{"$":"dict","value":[[1,"one"]]}'),
        ({"$": "bytes", "value": "x"}, '{"$":"dict","value":[["$","bytes"],["value","x"]]}'),
        (ValueError("no"), '{"$":"error","value":"no"}'),
        ("\ud800", '{"$":"str","value":"\\\\ud800"}'),
    ],
)
def test_a_value_is_stored_as_json_that_a_person_can_read(value: object, text: str) -> None:
    assert stored(value) == text


@pytest.mark.parametrize(
    "value",
    [None, 0, False, "", [], {}, b"", set[int](), 0.0],
)
def test_an_empty_value_comes_back_as_it_was(value: object) -> None:
    back = decode(encode(value, WHERE))
    assert back == value
    assert isinstance(back, type(value))


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, decode(encode(-0.0, WHERE))) == -1


class NoTime(datetime):
    """Like pandas' NaT: a datetime that is no instant."""

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        return "NaT"


def test_a_datetime_without_an_instant_is_refused() -> None:
    assert refusal({"at": NoTime(1, 1, 1)}).startswith(f"{WHERE} at at: NoTime(")


def test_an_aware_datetime_stays_aware_and_a_naive_one_naive() -> None:
    aware = datetime(2026, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    naive = datetime(2026, 5, 6)
    assert decode(encode([aware, naive], WHERE)) == [aware, naive]
    assert decode(encode(naive, WHERE)).tzinfo is None
    assert decode(encode(aware, WHERE)).utcoffset() == timedelta(hours=5, minutes=45)


def test_an_exception_comes_back_as_an_exception_with_its_message() -> None:
    back = decode(encode({"error": KeyError("lost")}, WHERE)).error
    assert type(back) is Exception
    assert str(back) == "'lost'"


def test_lone_surrogates_survive_in_texts_keys_and_messages() -> None:
    value = {"a\ud800": ["\udfff", "\\ud83d\ud83d\n", {"plain": "\ud800"}]}
    assert decode(encode(value, WHERE)) == value
    assert str(decode(encode(ValueError("\udc00"), WHERE))) == "\udc00"


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Text("x"), "x"),
        (Number(3), 3),
        (Number(2**70), 2**70),
        (Real(0.5), 0.5),
        (Items([1]), [1]),
        (collections.OrderedDict({"a": 1}), {"a": 1}),
        (collections.defaultdict(int, {"a": 1}), {"a": 1}),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (frozenset({1}), {1}),
    ],
)
def test_a_subclass_comes_back_as_its_base(value: object, base: object) -> None:
    back = decode(encode(value, WHERE))
    assert back == base
    assert type(back) in {type(base), JsDict}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            (1, 2),
            ": a tuple cannot be stored (Cloudflare: \"<class 'tuple'> cannot be sent over RPC.\"); use a list instead",
        ),
        (
            {"items": [1, 2, {"price": (1,)}]},
            " at items[2].price: a tuple cannot be stored (Cloudflare: \"<class 'tuple'> cannot be sent over RPC.\"); use a list instead",
        ),
        (
            [bytearray(b"x")],
            " at [0]: a bytearray cannot be stored (Cloudflare: \"<class 'bytearray'> cannot be sent over RPC.\"); use bytes instead",
        ),
    ],
)
def test_a_refusal_names_the_path_the_type_and_the_way_out(value: object, reason: str) -> None:
    assert refusal(value) == WHERE + reason


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (memoryview(b"x"), "use bytes instead"),
        (Point(1), "use dataclasses.asdict(value) instead"),
        (Model(x=1), "use value.model_dump() instead"),
        (Colour.RED, "use its .value instead"),
        (Level.HIGH, "use its .value instead"),
        (Word.YES, "use its .value instead"),
        (date(2026, 1, 1), "use a datetime or its isoformat() instead"),
        (Decimal("1.5"), "use str(value) instead"),
        (Opaque(), "use None, bool, int, float, str, bytes, datetime, list, dict or set instead"),
        (len, "use None, bool, int, float, str, bytes, datetime, list, dict or set instead"),
        (lambda: 1, "use None, bool, int, float, str, bytes, datetime, list, dict or set instead"),
        (
            KeyboardInterrupt(),
            "use None, bool, int, float, str, bytes, datetime, list, dict or set instead",
        ),
    ],
)
def test_every_refusal_says_what_to_use_instead(value: object, advice: str) -> None:
    message = refusal({"a": value})
    assert message.startswith(f"{WHERE} at a: a")
    assert type(value).__name__ in message
    assert message.endswith(f'cannot be sent over RPC."); {advice}')


def test_a_coroutine_is_refused_with_the_advice_to_await_it() -> None:
    async def forgotten() -> None: ...

    coroutine = forgotten()
    message = refusal({"later": coroutine})
    coroutine.close()
    assert "a coroutine of 'forgotten' cannot be stored" in message
    assert "Awaitable <class 'coroutine'> cannot be sent over RPC." in message
    assert message.endswith("await it first")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a b": {"c": [Opaque()]}}, " at ['a b'].c[0]: "),
        ({1: Opaque()}, " at [1]: "),
        ({"class": Opaque()}, " at class: "),
        ([[Opaque()]], " at [0][0]: "),
        ([1, [2], Opaque()], " at [2]: "),
        ({"key" * 100: Opaque()}, f" at {('key' * 100)[:200]}...: "),
    ],
)
def test_a_path_reads_like_python(value: object, path: str) -> None:
    assert refusal(value).startswith(f"{WHERE}{path}an Opaque cannot be stored")


def test_what_cannot_be_looked_up_again_is_refused_in_sets_and_as_a_key() -> None:
    assert refusal({"tags": {frozenset({1})}}) == (
        f"{WHERE} at tags: a frozenset in a set cannot be stored; use texts or numbers"
    )
    assert refusal({(1, 2): 3}) == (
        f"{WHERE}: a tuple as a key cannot be stored; use texts or numbers"
    )
    assert refusal({ValueError("x")}).startswith(f"{WHERE}: a ValueError in a set")
    assert refusal({Word.YES}).endswith("use its .value instead")


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append({"again": loop})
    assert refusal(loop) == f"{WHERE} at [0].again: a value that contains itself cannot be stored"
    ring: dict[object, object] = {1: "not text"}
    ring["self"] = ring
    assert refusal(ring) == f"{WHERE} at self: a value that contains itself cannot be stored"


def test_a_value_that_is_used_twice_is_stored_twice() -> None:
    shared = {"when": datetime(2026, 1, 1)}
    assert decode(encode([shared, shared], WHERE)) == [shared, shared]


def test_the_deepest_value_is_stored_and_one_level_more_is_refused() -> None:
    deepest = nested_list(MAX_VALUE_DEPTH_LEVELS)
    assert decode(encode(deepest, WHERE)) == deepest
    assert "deeper than 200 levels" in refusal(nested_list(MAX_VALUE_DEPTH_LEVELS + 1))
    assert "deeper than 200 levels" in refusal(nested_list(100_000))


def test_the_deepest_dictionary_is_too_whatever_is_in_it() -> None:
    def nested(levels: int, inside: object) -> object:
        for _ in range(levels):
            inside = {"in": inside}
        return inside

    deepest = nested(MAX_VALUE_DEPTH_LEVELS, b"tagged")
    assert decode(encode(deepest, WHERE)) == deepest
    assert "deeper than 200 levels" in refusal(nested(MAX_VALUE_DEPTH_LEVELS + 1, b"tagged"))
    assert "deeper than 200 levels" in refusal(nested(600, 1))


def test_nested_tags_count_as_the_levels_that_they_take() -> None:
    value: object = 1
    for _ in range(MAX_VALUE_DEPTH_LEVELS // 3):
        value = {1: value}
    assert decode(encode(value, WHERE)) == value
    assert "deeper than" in refusal({1: {1: value}})


@pytest.mark.parametrize(
    ("fits", "bursts"),
    [
        ("x" * MAX_VALUE_BYTES, "x" * (MAX_VALUE_BYTES + 1)),
        ("\n" * MAX_VALUE_BYTES, "\n" * (MAX_VALUE_BYTES + 1)),
        ("\u00e9" * (MAX_VALUE_BYTES // 2), "\u00e9" * (MAX_VALUE_BYTES // 2) + "x"),
        ("\ud800" + "x" * (MAX_VALUE_BYTES - 3), "\ud800" + "x" * (MAX_VALUE_BYTES - 2)),
        (b"x" * MAX_VALUE_BYTES, b"x" * (MAX_VALUE_BYTES + 1)),
        (["x" * (MAX_VALUE_BYTES - 4)], ["x" * (MAX_VALUE_BYTES - 3)]),
    ],
    ids=["ascii", "escaped", "two-byte", "surrogate", "bytes", "list"],
)
def test_one_mebibyte_fits_and_one_byte_more_does_not(fits: object, bursts: object) -> None:
    assert size_bytes(encode(fits, WHERE)) == MAX_VALUE_BYTES
    with pytest.raises(PayloadTooLarge, match="It has 1048577 bytes, 1048576 are allowed"):
        encode(bursts, WHERE)


def test_the_caller_may_begin_the_message_about_the_size() -> None:
    begin = "Step a-1 output is too large. Maximum allowed size is 1MiB."
    with pytest.raises(PayloadTooLarge) as caught:
        encode("x" * 2**21, WHERE, too_large=begin)
    assert caught.value.message == f"{begin} It has 2097152 bytes, 1048576 are allowed."
    with pytest.raises(PayloadTooLarge) as caught:
        encode("x" * 2**21, "the params")
    assert caught.value.message.startswith("the params is too large.")


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], 12, None, "x"])
def test_the_size_of_a_small_value_is_that_of_its_text(value: object) -> None:
    quotes = 2 if isinstance(value, str) else 0
    assert size_bytes(encode(value, WHERE)) == len(stored(value)) - quotes


@pytest.mark.parametrize(
    "text",
    [
        b'{"$":"later","value":1}',
        b'{"$":"bytes"}',
        b'{"$":"bytes","value":"?"}',
        b'{"$":[],"value":1}',
        b'{"$":"set","value":[{}]}',
        b"{",
    ],
)
def test_damaged_text_is_reported_as_a_corrupt_journal(text: bytes) -> None:
    for read in (decode, plain):
        with pytest.raises(JournalCorrupt, match="does not decode"):
            read(msgspec.Raw(text))


def test_a_decoded_value_is_a_copy() -> None:
    original = {"list": [1]}
    payload = encode(original, WHERE)
    original["list"].append(2)
    first, second = decode(payload), decode(payload)
    first["list"].append(3)
    assert second == {"list": [1]}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [1, None, True, 1.5, "x"]}, {"a": [1, None, True, 1.5, "x"]}),
        (b"hello", "[Uint8Array(5 bytes)]"),
        ({1, 2}, {}),
        (ValueError("x"), {}),
        ([math.nan, math.inf, -math.inf], [None, None, None]),
        (2**53 - 1, 2**53 - 1),
        (2**53, "[BigInt(9007199254740992)]"),
        ([1.0, {"a": -(2**53)}], [1.0, {"a": "[BigInt(-9007199254740992)]"}]),
        ({"a": {"b": [b""]}}, {"a": {"b": ["[Uint8Array(0 bytes)]"]}}),
        ("4000123412341234", "4000123412341234"),
        ([0.30000000000000004, 1e300, 10**15], [0.30000000000000004, 1e300, 10**15]),
        (-(2**70), f"[BigInt({-(2**70)})]"),
        ({1: "one"}, {}),
        ({"$": 1}, {"$": 1}),
        (datetime(2026, 1, 2, 3, 4, 5, 678901), "2026-01-02T03:04:05.678Z"),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1))),
            "2026-01-01T23:00:00.000Z",
        ),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "0001-01-01T00:00:00+01:00"),
        ({"\ud800": "a\ud800\U0001f600"}, {"\ufffd": "a\ufffd\U0001f600"}),
    ],
)
def test_the_log_shows_a_value_as_cloudflare_does(value: object, shown: object) -> None:
    assert plain(encode(value, WHERE)) == shown


def test_the_log_shows_an_integer_of_any_length() -> None:
    assert json.dumps(plain(encode(10**5000, WHERE))).startswith('"[BigInt(0x')
    assert decode(encode(10**5000, WHERE)) == 10**5000


def test_the_keys_of_a_js_dict_answer_as_attributes() -> None:
    event = decode(encode({"payload": {"items": [{"id": 7}]}, "instanceId": "i"}, WHERE))
    assert type(event) is JsDict
    assert event.instanceId == "i"
    assert event.payload["items"][0].id == 7
    assert callable(event.payload.items)


def test_a_missing_key_of_a_js_dict_is_a_missing_attribute() -> None:
    with pytest.raises(AttributeError, match="no key 'b'; there are: 'a'"):
        _ = JsDict(a=1).b
    with pytest.raises(AttributeError, match="there are: none"):
        _ = JsDict().b
    assert getattr(JsDict(), "b", "default") == "default"


def test_setting_an_attribute_of_a_js_dict_sets_the_key() -> None:
    value = JsDict()
    value.total = 3
    setattr(value, "items", 4)  # noqa: B010 - a key that is called like a method
    assert dict(value) == {"total": 3, "items": 4}
    assert not callable(value["items"])


def test_a_js_dict_can_be_copied_pickled_and_stored() -> None:
    value = JsDict(a=JsDict(b=[1]), __deepcopy__="a key, not a method")
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert type(twin) is JsDict
        assert twin.a.b == [1]
    assert copy.deepcopy(value).a is not value.a
    assert stored(value) == '{"a":{"b":[1]},"__deepcopy__":"a key, not a method"}'
