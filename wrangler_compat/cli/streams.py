"""`workflow-emulator streams`: what the instances of a running emulator write to their output streams."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wrangler_compat.cli.client_options import OWN_API, Emulator, asks_emulator
from wrangler_compat.cli.following import INTERRUPTED
from wrangler_compat.cli.wording import compact, pretty, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

_TAIL_INDEX = "x-workflow-stream-tail-index"


@click.group(short_help="Read what instances write.")
def streams() -> None:
    """Read the output streams of an instance. `latest` is the id of the newest one."""


@streams.command("list", short_help="List the streams of an instance.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@asks_emulator
def list_streams(
    workflow: str, instance_id: str, url: str, token: str | None, as_json: bool
) -> None:
    """List the streams of an instance of WORKFLOW: how many chunks they have, and whether more can come."""
    path = _path(Emulator(url, token), workflow, instance_id)
    with Emulator(url, token).connect(OWN_API) as client:
        rows: list[dict[str, Any]] = client.ask_plainly("GET", *path)["streams"]
    if as_json:
        click.echo(pretty(rows))
        return
    if not rows:
        click.echo(f'"{path[-2]}" has no streams.', err=True)
        return
    from wrangler_compat.cli.describing import show_table

    show_table(
        ("Stream", "Chunks", "State"),
        (
            (each["namespace"], str(each["tailIndex"] + 1), "done" if each["done"] else "open")
            for each in rows
        ),
    )


@streams.command(short_help="Print the chunks of a stream.")
@click.argument("workflow")
@click.argument("instance_id", metavar="ID")
@click.argument("namespace", default="default")
@click.option(
    "--start-index",
    type=int,
    default=0,
    show_default=True,
    help="Begin there; a negative one counts from the end.",
)
@click.option("--follow", "follows", is_flag=True, help="Wait for what comes, to the end.")
@asks_emulator
def read(
    workflow: str,
    instance_id: str,
    namespace: str,
    start_index: int,
    follows: bool,
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Print the chunks of a stream: texts and JSON as lines, bytes as they are.

    With --json it is a line for each chunk, with its index and the step and attempt that wrote it.
    """
    path = (*_path(Emulator(url, token), workflow, instance_id), namespace)
    query = {"startIndex": start_index}
    try:
        with (
            Emulator(url, token).connect(OWN_API) as client,
            client.opened(*path, query=query, accepted="text/event-stream") as response,
        ):
            tail_index = int(response.headers[_TAIL_INDEX])
            is_empty = tail_index < 0
            if follows or start_index <= tail_index:
                for chunk in _chunks(response):
                    is_empty = False
                    _show(chunk, as_json=as_json)
                    if not follows and json.loads(chunk)["index"] >= tail_index:
                        break
            if is_empty:
                click.echo(f'"{path[2]}" has written nothing to a stream "{namespace}".', err=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _path(emulator: Emulator, workflow: str, instance_id: str) -> tuple[str, ...]:
    with emulator.connect() as client:
        return (workflow, "instances", client.resolve(workflow, instance_id), "streams")


def _chunks(response: httpx.Response) -> Iterator[str]:
    """The chunks of an answer, as JSON, to its end.

    Raises:
        ClickException: the emulator stops, or the instance is gone.
    """
    from bindings import wire  # takes long to import, as what it needs does

    text = b""
    for part in response.iter_bytes():
        frames, text = wire.split_frames(text + part)
        for frame in frames:
            if frame["event"] == wire.END:
                return
            if frame["event"] == wire.REFUSED:
                raise click.ClickException(printable(json.loads(frame["data"])["message"]))
            yield frame["data"]
    raise click.ClickException("The emulator has ended the stream.")


def _show(chunk: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(printable(chunk))
        return
    import msgspec

    from bindings.host import Chunk
    from emulator.domain import values

    stored = msgspec.json.decode(chunk, type=Chunk).value
    value = values.decode(stored)
    if isinstance(value, bytes):
        click.echo(value, nl=False)
    else:
        click.echo(printable(value) if isinstance(value, str) else compact(values.plain(stored)))
