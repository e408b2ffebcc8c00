"""What the world sees happens in steps; a replay would do it again.

Reported outside steps: calls over the network, writes to files, awaited calls on `env`, and what creates or changes instances. Not
reported: `print` and logging, which a replay merely repeats; reading files; and `env.X.get(...)`, which finds an instance.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from wrangler_compat.check.code import Code
from wrangler_compat.check.finding import Breach
from wrangler_compat.check.scopes import Scope

_NETWORK: Final = frozenset(
    f"{module}.{name}"
    for module, names in {
        "requests": "get post put patch delete head request",
        "httpx": "get post put patch delete head request stream",
        "urllib.request": "urlopen urlretrieve",
        "workers": "fetch",
        "js": "fetch",
        "pyodide.http": "pyfetch open_url",
        "subprocess": "run call check_call check_output Popen",
        "shutil": "copy copyfile copytree move rmtree",
        "os": "remove unlink rename replace makedirs mkdir rmdir system",
    }.items()
    for name in names.split()
)
_CLIENTS: Final = {
    "requests.Session",
    "requests.session",
    "httpx.Client",
    "httpx.AsyncClient",
    "aiohttp.ClientSession",
}
_VERBS: Final = {"get", "post", "put", "patch", "delete", "head", "request", "send", "stream"}
_WRITING: Final = {"write_text", "write_bytes"}
_CREATING: Final = {"create", "create_batch", "createBatch", "delete_batch", "deleteBatch"}
_SENDING: Final = {"send_event", "sendEvent"}
_STEERING: Final = {"pause", "resume", "restart", "terminate", "delete"}
_READING: Final = {"get", "status"}
_SLEEPING: Final = {"asyncio.sleep", "time.sleep", "anyio.sleep"}

_LIMITING: Final = {
    "asyncio.timeout",
    "asyncio.timeout_at",
    "asyncio.wait_for",
    "anyio.fail_after",
    "anyio.move_on_after",
}


def effects_are_in_steps(code: Code) -> Iterator[Breach]:
    """WF006, WF007, WF008."""
    for scope in code.workflow_code:
        for node in scope.nodes:
            if isinstance(node, ast.Call) and (breach := _effect(code, node, scope)):
                yield breach


def _effect(code: Code, call: ast.Call, scope: Scope) -> Breach | None:
    name = code.dotted(call.func)
    if name in _SLEEPING and not _is_yield(call):
        return Breach(
            call,
            "WF008",
            f"`{name}` does not survive a restart and begins anew on every replay; use `await step.sleep(...)`.",
        )
    if name in _LIMITING and not _is_unlimited(call, name):
        return Breach(
            call,
            "WF008",
            f"`{name}` begins anew on every replay, which may find the result that the code had given up; wait for the "
            "step beside a `step.sleep(...)`, or give it a `timeout` of its own.",
        )
    if verb := _steering(code, call, scope):
        return Breach(
            call,
            "WF007",
            f"`{verb}` is called outside a step, so every replay calls it again; move it into a step.",
        )
    if what := _outside_call(code, call, name, scope):
        return Breach(
            call,
            "WF006",
            f"`{what}` acts outside a step, so every replay does it again; move it into a step.",
        )
    return None


def _is_yield(call: ast.Call) -> bool:
    """`asyncio.sleep(0)` waits for nothing."""
    return any(isinstance(argument, ast.Constant) and not argument.value for argument in call.args)


def _is_unlimited(call: ast.Call, name: str) -> bool:
    """`asyncio.timeout(None)` never comes."""
    limits = call.args[1:] if name == "asyncio.wait_for" else call.args
    limits = [*limits, *(each.value for each in call.keywords)]
    return bool(limits) and all(
        isinstance(each, ast.Constant) and each.value is None for each in limits
    )


def _steering(code: Code, call: ast.Call, scope: Scope) -> str | None:
    """The verb, if the call creates or changes an instance."""
    if not isinstance(call.func, ast.Attribute):
        return None
    verb, target = call.func.attr, call.func.value
    if verb in _SENDING and not code.is_handle(target):
        return verb
    if verb in _CREATING and binding_of(code, target, scope):
        return verb
    if verb in _STEERING and is_instance(code, target, scope):
        return verb
    return None


def _outside_call(code: Code, call: ast.Call, name: str, scope: Scope) -> str | None:
    if name in _NETWORK and scope.home(name.partition(".")[0]) is not scope:
        return name
    if name == "open" and scope.home("open") is None and _opens_for_writing(call):
        return "open"
    if not isinstance(call.func, ast.Attribute):
        return None
    verb, target = call.func.attr, call.func.value
    if verb in _WRITING:
        return verb
    if verb in _VERBS and _is_client(code, target, scope):
        return f"{ast.unparse(target)}.{verb}"
    acts = code.is_awaited(call) or isinstance(code.parent(call), ast.Expr)
    if acts and verb not in _READING and (binding := binding_of(code, target, scope)):
        return f"{binding}.{verb}"
    return None


def _opens_for_writing(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and set(mode.value) & set("wax+")
        for mode in modes
    )


def _is_client(code: Code, target: ast.expr, scope: Scope) -> bool:
    value = target
    if isinstance(target, ast.Name):
        binding = scope.binding(target.id)
        value = binding.value if binding and binding.value else target
    return isinstance(value, ast.Call) and code.dotted(value.func) in _CLIENTS


def binding_of(code: Code, target: ast.expr, scope: Scope) -> str | None:
    """`env.X`, if a call's target is a binding, a variable that holds one, or a chain of calls on one."""
    match target:
        case ast.Attribute(value=env) if _is_env(env):
            return f"env.{target.attr}"
        case ast.Call(func=ast.Attribute(value=inner)):
            return binding_of(code, inner, scope)
        case ast.Name(id=name):
            known = scope.binding(name)
            if known and isinstance(known.value, ast.Attribute) and not known.is_part:
                return binding_of(code, known.value, scope)
            return None
        case _:
            return None


def is_instance(code: Code, target: ast.expr, scope: Scope) -> bool:
    """Whether an expression is the handle of an instance: what `create` or `get` of a binding gave."""
    match target:
        case ast.Await(value=ast.Call(func=ast.Attribute(value=binding, attr="create" | "get"))):
            return binding_of(code, binding, scope) is not None
        case ast.Name(id=name):
            known = scope.binding(name)
            is_whole = known and known.value and not known.is_part
            return bool(is_whole) and is_instance(code, known.value, scope)  # pyright: ignore[reportOptionalMemberAccess, reportArgumentType]
        case _:
            return False


def _is_env(expression: ast.expr) -> bool:
    match expression:
        case ast.Name(id="env") | ast.Attribute(value=ast.Name(id="self"), attr="env"):
            return True
        case _:
            return False
