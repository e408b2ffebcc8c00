"""`workflow-emulator export`: one instance's journal, as a JSON document."""

from __future__ import annotations

from pathlib import Path

import click

from emulator.errors import EmulatorError
from wrangler_compat.cli.wording import LATEST, printable


@click.command(short_help="Print the journal of an instance.")
@click.argument("instance_id", metavar="ID")
@click.argument("directory", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--workflow", help="The workflow, where several have an instance of this id.")
@click.option("--env", "environment", help="The environment of the wrangler file.")
@click.option("--persist-to", type=click.Path(path_type=Path), help="The folder of the journal.")
def export(
    instance_id: str,
    directory: Path,
    workflow: str | None,
    environment: str | None,
    persist_to: Path | None,
) -> None:
    """Print the journal of the instance ID, of the project in DIRECTORY, as JSON. `latest` is the newest instance.

    The journal is only read, so the emulator may be running. `workflow-emulator replay --from` takes what is printed.
    """
    from emulator.journal.archive import to_document
    from emulator.journal.looking import look, look_at_newest
    from wrangler_compat.config import load_config
    from wrangler_compat.project import journal_path

    try:
        config = load_config(directory, environment)
        path = journal_path(config, persist_to)
        is_latest = instance_id == LATEST
        found = look_at_newest(path, workflow) if is_latest else look(path, workflow, instance_id)
    except EmulatorError as error:
        raise click.ClickException(error.message) from None
    if not found:
        known = [each.name for each in config.workflows if each.script_name is None]
        what = "" if workflow is None else f' of "{workflow}"'
        if workflow is not None and workflow not in known:
            what += f", and the project no such workflow; it has: {', '.join(known) or 'none'}"
        which = "" if is_latest else f' "{instance_id}"'
        raise click.ClickException(f"{path} has no instance{which}{what}.")
    if len(found) > 1:
        names = ", ".join(each.row.creation.workflow for each in found)
        raise click.ClickException(
            f'Several workflows have an instance "{instance_id}": {names}. Choose one with --workflow.'
        )
    click.echo(printable(to_document(found[0])))
