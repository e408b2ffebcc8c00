"""What is shown of workflows and instances: tables of many, the tree of one. From the API's answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from wrangler_compat.cli.progress import EXIT_CODES, awaited, mark_of
from wrangler_compat.cli.wording import (
    Json,
    compact,
    elapsed,
    error_text,
    printable,
    when,
)

_PIPE_COLUMNS: Final = 100_000
"""The width where there is no terminal: nothing is folded there, so that other programs can read the lines."""

_STYLES: Final = {"✓": "green", "✗": "red", "▶": "yellow", "…": "yellow", "■": "red"}
_LABEL_COLUMNS: Final = 10


def show_table(headings: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
    """Print rows under headings."""
    table = Table(*headings, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(printable(cell or "-"), overflow="fold") for cell in row))
    _print(table)


def show_workflow(workflow: Json) -> None:
    """Print what is known of a workflow."""
    triggered = workflow["triggered_on"]
    counts = [f"{count} {status}" for status, count in workflow["instances"].items() if count]
    _print(
        Text(workflow["name"], "bold"),
        _labelled("Class", workflow["class_name"]),
        _labelled("Script", workflow["script_name"]),
        _labelled("Triggered", "never" if triggered is None else when(triggered)),
        _labelled("Instances", ", ".join(counts) or "none"),
    )


def show_hooks(hooks: Iterable[Json]) -> None:
    """Print hooks, one a line."""
    show_table(
        ("Token", "Workflow", "Instance", "Status", "Created", "Kept until"),
        (
            (
                each["token"],
                each["workflowName"],
                each["runId"],
                each["status"],
                when(each["createdAt"]),
                each.get("retainUntil") and when(each["retainUntil"]),
            )
            for each in hooks
        ),
    )


def show_hook(hook: Json) -> None:
    """Print a hook, and whose it is."""
    until = hook.get("retainUntil")
    kept = [] if until is None else [_labelled("Kept", f"until {when(until)}")]
    _print(
        Text(printable(hook["token"]), "bold"),
        _labelled("Id", hook["hookId"]),
        _labelled("Held by", f"{hook['workflowName']} / {hook['runId']}"),
        _labelled("Status", hook["status"] or "deleted"),
        _labelled("Created", when(hook["createdAt"])),
        *kept,
        _labelled("Metadata", compact(hook["metadata"])),
        _labelled("Webhook", "yes" if hook["isWebhook"] else "no"),
    )


def show_instance(workflow: str, instance_id: str, detail: Json, hooks: Sequence[Json]) -> None:
    """Print an instance: how it is, the hooks it holds, and its steps as a tree."""
    steps = Tree(Text("Steps", "bold"))
    is_over = detail["status"] in EXIT_CODES
    for step in detail["steps"]:
        if step["type"] in _KINDS:
            _KINDS[step["type"]](steps, step, is_over)
    _print(
        Text(f"{workflow} / {instance_id}", "bold"),
        *_head(detail),
        *(_labelled("Hook", printable(each["token"])) for each in hooks),
        *([steps] if steps.children else [Text("No steps")]),
    )


def _head(detail: Json) -> Iterable[Text]:
    status, start, end = detail["status"], detail["start"], detail["end"]
    yield _labelled("Status", _marked(mark_of(status), status))
    yield _labelled("Trigger", detail["trigger"]["source"])
    yield _labelled("Params", compact(detail["params"]))
    yield _labelled("Queued", when(detail["queued"]))
    if start is not None:
        yield _labelled("Start", when(start))
    if end is not None:
        time = "" if start is None else f"  ({elapsed(start, end)})"
        yield _labelled("End", when(end) + time)
    if detail["error"] is not None:
        yield _labelled("Error", Text(error_text(detail["error"]), "red"))
    if detail["rollback"] is not None:
        yield _labelled("Rollback", _outcome(detail["rollback"]))
    if status == "complete":
        yield _labelled("Output", compact(detail["output"]))


def _outcome(rollback: Json) -> str:
    error = rollback["error"]
    return rollback["outcome"] + ("" if error is None else f": {error_text(error)}")


def _do(steps: Tree, step: Json, is_over: bool) -> None:
    attempts: list[Json] = step["attempts"]
    name = f"rollback of {step['name']}" if step["type"] == "rollback" else step["name"]
    branch = steps.add(_line(_mark(step["success"], is_over), name, step["start"], step["end"]))
    if len(attempts) > 1 or any(each["error"] is not None for each in attempts):
        for number, each in enumerate(attempts, start=1):
            mark = _mark(each["success"], is_over)
            line = _line(mark, f"attempt {number}", each["start"], each["end"])
            _add_error(branch.add(line), each["error"])
    if step["success"] is None and attempts and attempts[-1]["success"] is False and not is_over:
        branch.add("… waits for the next attempt")
    if step.get("output") is not None:
        branch.add(Text(f"output {printable(step['output'])}"))


def _sleep(steps: Tree, step: Json, is_over: bool) -> None:
    steps.add(_rest_line(f"sleep {step['name']}", step, is_over))


def _wait(steps: Tree, step: Json, is_over: bool) -> None:
    branch = steps.add(_rest_line(f"wait {step['name']}", step, is_over))
    _add_error(branch, step["error"])
    if step["output"] is not None:
        branch.add(Text(f"event {printable(step['output'])}"))
    elif not step["finished"]:
        branch.add(Text(f"for {awaited(step)}"))


_KINDS: Final = {"step": _do, "rollback": _do, "sleep": _sleep, "waitForEvent": _wait}


def _rest_line(name: str, step: Json, is_over: bool) -> Text:
    """The line of a sleep or a wait; the end of an unfinished one is only planned."""
    if step["finished"]:
        mark = "✓" if step["error"] is None else "✗"
        return _line(mark, name, step["start"], step["end"])
    line = _line("·" if is_over else "…", name, step["start"], None)
    if is_over or step["end"] is None:
        return line
    return line.append(f"  until {when(step['end'])}")


def _line(mark: str, name: str, start: str, end: str | None) -> Text:
    line = _marked(mark, printable(name)).append(f"  {when(start)}", "dim")
    return line if end is None else line.append(f"  {elapsed(start, end)}")


def _mark(success: bool | None, is_over: bool) -> str:
    if success is None:
        return "·" if is_over else "▶"
    return "✓" if success else "✗"


def _add_error(branch: Tree, error: Json | None) -> None:
    if error is not None:
        branch.add(Text(error_text(error), "red"))


def _marked(mark: str, text: str) -> Text:
    return Text.assemble((mark, _STYLES.get(mark, "")), " ", text)


def _labelled(label: str, value: str | Text) -> Text:
    return Text.assemble((f"  {label:<{_LABEL_COLUMNS}}", "dim"), value)


def _print(*parts: Table | Tree | Text) -> None:
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    # Who asks for no colour gets no bold type either: it is often a colour.
    system = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(width=width, highlight=False, color_system=system)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    # All at once, so that who reads only the first lines, such as `head`, does not break it off.
    sys.stdout.write(captured.get())
    sys.stdout.flush()
