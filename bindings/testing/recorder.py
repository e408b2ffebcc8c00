"""Side effects, as a simulation sees them: what was called, by which step, with which idempotency key.

An effect with a key may happen twice: the service knows the second call for a repetition. One without may not, and a
step can run twice (its process may die between the call and the storing of the result).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

EFFECTS: Final = frozenset({
    "charge", "pay", "refund", "payout", "transfer", "withdraw", "debit", "purchase", "capture", "book", "order",
    "create", "send", "mail", "email", "notify", "sms", "publish", "enqueue", "post",
})  # fmt: skip
"""First words of methods whose call is a side effect that must not happen twice."""

_KEY: Final = re.compile(r"idempoten|dedup|nonce|reference|(^|_|-)(key|id)$", re.IGNORECASE)
"""Names of parameters, and of keys of dictionaries such as headers, that make a repeated call harmless."""

_OF_SOMEBODY: Final = re.compile(
    r"(user|customer|account|card|chat|channel|merchant|recipient|template|team|owner)_?id$"
    r"|(api|access|secret|public|private)_key$",
    re.IGNORECASE,
)
"""Names that look like such a key, and are the same for many calls."""

_PLAIN: Final = (str, bytes, int, float, bool, type(None), Mapping, list, tuple, set)


class Call(NamedTuple):
    """Who is calling: a step (None: `run()` itself), in which attempt or life."""

    step: str | None
    attempt: object


class Effect(NamedTuple):
    """A side effect: what, under which key (None: without), and by whom."""

    name: str
    key: str | None
    call: Call


CALLING: ContextVar[Call] = ContextVar("calling", default=Call(None, None))  # noqa: B039 - immutable
"""Who is calling, in a simulation."""


class Repeated(NamedTuple):
    """A side effect that happened again, and should not have: the code of the finding, by which step, and a sentence."""

    code: str
    step: str | None
    name: str
    sentence: str


def repeated(effects: Iterable[Effect]) -> Iterator[Repeated]:
    """What several attempts of a step, or several lives of `run()`, have done, without a key that stays the same."""
    by_caller: dict[tuple[str | None, str], dict[object, list[str | None]]] = {}
    for name, key, (step, attempt) in effects:
        by_caller.setdefault((step, name), {}).setdefault(attempt, []).append(key)
    for (step, name), attempts in by_caller.items():
        first, *others = attempts.values()
        if not others:
            continue
        if any(None in keys for keys in attempts.values()):
            if step is None:
                sentence = f"{name} ran {len(attempts)} times: run() calls it outside a step"
                yield Repeated("outside-step", step, name, sentence)
            else:
                sentence = f'{name} ran in {len(attempts)} attempts of "{step}", without an idempotency key'
                yield Repeated("runs-twice", step, name, sentence)
        elif any(first[at] != key for keys in others for at, key in enumerate(keys[: len(first)])):
            where = "life of run()" if step is None else f'attempt of "{step}"'
            sentence = f"{name} had a new idempotency key in each {where}"
            yield Repeated("key-changes", step, name, sentence)


class Recorder:
    """Takes down side effects. Call it from your fakes: `recorder.call("charge", key=order_id)`."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def call(self, name: str, *, key: object = None) -> None:
        """Say that a side effect happens now. `key` is the idempotency key that the service was given."""
        self.effects.append(Effect(name, None if key is None else repr(key), CALLING.get()))

    def watch(self, fake: object, name: str) -> Any:
        """Stand in for a fake. A call of a method is a side effect if its name begins with a word of `EFFECTS`."""
        return _Watched(fake, name, self)


class WatchedEnv:
    """An `env` whose fakes are watched."""

    def __init__(self, env: object, recorder: Recorder) -> None:
        self._env = env
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._env, name)
        return self._recorder.watch(value, name) if _acts(value) else value


class GivenEnv:
    """An `env` of a dictionary's items, by attribute."""

    def __init__(self, items: Mapping[str, object]) -> None:
        self._items = items

    def __getattr__(self, name: str) -> Any:
        if name not in self._items:
            raise AttributeError(f"env has no {name!r}; give it to simulate(env=…)")
        return self._items[name]


def _acts(value: object) -> bool:
    return not isinstance(value, _PLAIN)


class _Watched:
    """A fake, or one of its functions."""

    def __init__(self, fake: object, name: str, recorder: Recorder) -> None:
        self._fake: Any = fake
        self._name = name
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._fake, name)
        if not callable(value) or re.split("[_A-Z]", name)[0] not in EFFECTS:
            return value
        return _Watched(value, f"{self._name}.{name}", self._recorder)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        key = _key(_arguments(self._fake, args, keywords).items())
        self._recorder.call(self._name, key=key)
        return self._fake(*args, **keywords)


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*args, **keywords).arguments)
    except (TypeError, ValueError):
        return {**{str(place): value for place, value in enumerate(args)}, **keywords}


def _key(named: Iterable[tuple[object, Any]]) -> Any:
    """The idempotency key among arguments, however deep in dictionaries and lists."""
    for name, value in named:
        if isinstance(value, Mapping):
            found = _key(cast("Mapping[object, Any]", value).items())
        elif isinstance(value, list | tuple):
            found = _key(enumerate(cast("Sequence[Any]", value)))
        else:
            is_key = _KEY.search(str(name)) and not _OF_SOMEBODY.search(str(name))
            found = value if is_key else None
        if found is not None:
            return found
    return None
