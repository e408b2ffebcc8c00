"""What the commands that ask a running emulator have in common on their command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

if TYPE_CHECKING:
    from wrangler_compat.cli.client import Client

DEFAULT_URL = "http://localhost:8787"
OWN_API = "/cdn-cgi/workflow-emulator"
"""Where what Cloudflare does not have is asked for: hooks, streams."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Emulator(NamedTuple):
    """The emulator that a command asks."""

    url: str
    token: str | None

    def connect(self, prefix: str | None = None) -> Client:
        """Make a client, to be used in a `with` block, of the workflows' API unless another is named."""
        from wrangler_compat.cli.client import WORKFLOWS, Client  # httpx takes long to import

        return Client(self.url, self.token, prefix or WORKFLOWS)


def asks_emulator(command: Command) -> Command:
    """Give a command `--url`, `--token` and `--json`, as the parameters `url`, `token` and `as_json`.

    Its arguments are names, which cannot be empty: without one a request would be for something else.
    """
    command = _with_names(command)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it."),
        click.option(
            "--token",
            envvar="WORKFLOW_EMULATOR_API_TOKEN",
            help="The --api-token it was started with; or set WORKFLOW_EMULATOR_API_TOKEN.",
        ),
        click.option(
            "--url",
            envvar="WORKFLOW_EMULATOR_URL",
            default=DEFAULT_URL,
            show_default=True,
            help="Where the emulator is; or set WORKFLOW_EMULATOR_URL.",
        ),
    ):
        command = option(command)
    return command


def _with_names(command: Command) -> Command:
    @wraps(command)
    def checked(**given: Any) -> None:
        for parameter in click.get_current_context().command.params:
            is_name = isinstance(parameter, click.Argument) or parameter.required
            value = given.get(parameter.name or "")
            is_empty = value == "" or (isinstance(value, tuple) and "" in value)
            if is_name and is_empty and parameter.callback is None:
                hint = parameter.get_error_hint(click.get_current_context())
                raise click.ClickException(f"{hint} cannot be empty.")
        command(**given)

    return cast("Command", checked)


def json_value(_: click.Context, parameter: click.Parameter, given: str) -> Any:
    """Parse a JSON value of the command line: the text itself, `@FILE`, or `-` for the standard input.

    Raises:
        ClickException: it is not JSON, or cannot be read.
    """
    return read_json(given, parameter.human_readable_name)


def read_json(given: str, what: str) -> Any:
    """See `json_value`. `what` names it in errors."""
    text = _text_of(given, what)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = json.dumps(error.object[error.start : error.end])
        raise click.ClickException(
            f"{what} has a text that is none in UTF-8: {half[:80]} is half of a character."
        ) from None
    except json.JSONDecodeError as error:
        line = [*text.splitlines(), ""][error.lineno - 1].strip()
        raise click.ClickException(
            f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}: {line[:80]}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{what} is not JSON: {error}") from None
    return value


def _text_of(value: str, what: str) -> str:
    try:
        if value == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if value.startswith("@"):
            return Path(value[1:]).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{what} cannot be read from {value}: {error}") from None
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"there is no {name} in JSON")
