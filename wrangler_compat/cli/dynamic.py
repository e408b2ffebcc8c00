"""`workflow-emulator dynamic`: publish the code of tenants to a running emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wrangler_compat.cli.client_options import Emulator, asks_emulator
from wrangler_compat.cli.wording import pretty, when

_PREFIX = "/cdn-cgi/workflow-emulator/dynamic"
_HASH_CHARS = 12


@click.group(short_help="Publish the code of tenants.")
def dynamic() -> None:
    """Publish the code of tenants' workflows to a running emulator."""


@dynamic.command(short_help="Publish a version of a workflow.")
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
    modules = _modules_of(files)
    code = {
        "main": next(iter(modules)),
        "modules": {key: _text_of(modules[key]) for key in modules},
    }
    with Emulator(url, token).connect(_PREFIX) as client:
        try:
            made = client.ask_plainly("PUT", tenant, name, "versions", version, body=code)
        except click.ClickException as refusal:
            raise click.ClickException(_with_file(refusal.message, modules)) from None
    what = f'Version "{version}" of "{name}" of "{tenant}" is code {made["hash"][:_HASH_CHARS]}.'
    click.echo(pretty(made) if as_json else what)


@dynamic.command("list", short_help="List what has been published.")
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
    if not rows:
        click.echo(f"Nothing {'' if tenant is None else 'of that '}has been published.", err=True)
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


def _modules_of(files: tuple[Path, ...]) -> dict[str, Path]:
    """The file of each module, the main one first. One that is alone need not have a name that can be imported.

    Raises:
        ClickException: two files are one module.
    """
    if len(files) == 1:
        return {"main": files[0]}
    modules: dict[str, Path] = {}
    for file in files:
        if (other := modules.setdefault(file.stem, file)) is not file:
            raise click.ClickException(f"{other} and {file} would both be the module {file.stem}.")
    return modules


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is no text in UTF-8: {error}") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from None


def _with_file(message: str, modules: dict[str, Path]) -> str:
    """A refusal, with the file as it was given where it names a module."""
    for name, file in modules.items():
        if message.startswith(f"{name}.py"):
            return f"{file}{message.removeprefix(f'{name}.py')}"
    return message
