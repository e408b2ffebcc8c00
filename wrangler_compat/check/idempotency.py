"""A step may run more than once: what it asks of others has a key by which they know it again.

Heuristics, to be right rather than complete. Looked at are the calls in steps that may be tried again (whose `retries.limit` is not 0),
and in the functions of the module that they use. A call counts if it is named like a payment (`charge`, `create_refund`,
`PaymentIntent.create`), or is an HTTP POST to an address that is; where the step's config asks for retries, also if it is named like
a message (`send_email`). It has a key if an argument is named like one, is a header like one, or is made of the instance's id; a message
also if it carries an id that is not that of a person or a place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.declarations import limit_of
from wrangler_compat.check.effects import binding_of
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.literals import UNKNOWN
from wrangler_compat.check.scopes import Scope

_MONEY: Final = frozenset(
    {"charge", "pay", "refund", "payout", "transfer", "withdraw", "debit", "purchase"}
)
_MAIL: Final = frozenset({"send", "mail", "email", "notify", "sms"})
_MAKING: Final = frozenset({"create", "make", "issue", "submit", "process", "capture", "do"})
_PAYMENTS: Final = _MONEY | {"payment", "charges", "payments", "refunds", "payouts", "transfers"}
_ADDRESSES: Final = re.compile(
    r"\b(charges?|pay|payments?|payouts?|refunds?|transfers?|invoices?|orders?)\b", re.IGNORECASE
)
_KEY: Final = re.compile(
    r"idempoten|dedup|nonce|instance_?id|request_?id|transaction_?id|reference"
    r"|(?<!api_)(?<!access_)(?<!secret_)(?<!public_)(?<!private_)(?<![a-z])key$",
    re.IGNORECASE,
)
_ID: Final = re.compile(r"(?<![a-z])id$|[a-z]Id$|_id$")
_OF_A_PLACE: Final = re.compile(
    r"(user|customer|account|card|chat|channel|merchant|recipient|template|team|owner)_?id$",
    re.IGNORECASE,
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NO_MESSAGES: Final = {"send_event", "sendEvent"}


def effects_have_keys(code: Code) -> Iterator[Breach]:
    """WF012: a step charges, pays or sends without an idempotency key."""
    for scope in code.step_code:
        limit = _limit(code, scope)
        for node in scope.nodes:
            if limit == 0 or not isinstance(node, ast.Call) or scope.function(node.func):
                continue  # the body of a function of the module is looked at instead
            is_payment = _is_payment(code, node, scope)
            is_message = _is_number(limit) and _first_word(node) in _MAIL
            if not (is_payment or is_message) or _has_key(node, scope, is_message=is_message):
                continue
            yield Breach(
                node,
                "WF012",
                f"`{ast.unparse(node.func)}` has no idempotency key: when the step is tried again, "
                "or the process dies before its result is stored, it happens twice.",
            )


def _limit(code: Code, scope: Scope) -> object:
    """`retries.limit` of the step that a scope is code of, if it is written out."""
    declared = next((code.steps[one] for one in scope.around() if one in code.steps), None)
    return limit_of(declared, scope) if declared else UNKNOWN


def _is_number(limit: object) -> bool:
    return isinstance(limit, int | float)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _split(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _first_word(call: ast.Call) -> str:
    name = _name(call.func)
    return "" if name in _NO_MESSAGES or name[:1].isupper() else (_split(name) or [""])[0]


def _is_payment(code: Code, call: ast.Call, scope: Scope) -> bool:
    first = _first_word(call)
    if first in _MONEY or (first in _MAKING and _PAYMENTS & {*_split(_name(call.func))}):
        return True
    if first == "create" and isinstance(call.func, ast.Attribute):
        target = call.func.value  # of a client of payments, not of a workflow's binding
        return bool(_PAYMENTS & {*_split(_name(target))}) and not binding_of(code, target, scope)
    is_post = bool(call.args) and _is_post(code, call, _name(call.func))
    return is_post and _ADDRESSES.search(_text(call.args[0])) is not None


def _is_post(code: Code, call: ast.Call, name: str) -> bool:
    if name == "post":
        return True
    methods = [word.value for word in call.keywords if word.arg == "method"]
    methods += [value for node in call.args[1:] for value in _values_of(node, "method")]
    is_post = any(isinstance(m, ast.Constant) and str(m.value).upper() == "POST" for m in methods)
    return is_post and code.dotted(call.func).rpartition(".")[2] in {"fetch", "pyfetch"}


def _values_of(node: ast.expr, wanted: str) -> Iterator[ast.expr]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == wanted:
                yield value


def _text(expression: ast.expr) -> str:
    """The constant parts of a text."""
    constants = (node for node in ast.walk(expression) if isinstance(node, ast.Constant))
    return " ".join(constant.value for constant in constants if isinstance(constant.value, str))


def _has_key(call: ast.Call, scope: Scope, *, is_message: bool) -> bool:
    given = [*call.args, *(word.value for word in call.keywords)]
    names = [word.arg for word in call.keywords if word.arg]
    if any(word.arg is None for word in call.keywords) or any(_is_starred(a) for a in call.args):
        return True  # what is in them is not known
    for argument in given:
        names += _names(argument, scope, 0)
    has_key = any(_KEY.search(name) for name in names)
    has_id = is_message and any(_ID.search(name) and not _OF_A_PLACE.search(name) for name in names)
    # A text made of an id, such as f"{order_id}/charge", is made to be a key.
    return has_key or has_id or any(_is_made_of_id(argument) for argument in call.args)


def _is_starred(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Starred)


def _is_made_of_id(argument: ast.expr) -> bool:
    match argument:
        case ast.JoinedStr(values=[ast.Constant(value=str(begin)), *_]) if begin.startswith(
            ("http", "/")
        ):
            return False  # an address
        case ast.JoinedStr():
            return any(map(_ID.search, _words(argument)))
        case _:
            return False


def _names(expression: ast.expr, scope: Scope, depth: int) -> list[str]:
    """The words in an argument, and in the variable that it is."""
    names = [*_words(expression)]
    if isinstance(expression, ast.Name) and depth < 2:
        binding = scope.binding(expression.id)
        if binding and binding.value and not binding.is_part:
            names += _names(binding.value, scope, depth + 1)
    elif isinstance(expression, ast.Dict):
        for value in expression.values:
            names += _names(value, scope, depth + 1)
    return names


def _words(expression: ast.expr) -> Iterator[str]:
    for node in ast.walk(expression):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)) if len(name) < 40:
                yield name.replace("-", "_")
            case _:
                pass
