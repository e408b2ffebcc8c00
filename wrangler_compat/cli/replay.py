"""`workflow-emulator replay`: would running instances go on with today's code?

Nothing is invoked and nothing is written: the code is run against each journal, from the top, and watched for what it
asks (see `emulator.testing.replay`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from emulator.errors import EmulatorError
from wrangler_compat.cli.output import is_of_output
from wrangler_compat.cli.reporting import user_traceback
from wrangler_compat.cli.wording import Json, pretty, printable

if TYPE_CHECKING:
    from emulator.domain.steps import StepKey
    from emulator.engine.programs import WorkflowDefinition
    from emulator.journal.port import StoredInstance
    from emulator.testing.asking import Asked, Place
    from wrangler_compat.config import WorkerConfig


class _Wanted(NamedTuple):
    """What the command line asks for."""

    directory: Path
    workflow: str | None
    instance_id: str | None
    files: tuple[Path, ...]
    environment: str | None
    persist_to: Path | None


@click.command(short_help="Replay journals with today's code.")
@click.argument("directory", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--workflow", help="Only instances of this workflow.")
@click.option("--id", "instance_id", help="Only the instance of this id.")
@click.option(
    "--from",
    "files",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="An exported journal, or a folder of them; more than once.  [default: the project's journal]",
)
@click.option("--env", "environment", help="The environment of the wrangler file.")
@click.option("--persist-to", type=click.Path(path_type=Path), help="The folder of the journal.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def replay(
    directory: Path,
    workflow: str | None,
    instance_id: str | None,
    files: tuple[Path, ...],
    environment: str | None,
    persist_to: Path | None,
    as_json: bool,
) -> None:
    """Run today's code of the project in DIRECTORY against recorded journals, invoking no step.

    Says of each whether a running instance would go on, and if not, where it diverges. Exits with 0 if all would go on,
    1 if one would not.
    """
    wanted = _Wanted(directory, workflow, instance_id, files, environment, persist_to)
    try:
        with redirect_stdout(sys.stderr):  # what the user's code prints
            verdicts = _judge(wanted)
    except EmulatorError as error:
        raise click.ClickException(error.message) from None
    except Exception as error:  # what the user's module raises when it is imported
        if is_of_output(error):
            raise
        click.echo(user_traceback(error, directory), err=True, nl=False)
        sys.exit(1)
    if not verdicts:
        if as_json:
            click.echo(pretty(verdicts))
        raise click.ClickException("There is no such journal: nothing has been replayed.")
    if as_json:
        click.echo(pretty(verdicts))
    else:
        for each in verdicts:
            click.echo(printable(_sentence(each)))
    sys.exit(0 if all(each["continues"] for each in verdicts) else 1)


def _judge(wanted: _Wanted) -> list[Json]:
    from emulator.journal.memory import MemoryJournal
    from emulator.testing.clock import LoopClock
    from emulator.testing.loop import run
    from wrangler_compat.config import load_config
    from wrangler_compat.project import open_project

    config = load_config(wanted.directory, wanted.environment)
    journals = _journals(config, wanted)

    async def judge() -> list[Json]:
        async with open_project(config, MemoryJournal(), LoopClock(), schedules="off") as project:
            known = project.engine.definitions
            return [
                await _verdict(each, known.get(each.row.creation.workflow), config.root)
                for each in journals
            ]

    return run(judge())


def _journals(config: WorkerConfig, wanted: _Wanted) -> list[StoredInstance]:
    from emulator.journal.archive import from_document
    from emulator.journal.looking import look
    from wrangler_compat.project import journal_path

    workflow, instance_id = wanted.workflow, wanted.instance_id
    if not wanted.files:
        path = journal_path(config, wanted.persist_to)
        return look(path, workflow, instance_id) if path.is_file() else []
    read = [from_document(file.read_bytes(), str(file)) for file in _files(wanted.files)]
    return [
        each
        for each in read
        if workflow in (None, each.row.creation.workflow)
        and instance_id in (None, each.row.creation.id)
    ]


def _files(given: Sequence[Path]) -> Iterable[Path]:
    for path in given:
        yield from sorted(path.glob("*.json")) if path.is_dir() else [path]


async def _verdict(
    stored: StoredInstance, definition: WorkflowDefinition | None, root: Path
) -> Json:
    """What becomes of an instance: `continues`, and what there is to say about it (None: nothing)."""
    from emulator.core.evolve import fold
    from emulator.testing.replay import RunFailed, divergence
    from emulator.testing.replay import replay as replayed

    made = stored.row.creation
    verdict: Json = {
        "workflow": made.workflow,
        "id": made.id,
        "status": stored.row.status.value,
        "continues": False,
        "expected": None,
        "asked": None,
        "place": None,
        "error": None,
    }
    if definition is None:
        return verdict | {"error": "the project has no workflow of this name"}
    if made.code is not None:
        return verdict | {
            "continues": True
        }  # with the code that it was created with, whatever today's is
    state = fold(made, stored.entries)
    result = await replayed(stored, definition, now_ms=stored.row.modified_ms)
    parted = divergence(state, result)
    if parted is None:
        new = next((each for each in result.asked if each.step not in state.steps), None)
        return verdict | {"continues": True} | _asked(new, root)
    verdict |= {"expected": parted.expected and _step(parted.expected)} | _asked(parted.asked, root)
    if isinstance(parted.end, RunFailed):
        failure = parted.end.error
        verdict["error"] = failure.text
        if parted.asked is None:
            verdict["place"] = _place(parted.end.place, root)
    return verdict


def _asked(asked: Asked | None, root: Path) -> Json:
    if asked is None:
        return {"asked": None, "place": None}
    return {"asked": _step(asked.step), "place": _place(asked.place, root)}


def _step(step: StepKey) -> Json:
    return {"type": step.kind.value, "name": step.name, "count": step.count}


def _place(place: Place | None, root: Path) -> str | None:
    if place is None:
        return None
    file = Path(place.file)
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    return f"{shown}:{place.line}"


def _sentence(verdict: Json) -> str:
    """A verdict for people."""
    name = f"{verdict['workflow']} / {verdict['id']}"
    asked = _named(verdict["asked"])
    at = f" at {verdict['place']}" if verdict["place"] else ""
    if verdict["continues"]:
        onward = f", next is the new step {asked}{at}" if asked else ""
        return f"✓ {name}: goes on{onward}"
    parts: list[str] = []
    if verdict["expected"]:
        parts.append(f"the journal has the step {_named(verdict['expected'])}")
        parts.append(f"the code asks for {asked}{at}" if asked else "the code never asks for it")
    if verdict["error"]:
        parts.append(verdict["error"] + ("" if asked else at))
    return f"✗ {name}: diverges: {'; '.join(parts)}"


def _named(step: Json | None) -> str:
    if step is None:
        return ""
    count = f" (number {step['count']} of this name)" if step["count"] > 1 else ""
    kind = "" if step["type"] == "do" else f" ({step['type']})"
    return f'"{step["name"]}"{kind}{count}'
