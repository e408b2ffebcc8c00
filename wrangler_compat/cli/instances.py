"""`workflow-emulator workflows instances`: ask a running emulator for instances (Cloudflare: wrangler, workflows instances)."""

from __future__ import annotations

import sys
from typing import Any

import click

from emulator.domain.names import check_event_type
from emulator.domain.status import TERMINAL, InstanceStatus
from emulator.domain.steps import CLOUDFLARE_KINDS
from emulator.errors import InvalidEventType
from wrangler_compat.cli.client_options import OWN_API, Emulator, asks_emulator, json_value
from wrangler_compat.cli.following import follow
from wrangler_compat.cli.wording import Json, compact, pretty


@click.group(short_help="Ask for the instances of a workflow.")
def instances() -> None:
    """Ask for the instances of a workflow. `latest` is the id of the newest one."""


@instances.command("list", short_help="List the instances of a workflow.")
@click.argument("workflow")
@click.option("--status", type=click.Choice([each.value for each in InstanceStatus]))
@click.option("--reverse", is_flag=True, help="The oldest first.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--per-page", type=click.IntRange(1, 100), help="Rows of a page.  [default: 25]")
@click.option("--date-start", help="Created then or later: 2026-11-30T12:00:00Z.")
@click.option("--date-end", help="Created then or earlier.")
@click.option(
    "--attribute",
    "attributes",
    metavar="NAME=VALUE",
    multiple=True,
    help="That have it; repeatable.",
)
@asks_emulator
def list_instances(
    workflow: str,
    status: str | None,
    reverse: bool,
    page: int,
    per_page: int | None,
    date_start: str | None,
    date_end: str | None,
    attributes: tuple[str, ...],
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """List the instances of WORKFLOW, the newest first."""
    query = {
        "status": status,
        "direction": "asc" if reverse else None,
        "page": page,
        "per_page": per_page,
        "date_start": date_start,
        "date_end": date_end,
        "attribute": attributes or None,
    }
    with Emulator(url, token).connect() as client:
        rows, info = client.page(workflow, "instances", query=query)
    if as_json:
        click.echo(pretty(rows))
        return
    total, pages = info["total_count"], info["total_pages"]
    if not total:
        click.echo(f'The workflow "{workflow}" has no such instances.', err=True)
    elif not rows:
        click.echo(
            f"There is no page {page}, but {_count(pages, 'page')}: {_count(total, 'instance')} in all.",
            err=True,
        )
    else:
        _show(rows)
        if pages > 1:
            click.echo(f"Page {page} of {pages}, {total} instances in all.", err=True)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s'[: number != 1]}"


def _show(rows: list[Json]) -> None:
    from wrangler_compat.cli.describing import show_table
    from wrangler_compat.cli.wording import when

    headings = ("Id", "Status", "Created", "Ended", "Trigger")
    show_table(
        headings,
        (
            (
                each["id"],
                each["status"],
                when(each["created_on"]),
                each["ended_on"] and when(each["ended_on"]),
                each["trigger_source"],
            )
            for each in rows
        ),
    )


@instances.command()
@click.argument("workflow")
@click.argument("instance_id", metavar="ID", default="latest")
@click.option("--follow", "follows", is_flag=True, help="Watch it until it ends.")
@asks_emulator
def describe(
    workflow: str, instance_id: str, follows: bool, url: str, token: str | None, as_json: bool
) -> None:
    """Show an instance and its steps.

    --follow exits with 0 when the instance has completed, 1 when it has errored, 3 when it was terminated.
    """
    with Emulator(url, token).connect() as client:
        known = client.resolve(workflow, instance_id)
        if follows:
            follow(client, workflow, known, as_json=as_json)
        detail = client.detail(workflow, known)
    if as_json:
        click.echo(pretty(detail))
        return
    from wrangler_compat.cli.describing import show_instance

    with Emulator(url, token).connect(OWN_API) as client:
        hooks = client.ask("GET", workflow, "instances", known, "hooks")
    show_instance(workflow, known, detail, hooks)


@instances.command(short_help="Send an event to an instance.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@click.option("--type", "event_type", required=True, help="What the workflow waits for.")
@click.option(
    "--payload", callback=json_value, default="{}", help="JSON, @FILE, or - for the standard input."
)
@asks_emulator
def send_event(
    workflow: str,
    instance_id: str,
    event_type: str,
    payload: Any,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Send an event to an instance. It is kept until a wait takes it."""
    with Emulator(url, token).connect() as client:
        known = client.resolve(workflow, instance_id)
        _check_type(event_type)
        status = client.ask("GET", workflow, "instances", known)["status"]
        if status in TERMINAL:
            # The API says yes, as Cloudflare's local one does, and the event is nowhere.
            raise click.ClickException(f'"{known}" has ended ({status}), and takes no events.')
        answer = client.ask(
            "POST", workflow, "instances", known, "events", event_type, body=payload
        )
    click.echo(pretty(answer) if as_json else f'Sent the event "{event_type}" to "{known}".')


def _check_type(event_type: str) -> None:
    """The API takes events of any type, as Cloudflare's local one does; no wait does."""
    try:
        check_event_type(event_type)
    except InvalidEventType as error:
        raise click.ClickException(f"The type {event_type!r}: {error}") from None


@instances.command(short_help="Pause an instance.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@asks_emulator
def pause(workflow: str, instance_id: str, url: str, token: str | None, as_json: bool) -> None:
    """Pause an instance, after the attempts that are under way. One that has ended stays as it is."""
    _pause_or_resume(Emulator(url, token), workflow, instance_id, "pause", as_json=as_json)


@instances.command(short_help="Let a paused instance go on.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@asks_emulator
def resume(workflow: str, instance_id: str, url: str, token: str | None, as_json: bool) -> None:
    """Let a paused instance go on. One that is not paused stays as it is."""
    _pause_or_resume(Emulator(url, token), workflow, instance_id, "resume", as_json=as_json)


@instances.command(short_help="Run an instance again.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@click.option("--from-step-name", help="Keep the results of the steps before this one.")
@click.option(
    "--from-step-count", type=click.IntRange(min=1), help="Which step of that name.  [default: 1]"
)
@click.option(
    "--from-step-type",
    type=click.Choice([each.value for each in CLOUDFLARE_KINDS]),
    help="Of which type that step is.  [default: do]",
)
@asks_emulator
def restart(
    workflow: str,
    instance_id: str,
    from_step_name: str | None,
    from_step_count: int | None,
    from_step_type: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Run an instance again, whatever its status, from the beginning or from a step."""
    step = {"name": from_step_name, "count": from_step_count, "type": from_step_type}
    given = {key: value for key, value in step.items() if value is not None}
    if given and from_step_name is None:
        raise click.UsageError("--from-step-count and --from-step-type need --from-step-name.")
    body: Json = {"status": "restart"} | ({"from": given} if given else {})
    _change(Emulator(url, token), workflow, instance_id, body, as_json=as_json)


@instances.command()
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@click.option("--rollback", is_flag=True, help="Run the rollback handlers of its steps first.")
@click.option("--reason", help="What its history says of it.")
@asks_emulator
def terminate(
    workflow: str,
    instance_id: str,
    rollback: bool,
    reason: str | None,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """End an instance."""
    body: Json = {"status": "terminate"} | ({"rollback": True} if rollback else {})
    body |= {} if reason is None else {"reason": reason}
    _change(Emulator(url, token), workflow, instance_id, body, as_json=as_json)


@instances.command("terminate-all", short_help="End all unfinished instances.")
@click.argument("workflow")
@click.option(
    "--status",
    type=click.Choice([each.value for each in InstanceStatus if each not in TERMINAL]),
    help="Only those with this status.",
)
@asks_emulator
def terminate_all(
    workflow: str, status: str | None, url: str, token: str | None, as_json: bool
) -> None:
    """End every instance of WORKFLOW that has not ended. Nothing is rolled back."""
    with Emulator(url, token).connect() as client:
        before: dict[str, int] = client.ask("GET", workflow)["instances"]
        query = {"status": status}
        answer = client.ask("PUT", workflow, "instances", "terminate", query=query)
    which = "unfinished" if status is None else status
    wanted = [each for each in before if each not in TERMINAL and status in (None, each)]
    if as_json:
        click.echo(pretty(answer))
    elif answer["status"] == "ok":
        number = _count(sum(before[each] for each in wanted), f"{which} instance")
        click.echo(f'Ended {number} of "{workflow}".')
    else:
        click.echo(f'The {which} instances of "{workflow}" are being ended already.')


@instances.command("wake-up", short_help="End the sleeps of an instance now.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@click.argument("steps", metavar="[STEP]...", nargs=-1)
@asks_emulator
def wake_up(
    workflow: str,
    instance_id: str,
    steps: tuple[str, ...],
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """End the sleeps of an instance now: all, or those of these names with their number, such as "nap-1"."""
    emulator = Emulator(url, token)
    with emulator.connect() as client:
        known = client.resolve(workflow, instance_id)
    body: Json = {"correlationIds": steps} if steps else {}
    with emulator.connect(OWN_API) as client:
        answer = client.ask("POST", workflow, "instances", known, "wake-up", body=body)
    count: int = answer["stoppedCount"]
    if as_json:
        click.echo(pretty(answer))
    elif count:
        click.echo(f'"{known}" wakes up from {count} sleep{"s"[: count > 1]}.')
    else:
        click.echo(_no_sleep(emulator, workflow, known), err=True)
    sys.exit(0 if count else 1)


def _no_sleep(emulator: Emulator, workflow: str, instance_id: str) -> str:
    """Say that an instance does not sleep, or where it does."""
    with emulator.connect() as client:
        steps: list[Json] = client.detail(workflow, instance_id)["steps"]
    under_way = [each for each in steps if each["type"] == "sleep" and not each["finished"]]
    if not under_way:
        return f'"{instance_id}" does not sleep.'
    names = ", ".join(compact(each["name"]) for each in under_way)
    return f'"{instance_id}" does not sleep there. It sleeps in {names}.'


@instances.command(short_help="Delete instances.")
@click.argument("workflow")
@click.argument("instance_ids", metavar="ID...", nargs=-1, required=True)
@asks_emulator
def delete(
    workflow: str, instance_ids: tuple[str, ...], url: str, token: str | None, as_json: bool
) -> None:
    """Delete instances, whatever they do. Exits with 1 if one of them does not exist."""
    with Emulator(url, token).connect() as client:
        known = [client.resolve(workflow, each) for each in instance_ids]
        body = {"instances": known}
        answer = client.ask("POST", workflow, "instances", "batch", "delete", body=body)
    if as_json:
        click.echo(pretty(answer))
    else:
        for each in answer["deleted"]:
            click.echo(f'Deleted "{each["id"]}".')
    for each in answer["errors"]:
        click.echo(f'Error: Instance "{each["id"]}" does not exist', err=True)
    sys.exit(1 if answer["errors"] else 0)


def _change(
    emulator: Emulator, workflow: str, instance_id: str, body: Json, *, as_json: bool
) -> None:
    """Change the status of an instance, and say what it is now."""
    with emulator.connect() as client:
        known = client.resolve(workflow, instance_id)
        answer = client.ask("PATCH", workflow, "instances", known, "status", body=body)
    click.echo(pretty(answer) if as_json else f'"{known}" is {answer["status"]}.')


def _pause_or_resume(
    emulator: Emulator, workflow: str, instance_id: str, status: str, *, as_json: bool
) -> None:
    """Change the status of an instance, where that changes anything; the API does not tell."""
    with emulator.connect() as client:
        known = client.resolve(workflow, instance_id)
        before = client.detail(workflow, known)["status"]
        answer = client.ask(
            "PATCH", workflow, "instances", known, "status", body={"status": status}
        )
    now = answer["status"]
    text = f'Nothing happened: "{known}" is {now}.' if now == before else f'"{known}" is {now}.'
    click.echo(pretty(answer) if as_json else text)
