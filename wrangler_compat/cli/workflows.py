"""`workflow-emulator workflows`: ask a running emulator for its workflows (Cloudflare: wrangler, workflows)."""

from __future__ import annotations

import json
from typing import Any

import click

from wrangler_compat.cli.client_options import Emulator, asks_emulator, json_value
from wrangler_compat.cli.following import follow
from wrangler_compat.cli.instances import instances
from wrangler_compat.cli.wording import pretty


@click.group(short_help="Ask for workflows and instances.")
def workflows() -> None:
    """Ask a running emulator for its workflows and instances."""


workflows.add_command(instances)


@workflows.command("list")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--per-page", type=click.IntRange(1, 100), help="Rows of a page.  [default: 25]")
@asks_emulator
def list_workflows(
    page: int, per_page: int | None, url: str, token: str | None, as_json: bool
) -> None:
    """List the workflows."""
    with Emulator(url, token).connect() as client:
        rows, _ = client.page(query={"page": page, "per_page": per_page})
    if as_json:
        click.echo(pretty(rows))
        return
    from wrangler_compat.cli.describing import show_table

    show_table(
        ("Name", "Class", "Script", "Instances"),
        (
            (
                each["name"],
                each["class_name"],
                each["script_name"],
                str(sum(each["instances"].values())),
            )
            for each in rows
        ),
    )


@workflows.command(short_help="Tell what is known of a workflow.")
@click.argument("workflow")
@asks_emulator
def describe(workflow: str, url: str, token: str | None, as_json: bool) -> None:
    """Tell what is known of WORKFLOW, and how many instances it has."""
    with Emulator(url, token).connect() as client:
        found = client.ask("GET", workflow)
    if as_json:
        click.echo(pretty(found))
        return
    from wrangler_compat.cli.describing import show_workflow

    show_workflow(found)


@workflows.command()
@click.argument("workflow")
@click.argument("params", callback=json_value, default="{}")
@click.option("--id", "instance_id", help="The id of the instance.  [default: one is made up]")
@click.option(
    "--hook", help="A token that it holds from the start; if it is taken, nothing happens."
)
@click.option(
    "--min-retention", help='For how long the token stays taken at least, such as "1 day".'
)
@click.option("--follow", "follows", is_flag=True, help="Watch the instance until it ends.")
@asks_emulator
def trigger(
    workflow: str,
    params: Any,
    instance_id: str | None,
    hook: str | None,
    min_retention: str | None,
    follows: bool,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Create an instance of WORKFLOW.

    PARAMS is JSON, @FILE, or - for the standard input. --follow exits with 0 when the instance has completed, 1 when it
    has errored, 3 when it was terminated.
    """
    # The API takes a text as JSON, for the sake of the SDK; so a text is sent as JSON.
    body = {"params": json.dumps(params) if isinstance(params, str) else params}
    options = {"instance_id": instance_id, "hook": hook, "min_retention": min_retention}
    body |= {name: value for name, value in options.items() if value is not None}
    with Emulator(url, token).connect() as client:
        made = client.ask("POST", workflow, "instances", body=body)
        created = f'Created instance "{made["id"]}" of "{workflow}".'
        if follows:
            click.echo(created, err=as_json)
            follow(client, workflow, made["id"], as_json=as_json)
    click.echo(pretty(made) if as_json else created)


@workflows.command(short_help="Delete all instances of a workflow.")
@click.argument("workflow")
@asks_emulator
def delete(workflow: str, url: str, token: str | None, as_json: bool) -> None:
    """Delete all instances of WORKFLOW, whatever they do. The workflow itself is in the wrangler file, and stays."""
    with Emulator(url, token).connect() as client:
        answer = client.ask("DELETE", workflow)
    click.echo(pretty(answer) if as_json else f'Deleted all instances of "{workflow}".')
