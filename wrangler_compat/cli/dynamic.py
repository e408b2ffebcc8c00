"""`workflow-emulator dynamic`: publish the code of tenants to a running emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wrangler_compat.cli.client_options import Emulator, asks_emulator
from wrangler_compat.cli.wording import pretty, when

_PREFIX = "/cdn-cgi/workflow-emulator/dynamic"
_HASH_CHARS = 12


@click.group()
def dynamic() -> None:
    """Publish the code of tenants' workflows to a running emulator."""


@dynamic.command()
@click.argument("tenant")
@click.argument("name")
@click.argument("version")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@asks_emulator
def publish(
    tenant: str,
    name: str,
    version: str,
    files: tuple[Path, ...],
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Publish FILE as VERSION of the workflow NAME of TENANT.

    Of several files the first has the workflow class, and can import the others by their names. A version is published
    once: the same code again changes nothing, another one is refused.
    """
    code = _code_of(files)
    with Emulator(url, token).connect(_PREFIX) as client:
        made = client.ask_plainly("PUT", tenant, name, "versions", version, body=code)
    what = f'Version "{version}" of "{name}" of "{tenant}" is code {made["hash"][:_HASH_CHARS]}.'
    click.echo(pretty(made) if as_json else what)


@dynamic.command("list")
@click.argument("tenant", required=False)
@click.argument("name", required=False)
@asks_emulator
def list_versions(
    tenant: str | None, name: str | None, url: str, token: str | None, as_json: bool
) -> None:
    """List what has been published, of all tenants or of TENANT, or of its workflow NAME."""
    path = () if tenant is None else (tenant,) if name is None else (tenant, name, "versions")
    with Emulator(url, token).connect(_PREFIX) as client:
        rows: list[dict[str, Any]] = client.ask_plainly("GET", *path)["versions"]
    if as_json:
        click.echo(pretty(rows))
        return
    from emulator.projection.rendering import iso
    from wrangler_compat.cli.describing import show_table

    show_table(
        ("Tenant", "Name", "Version", "Code", "Published"),
        (
            (
                each["tenant"],
                each["name"],
                each["version"],
                each["hash"][:_HASH_CHARS],
                when(iso(each["created_ms"])),
            )
            for each in rows
        ),
    )


def _code_of(files: tuple[Path, ...]) -> dict[str, Any]:
    """The code in files.

    Raises:
        ClickException: a file is no text.
    """
    try:
        texts = {each.stem: each.read_text("utf-8") for each in files}
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"A file cannot be read: {error}") from None
    if len(files) == 1:
        return {"modules": {"main": texts[files[0].stem]}}
    return {"main": files[0].stem, "modules": texts}
