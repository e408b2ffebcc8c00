"""`workflow-emulator hooks`: ask a running emulator for the tokens that instances hold, and send payloads to them."""

from __future__ import annotations

from typing import Any, Final

import click

from wrangler_compat.cli.client_options import OWN_API, Emulator, asks_emulator, json_value
from wrangler_compat.cli.wording import Json, pretty

_PAGE_ROWS: Final = 100


@click.group(short_help="Ask for hooks, and resume them.")
def hooks() -> None:
    """Ask for hooks: tokens that instances hold, and through which payloads reach them."""


@hooks.command("list", short_help="List the hooks.")
@click.option("--workflow", help="Only those of this workflow.")
@click.option("--id", "instance_id", help="Only those of instances with this id.")
@asks_emulator
def list_hooks(
    workflow: str | None, instance_id: str | None, url: str, token: str | None, as_json: bool
) -> None:
    """List the hooks whose tokens are taken, the oldest first."""
    rows: list[Json] = []
    query = {"workflow": workflow, "instance_id": instance_id, "per_page": _PAGE_ROWS}
    with Emulator(url, token).connect(OWN_API) as client:
        cursor: str | None = ""
        while cursor is not None:
            page, info = client.page("hooks", query=query | {"cursor": cursor or None})
            rows += page
            cursor = info.get("cursor")
    if as_json:
        click.echo(pretty(rows))
        return
    if not rows:
        click.echo("There are no such hooks.", err=True)
        return
    from wrangler_compat.cli.describing import show_hooks

    show_hooks(rows)


@hooks.command()
@click.argument("hook_token", metavar="TOKEN")
@asks_emulator
def get(hook_token: str, url: str, token: str | None, as_json: bool) -> None:
    """Show the hook that holds TOKEN."""
    with Emulator(url, token).connect(OWN_API) as client:
        found = client.ask("GET", "hooks", hook_token)
    if as_json:
        click.echo(pretty(found))
        return
    from wrangler_compat.cli.describing import show_hook

    show_hook(found)


@hooks.command(short_help="Send a payload to the holder of TOKEN.")
@click.argument("hook_token", metavar="TOKEN")
@click.argument("payload", callback=json_value, default="null")
@click.option("--resume-id", help="Requests with the same id and payload are one.")
@asks_emulator
def resume(
    hook_token: str,
    payload: Any,
    resume_id: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Send PAYLOAD to the instance that holds TOKEN.

    PAYLOAD is JSON, @FILE, or - for the standard input; null if there is none.
    """
    headers = {} if resume_id is None else {"idempotency-key": resume_id}
    body = {"token": hook_token, "payload": payload}
    with Emulator(url, token).connect(OWN_API) as client:
        answer = client.ask("POST", "hooks", "resume", body=body, headers=headers)
    click.echo(pretty(answer) if as_json else f'Sent the payload to "{answer["runId"]}".')
