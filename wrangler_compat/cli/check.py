"""`workflow-emulator check`: read the source for what would break a workflow when it is replayed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from emulator.errors import EmulatorError

if TYPE_CHECKING:
    from wrangler_compat.check import Finding

FOUND = 1
UNREADABLE = 2


@click.command(short_help="Check workflows against the rules.")
@click.argument("directory", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="For people, for programs, or as annotations of GitHub Actions.",
)
def check(directory: Path, as_json: bool, style: str) -> None:
    """Check the workflows in DIRECTORY (or in one file) against the Rules of Workflows. Nothing is run.

    The wrangler file in DIRECTORY is read, too: whether it has mistakes, and whether the classes that it names are there.

    Exits with 0 when nothing is found, 1 when something is, 2 when a file cannot be read or the wrangler file is wrong. A
    comment "# noqa: WF003" silences a rule on its line.
    """
    from wrangler_compat.check import check_folder, check_project  # here: `--help` does not need it

    try:
        findings = check_folder(directory)
    except EmulatorError as error:
        _give_up(error)
    if as_json or style == "json":
        rows = [{**asdict(finding), "link": finding.link} for finding in findings]
        click.echo(json.dumps(rows, indent=2))
    else:
        for finding in findings:
            click.echo(_annotation(finding) if style == "github" else _line(finding))
    if findings:
        count = len(findings)
        click.echo(f"{count} finding{'s' if count > 1 else ''}.", err=True)
    try:
        for warning in check_project(directory):
            click.echo(f"Warning: {warning}", err=True)
    except EmulatorError as error:
        _give_up(error)
    if findings:
        raise SystemExit(FOUND)


def _give_up(error: EmulatorError) -> NoReturn:
    click.echo(f"Error: {error.message}", err=True)
    raise SystemExit(UNREADABLE)


def _line(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}:{finding.column}"
    return f"{place}: {finding.code} {finding.message}\n    {finding.link}"


def _annotation(finding: Finding) -> str:
    """A workflow command of GitHub Actions; values escape what the syntax needs."""
    properties = {
        "file": finding.path,
        "line": finding.line,
        "col": finding.column,
        "title": finding.title,
    }
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    message = _escaped(finding.message)
    return f"::error {listed}::{message}"


def _escaped(value: object, more: str = "") -> str:
    text = str(value)
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
