"""The command `workflow-emulator`. A command's module is imported when it is called for, so that each starts fast."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from typing import Any, Final

import click

from wrangler_compat.cli.output import give_up_output, is_of_output, prepare_streams

COMMANDS: Final = {
    "check": "wrangler_compat.cli.check:check",
    "dev": "wrangler_compat.cli.dev:dev",
    "dynamic": "wrangler_compat.cli.dynamic:dynamic",
    "export": "wrangler_compat.cli.export:export",
    "hooks": "wrangler_compat.cli.hooks:hooks",
    "replay": "wrangler_compat.cli.replay:replay",
    "run": "wrangler_compat.cli.run:run",
    "schedules": "wrangler_compat.cli.schedules:schedules",
    "streams": "wrangler_compat.cli.streams:streams",
    "workflows": "wrangler_compat.cli.workflows:workflows",
}
"""Where each command is."""


class _LazyGroup(click.Group):
    """Commands that are imported on demand."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line. Click itself minds only pipes that are broken."""
        prepare_streams()
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            if not is_of_output(error):
                raise
            give_up_output()
            click.echo(f"Error: The output cannot be written: {error.strerror}.", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run one. Click itself takes Ctrl-C for a failure like others."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from wrangler_compat.cli.following import INTERRUPTED

            click.echo("\nAborted!", err=True)
            sys.exit(INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name them."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        return getattr(importlib.import_module(module), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for. Click names the one that may be meant only of those it has at hand.

        Raises:
            UsageError: there is none of that name.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            for near in get_close_matches(args[0], COMMANDS, 1):
                raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx) from None
            raise


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="workflow-emulator")
def main() -> None:
    """Run Cloudflare-style Workflows in plain Python: durable, offline."""


if __name__ == "__main__":
    main()
