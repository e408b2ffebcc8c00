"""`--follow`: watch an instance until it ends."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, NoReturn

import click

from wrangler_compat.cli.progress import EXIT_CODES, REST_PER_LOOK, Progress
from wrangler_compat.cli.wording import Json, compact, pretty

if TYPE_CHECKING:
    from wrangler_compat.cli.client import Client

LOOK_EVERY_S: Final = 0.2
LOOKS_IN_VAIN: Final = 50
"""How often in a row the emulator may be away: `dev --reload` starts it anew."""

INTERRUPTED: Final = 130


def follow(client: Client, workflow: str, instance_id: str, *, as_json: bool) -> NoReturn:
    """Print what happens to an instance until it ends, then its output; exit with what became of it.

    With `as_json` the whole instance is printed at the end, as the API has it, and the rest goes to stderr.
    """
    progress = Progress(lambda line: click.echo(line, err=as_json))
    detail, rest_s = _look(client, workflow, instance_id)
    try:
        progress.show(detail)
        while detail["status"] not in EXIT_CODES:
            detail, rest_s = _look_again(client, workflow, instance_id, rest_s)
            progress.show(detail)
    except KeyboardInterrupt:
        click.echo(f'"{instance_id}" goes on; it is not followed any more.', err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        click.echo(pretty(detail))
    elif detail["status"] == "complete":
        click.echo(f"Output {compact(detail['output'])}")
    sys.exit(EXIT_CODES[detail["status"]])


def _look(client: Client, workflow: str, instance_id: str) -> tuple[Json, float]:
    """How an instance is, and for how long nobody shall look again."""
    from emulator.timing.clock import SystemClock

    clock = SystemClock()
    began_ms = clock.now_ms()
    detail = client.detail(workflow, instance_id)
    rest_ms = REST_PER_LOOK * (clock.now_ms() - began_ms)
    return detail, max(LOOK_EVERY_S, rest_ms / 1000)


def _look_again(
    client: Client, workflow: str, instance_id: str, rest_s: float
) -> tuple[Json, float]:
    from wrangler_compat.cli.client import NotReached

    threading.Event().wait(rest_s)
    for _ in range(LOOKS_IN_VAIN):
        try:
            return _look(client, workflow, instance_id)
        except NotReached:
            threading.Event().wait(LOOK_EVERY_S)
    return _look(client, workflow, instance_id)
