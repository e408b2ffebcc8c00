"""`workflow-emulator run`: run one instance in this process, without a server.

What happens goes to stderr, and so does what the user's code prints; stdout has the output alone. The process ends the
moment the instance does, or Ctrl-C comes: user code may hold threads that never end, and nothing is lost, since what is
not committed has not happened.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO

import click

from emulator.domain.names import check_workflow_name
from emulator.errors import EmulatorError, InvalidWorkflowName, WorkflowNotFound
from wrangler_compat.cli.client_options import read_json
from wrangler_compat.cli.following import INTERRUPTED
from wrangler_compat.cli.output import is_of_output
from wrangler_compat.cli.progress import EXIT_CODES, REST_PER_LOOK, Progress
from wrangler_compat.cli.reporting import HeldLog, held_log, log_to_stderr, user_traceback
from wrangler_compat.cli.stopping import leave
from wrangler_compat.cli.wording import Json, pretty, sentences

if TYPE_CHECKING:
    from emulator.domain.instance import InstanceKey
    from wrangler_compat.rest.operations import Operations


class _Asked(NamedTuple):
    """What the command line asks for."""

    directory: Path
    workflow: str
    params: Any
    instance_id: str | None
    environment: str | None
    persist_to: Path | None
    fast_retries: bool
    as_json: bool


@click.command(short_help="Run one instance, without a server.")
@click.argument("words", metavar="[DIRECTORY] WORKFLOW [PARAMS]", nargs=-1, required=True)
@click.option("--id", "instance_id", help="The id of the instance.  [default: one is made up]")
@click.option("--env", "environment", help="The environment of the wrangler file.")
@click.option(
    "--persist-to",
    type=click.Path(path_type=Path),
    help="The folder of a journal, whose unfinished instances go on too.  [default: in memory]",
)
@click.option("--fast-retries", is_flag=True, help="Retry after 1 s by default, not after 10 s.")
@click.option("--json", "as_json", is_flag=True, help="Print the instance as the API has it.")
def run(
    words: tuple[str, ...],
    instance_id: str | None,
    environment: str | None,
    persist_to: Path | None,
    fast_retries: bool,
    as_json: bool,
) -> None:
    """Run one instance of WORKFLOW, of the project in DIRECTORY (here if it is left out), and print its output.

    PARAMS is JSON, @FILE, or - for the standard input. Exits with 0 when the instance has completed, 1 when it has errored
    or could not run, 3 when it was terminated.
    """
    import asyncio  # here, as the engine below: `--help` needs neither

    directory, workflow, params = _read_words(words)
    signal.signal(signal.SIGINT, _interrupted)
    log_to_stderr()
    asked = _Asked(
        directory, workflow, params, instance_id, environment, persist_to, fast_retries, as_json
    )
    output = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            asyncio.run(_run(asked, output))
    except EmulatorError as error:
        from wrangler_compat.rest.answers import hints_of

        raise click.ClickException(sentences([error.message, *hints_of(error)])) from None
    except Exception as error:  # what the user's module raises when it is imported
        if is_of_output(error):
            raise
        click.echo(user_traceback(error, directory), err=True, nl=False)
        sys.exit(1)


def _read_words(words: tuple[str, ...]) -> tuple[Path, str, Any]:
    """The folder, the workflow and the params that are meant; the first and the last can be left out.

    Raises:
        ClickException: the folder is not there, the params are not JSON, or there are too many words.
    """
    match words:
        case (workflow,):
            folder, params = ".", "{}"
        case (first, second):
            has_folder = _is_name(second) and (Path(first).exists() or not _is_json(second))
            folder, workflow, params = (first, second, "{}") if has_folder else (".", first, second)
        case (folder, workflow, params):
            pass
        case _:
            raise click.UsageError(f"Got unexpected extra arguments ({' '.join(words[3:])})")
    if not Path(folder).exists():
        raise click.BadParameter(f"Path {folder!r} does not exist.", param_hint="'DIRECTORY'")
    return Path(folder), workflow, read_json(params, "PARAMS")


def _is_name(text: str) -> bool:
    """Whether a workflow can be called so."""
    try:
        check_workflow_name(text)
    except InvalidWorkflowName:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def _run(asked: _Asked, output: TextIO) -> NoReturn:
    from emulator.domain.instance import InstanceKey
    from wrangler_compat.config import load_config
    from wrangler_compat.project import journal_of, open_project, scripts_of
    from wrangler_compat.rest.answers import tell_script
    from wrangler_compat.rest.operations import Operations

    config = load_config(asked.directory, asked.environment)
    for warning in config.warnings:
        click.echo(warning, err=True)
    journal = journal_of(config, asked.persist_to or ":memory:")
    opening = open_project(config, journal, fast_retries=asked.fast_retries, schedules="off")
    async with opening as project:
        operations = Operations(project.engine, since_ms=project.engine.now_ms())
        named = {} if asked.instance_id is None else {"id": asked.instance_id}
        with held_log() as log:
            try:
                made = await operations.create(asked.workflow, {"params": asked.params, **named})
            except WorkflowNotFound as error:
                tell_script(error, scripts_of(config), asked.workflow)
                raise
            detail = await _to_its_end(operations, InstanceKey(asked.workflow, made), log)
        if asked.as_json:
            click.echo(pretty(detail), output)
        elif detail["status"] == "complete":
            click.echo(pretty(detail["output"]), output)
        _leave(EXIT_CODES[detail["status"]])


async def _to_its_end(operations: Operations, key: InstanceKey, log: HeldLog) -> Json:
    """Tell what happens to an instance until it ends; how it is then, as the API has it.

    The log comes after what it is about: the failure of an attempt after the attempt's start.
    """
    import asyncio

    from emulator.projection.rendering import remote_detail
    from wrangler_compat.rest.operations import version_id

    engine, clock = operations.engine, operations.clock
    version = version_id(engine.definition(key.workflow))
    progress = Progress(lambda line: click.echo(line, err=True))
    ended = asyncio.ensure_future(engine.until(key, lambda state: state.is_terminal or None))
    try:
        with engine.feed.watch(key) as watch:
            loop = asyncio.get_running_loop()
            log.wake = lambda: loop.call_soon_threadsafe(watch.notify)
            while True:
                began_ms = clock.now_ms()
                records = log.take()
                detail = remote_detail(await operations.detail(key), version)
                progress.show(detail)
                log.tell(records)
                if detail["status"] in EXIT_CODES:
                    return detail
                rest_ms = REST_PER_LOOK * (clock.now_ms() - began_ms)
                await watch.changed()
                await asyncio.wait((ended,), timeout=rest_ms / 1000)
    finally:
        if not ended.cancel():
            ended.exception()  # that it was deleted: looking at it tells that, too


def _interrupted(_: int, __: FrameType | None) -> None:
    _leave(INTERRUPTED)


def _leave(code: int) -> NoReturn:
    logging.shutdown()  # what is held, too
    leave(code)
