"""`workflow-emulator dev`: run a project on this machine.

Here are the options, and what is said to the user; `serving` has the process that serves, `reloading` the one that
watches the files and starts it anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from emulator.domain.http import check_api_token
from emulator.errors import EmulatorError
from wrangler_compat.cli.options import DevOptions
from wrangler_compat.cli.output import is_of_output
from wrangler_compat.cli.reporting import user_traceback

FAILED = 1


@click.command(short_help="Run a project on this machine.")
@click.argument("directory", type=click.Path(exists=True, path_type=Path), default=".")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8787,
    show_default=True,
    help="Where to listen; 0 for any port.",
)
@click.option("--host", help="An address that other machines reach; needs --api-token.")
@click.option(
    "--persist-to", help='The folder of the journal, or ":memory:".  [default: .workflow-emulator]'
)
@click.option("--env", "environment", help="The environment of the wrangler file.")
@click.option(
    "--durability",
    type=click.Choice(["normal", "full"]),
    default="normal",
    show_default=True,
    help="What survives: a killed process, or a power cut too.",
)
@click.option(
    "--max-live",
    type=click.IntRange(min=0),
    default=1_000,
    show_default=True,
    help="How many resting instances keep their code in memory.",
)
@click.option("--keep-all", is_flag=True, help="Keep finished instances beyond their retention.")
@click.option("--fast-retries", is_flag=True, help="Retry after 1 s by default, not after 10 s.")
@click.option("--catch-up", is_flag=True, help="Fire the last tick that each schedule has missed.")
@click.option("--reload", is_flag=True, help="Start anew when a file of the project changes.")
@click.option(
    "--api-token",
    envvar="WORKFLOW_EMULATOR_API_TOKEN",
    help="What the APIs ask for; or set WORKFLOW_EMULATOR_API_TOKEN.",
)
@click.option("--access-log", is_flag=True, help="Tell every request.")
def dev(
    directory: Path,
    port: int,
    host: str | None,
    persist_to: str | None,
    environment: str | None,
    durability: str,
    max_live: int,
    keep_all: bool,
    fast_retries: bool,
    catch_up: bool,
    reload: bool,
    api_token: str | None,
    access_log: bool,
) -> None:
    """Run the project in DIRECTORY: its Worker, its workflows, and Cloudflare's API for them."""
    options = DevOptions(
        directory,
        port,
        host,
        persist_to,
        environment,
        full_durability=durability == "full",
        max_live=max_live,
        keep_all=keep_all,
        fast_retries=fast_retries,
        catch_up=catch_up,
        api_token=api_token,
        access_log=access_log,
    )
    if options.is_exposed and not api_token:
        raise click.UsageError(
            f"--host {host} lets other machines connect: choose a token with --api-token."
        )
    try:
        if api_token is not None:
            check_api_token(api_token)
        _run(options, reload=reload)
    except EmulatorError as error:
        raise click.ClickException(error.message) from None
    except click.ClickException:
        raise
    except Exception as error:
        if is_of_output(error):
            raise
        click.echo(user_traceback(error, options.directory), err=True, nl=False)
        sys.exit(FAILED)


def _run(options: DevOptions, *, reload: bool) -> None:
    # Imported late: the one needs no watcher, the other no server.
    if reload:
        from wrangler_compat.cli.reloading import serve_and_reload

        serve_and_reload(options)
    else:
        from wrangler_compat.cli.serving import serve

        serve(options)
