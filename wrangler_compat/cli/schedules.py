"""`workflow-emulator schedules`: what is due when, and firing it now."""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wrangler_compat.cli.client_options import Emulator, asks_emulator
from wrangler_compat.cli.wording import pretty, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.domain.cron import Cron
    from wrangler_compat.config import WorkerConfig

_PREFIX = "/cdn-cgi/schedules"


@click.group(short_help="Ask for schedules, and fire them.")
def schedules() -> None:
    """Ask for the schedules of workflows and the cron triggers of the Worker."""


@schedules.command("list", short_help="List the schedules.")
@asks_emulator
def list_schedules(url: str, token: str | None, as_json: bool) -> None:
    """List the schedules of a running emulator, and when each is due next."""
    with Emulator(url, token).connect(_PREFIX) as client:
        rows: list[dict[str, Any]] = client.ask("GET")
    if as_json:
        click.echo(pretty(rows))
        return
    if not rows:
        click.echo("There are no schedules.", err=True)
        return
    from wrangler_compat.cli.describing import show_table

    show_table(
        ("Workflow", "Cron", "Next"),
        ((each["workflow"] or "(the Worker)", each["cron"], when(each["next"])) for each in rows),
    )


@schedules.command("next", short_help="Tell the next times of a schedule.")
@click.argument("name")
@click.option("-n", "count", type=click.IntRange(1, 1_000), default=5, show_default=True)
@click.option(
    "--directory", type=click.Path(exists=True, path_type=Path), default=".", show_default=True
)
@click.option("--env", "environment", help="The environment of the wrangler file.")
@click.option(
    "--after",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]),
    help="From then on, in UTC.  [default: now]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the times as JSON.")
def tell_next(
    name: str,
    count: int,
    directory: Path,
    environment: str | None,
    after: datetime | None,
    as_json: bool,
) -> None:
    """Tell the next times, in UTC, of the workflow NAME, or of the Worker NAME. No emulator need run."""
    from emulator.errors import ConfigError
    from emulator.projection.rendering import iso
    from emulator.timing.clock import SystemClock
    from wrangler_compat.config import load_config

    try:
        crons = _crons(load_config(directory, environment), name)
    except ConfigError as error:
        raise click.ClickException(error.message) from None
    if after is None:
        after_ms = SystemClock().now_ms()
    else:
        after_ms = int(after.replace(tzinfo=UTC).timestamp() * 1000)
    ticks = islice(merge(*(_ticks(each, after_ms) for each in crons)), count)
    rows = [{"cron": cron, "next": iso(tick_ms)} for tick_ms, cron in ticks]
    if as_json:
        click.echo(pretty(rows))
        return
    for each in rows:
        click.echo(f"{when(each['next'])}  {each['cron']}")


@schedules.command(short_help="Fire a schedule now.")
@click.argument("name")
@click.option("--cron", help="Which schedule, if the workflow has several.")
@asks_emulator
def fire(name: str, cron: str | None, url: str, token: str | None, as_json: bool) -> None:
    """Create an instance of the workflow NAME now, as its schedule does when it is due."""
    with Emulator(url, token).connect(_PREFIX) as client:
        made = client.ask("POST", name, "fire", body={} if cron is None else {"cron": cron})
    click.echo(pretty(made) if as_json else f'Created instance "{made["id"]}" of "{name}".')


def _crons(config: WorkerConfig, name: str) -> list[Cron]:
    """The schedules of a workflow, or of the Worker.

    Raises:
        ClickException: there are none.
    """
    from emulator.domain.cron import parse_cron

    named = {config.name: config.crons} | {each.name: each.schedules for each in config.workflows}
    texts = named.get(name, ())
    if not texts:
        known = ", ".join(each for each, crons in named.items() if crons) or "none"
        raise click.ClickException(f'"{name}" has no schedule. These have: {known}.')
    return [parse_cron(text) for text in dict.fromkeys(texts)]


def _ticks(cron: Cron, after_ms: int) -> Iterator[tuple[int, str]]:
    while True:
        after_ms = cron.next_after(after_ms)
        yield after_ms, cron.text
