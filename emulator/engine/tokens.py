"""Who holds which token, while a turn decides; and the tokens and ids that nobody has chosen.

Theory of operation
===================
A token has one holder in its scope. The journal knows who that is; when a turn begins, the tokens that its inbox is about
are looked up there, and what the turn decides about them is noted here. Only turns change tokens, so nothing can come
between a look and the commit that rests on it.

A generated token must be the same in every replay and known to nobody else, so it is a keyed hash of what names the hook.
The key is the instance's own, and says nothing of others': it may be given to code that runs elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from emulator.core.inputs import HookRequested, Input, RestartRequested
from emulator.core.state import InstanceState
from emulator.domain.hooks import HookRecord, HookStage, TokenKey
from emulator.domain.instance import Creation, scope_of
from emulator.domain.steps import StepKey

_TOKEN_BYTES = 18
_ID_BYTES = 15


class KnownHook(NamedTuple):
    """What the journal has of a hook."""

    hook_id: str
    token: str


class TokenMaker:
    """Makes tokens and ids of hooks out of a secret."""

    def __init__(self, seed: str) -> None:
        self._seed = seed.encode()

    def secret(self, creation: Creation) -> str:
        """The secret of one instance, out of which its own are made."""
        named = (creation.workflow, creation.id, str(creation.created_ms))
        return hmac.digest(self._seed, "\0".join(named).encode(), hashlib.sha256).hex()

    def names(self, state: InstanceState) -> HookNames:
        """All that names the hooks of one instance."""
        known = {
            hook.step.label: KnownHook(hook.hook_id, hook.token)
            for hook in state.hooks.values()
            if state.hook_of(hook.step) is hook
        }
        return HookNames(self.secret(state.creation), known)

    def token(self, creation: Creation, step: StepKey) -> str:
        """A token of 24 characters that cannot be guessed."""
        return HookNames(self.secret(creation)).token(step)

    def hook_id(self, creation: Creation, step: StepKey) -> str:
        """The id of a hook."""
        return HookNames(self.secret(creation)).hook_id(step)


class HookNames(msgspec.Struct, frozen=True):
    """The tokens and ids of the hooks of one instance: what the journal has for a step, by its label, or a new one."""

    secret: str
    known: dict[str, KnownHook] = {}

    def token(self, step: StepKey) -> str:
        """The token of the hook that a step opens, if none is given."""
        if step.label in self.known:
            return self.known[step.label].token
        return urlsafe_b64encode(self._digest("token", step)[:_TOKEN_BYTES]).decode()

    def hook_id(self, step: StepKey) -> str:
        """The id of the hook that a step opens."""
        if step.label in self.known:
            return self.known[step.label].hook_id
        return "hook_" + b32encode(self._digest("id", step)[:_ID_BYTES]).decode().lower()

    def _digest(self, kind: str, step: StepKey) -> bytes:
        return hmac.digest(self.secret.encode(), f"{kind}\0{step.label}".encode(), hashlib.sha256)


class Holders:
    """The holders of the tokens that a turn is about, as the decisions so far have it."""

    def __init__(self, found: dict[TokenKey, HookRecord]) -> None:
        self._found = found

    def of(self, token: TokenKey) -> HookRecord | None:
        """Who holds a token, or held it last."""
        return self._found.get(token)

    def note(self, hooks: Iterable[HookRecord]) -> None:
        """A decision has changed these hooks."""
        for hook in hooks:
            former = self._found.get(hook.key)
            if former is None or former.hook_id == hook.hook_id or not _is_released(hook):
                self._found[hook.key] = hook

    def tell(self, state: InstanceState, item: Input) -> Input:
        """Give an input that needs to know them the holders of its tokens."""
        if isinstance(item, HookRequested):
            token = TokenKey(scope_of(state.creation.id), item.hook.token)
            return replace(item, holder=self.of(token))
        if isinstance(item, RestartRequested) and state.hooks:
            found = [self.of(token) for token in tokens_of(state)]
            return replace(item, holders=tuple(each for each in found if each is not None))
        return item


def tokens_of(state: InstanceState) -> set[TokenKey]:
    """The tokens that an instance holds, or has held."""
    scope = scope_of(state.creation.id)
    return {TokenKey(scope, hook.token) for hook in state.hooks.values()}


def _is_released(hook: HookRecord) -> bool:
    return hook.stage is HookStage.RELEASED
