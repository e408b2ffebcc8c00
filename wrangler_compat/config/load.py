"""From a wrangler file to a `WorkerConfig`: the rules that concern more than one key.

A named environment inherits what describes the script (name, main, compatibility, exports, triggers)
and must repeat what it is bound to (workflows, vars, every other binding) (Cloudflare: Wrangler, environments).
"""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from emulator.domain.cron import parse_cron
from emulator.domain.duration import retention_ms, unknown_unit
from emulator.domain.limits import (
    DAY_MS,
    DEFAULT_RETENTION_MS,
    MAX_INSTANCE_STEPS,
    MAX_RETENTION_MS,
)
from emulator.errors import InvalidCron, InvalidRetention
from wrangler_compat.config.document import read_document
from wrangler_compat.config.locate import find_config
from wrangler_compat.config.model import WorkerConfig, WorkflowConfig
from wrangler_compat.config.reading import Reader, given_text
from wrangler_compat.config.schema import (
    SETTINGS,
    DefaultRetention,
    Section,
    WorkflowBinding,
    WorkflowExport,
    WorkflowSettings,
)
from wrangler_compat.config.suppliers import read_suppliers
from wrangler_compat.config.unsupplied import unsupplied_bindings
from wrangler_compat.config.variables import local_variables

if TYPE_CHECKING:
    from pathlib import Path

    from wrangler_compat.config.document import KeyPath

_LOOKS_ALIKE = 0.8
"""How much of two keys must be the same: of `workflow` and `workflows` 0.94, of no two that wrangler has."""

_OWN_PACKAGES = ("bindings", "emulator", "wrangler_compat")
"""What the emulator is made of; these are imported before anything of the project's."""

_SETTING_OF_FIELD: dict[str, tuple[str, ...]] = {
    "step_limit": ("limits",),
    "concurrency_limit": ("concurrency",),
    "schedules": ("schedules",),
    "success_retention_ms": ("default_retention", "success_retention"),
    "error_retention_ms": ("default_retention", "error_retention"),
}
"""The key that sets a field of a `WorkflowConfig`, from the workflow's entry."""

_UNSET: dict[str, object] = {each.name: each.default for each in fields(WorkflowConfig)}


def load_config(start: Path, environment: str | None = None) -> WorkerConfig:
    """Load the configuration of the project at `start`: its folder, one inside it, or the file.

    Raises:
        ConfigError: there is no file, or it has mistakes; all of them are told, one a line.
    """
    path = find_config(start)
    reader = Reader(read_document(path), is_lenient=True)
    return _Loading(reader, environment).worker()


class _Loading:
    """The file, seen from one environment. `at` is where the environment's own section is."""

    def __init__(self, reader: Reader, environment: str | None) -> None:
        self.reader = reader
        self.path = reader.document.path
        self.environment = environment
        self.at: KeyPath = ()
        self.raw = reader.document.data
        self.top = self._section()
        self.own = self.top
        if environment is not None:
            self._enter(environment)

    def _enter(self, environment: str) -> None:
        sections = self.top.env or {}
        if environment not in sections:
            known = ", ".join(sections) or "none"
            self.reader.report(
                (), f'there is no environment "{environment}"; those in the file: {known}.'
            )
            return
        self.at = ("env", environment)
        self.raw = sections[environment]
        self.own = self._section()
        for key in ("workflows", "vars"):
            if getattr(self.top, key) and getattr(self.own, key) is None:
                self.reader.warn(
                    self.at,
                    f'"{key}" is at the top of the file, and environments do not inherit it.',
                )

    def _section(self) -> Section:
        """Read the section that is at hand. Most of its keys are others'; one that looks like ours is told."""
        names = Section.__struct_fields__
        for key in self.raw.keys() - set(names):
            for meant in get_close_matches(key, names, 1, _LOOKS_ALIKE):
                self.reader.warn((*self.at, key), f'"{key}": perhaps "{meant}" is meant.')
        return self.reader.read(Section, self.raw, self.at) or Section()

    def worker(self) -> WorkerConfig:
        own, top, root = self.own, self.top, self.path.parent
        name = top.name or "worker"
        if self.at:
            name = own.name or f"{name}-{self.environment}"
        crons_at: KeyPath = (*(self.at if own.triggers else ()), "triggers", "crons")
        triggers = own.triggers or top.triggers
        crons = self._crons((triggers and triggers.crons) or [], crons_at)
        flags = (
            top.compatibility_flags if own.compatibility_flags is None else own.compatibility_flags
        )
        main, workflows = self._main(), self._workflows(name)
        self.reader.finish()
        return WorkerConfig(
            path=self.path,
            root=root,
            main=main,
            name=name,
            environment=self.environment,
            compatibility_date=own.compatibility_date or top.compatibility_date,
            compatibility_flags=frozenset(flags or ()),
            workflows=workflows,
            vars=(own.vars or {}) | local_variables(root, self.environment),
            crons=crons,
            unsupplied=unsupplied_bindings(self.raw),
            suppliers=read_suppliers(root),
            warnings=tuple(self.reader.warnings),
        )

    def _main(self) -> Path:
        at: KeyPath = (*self.at, "main") if self.own.main else ("main",)
        main = self.own.main or self.top.main
        path = self.path.parent / (main or "")
        if main is None:
            if "main" not in self.reader.document.data:
                self.reader.report((), '"main" is missing: expected the path of a Python file.')
        elif path.suffix != ".py":
            self.reader.report(
                at, f"got {given_text(main)}; expected the path of a Python file (.py)."
            )
        elif not path.is_file():
            self.reader.report(at, f"got {given_text(main)}, but there is no file {path}.")
        else:
            self._report_shadowed(path, at)
        return path

    def _report_shadowed(self, main: Path, at: KeyPath) -> None:
        """Report the modules beside the main one that cannot be imported here, as they can on Cloudflare."""
        for name in _OWN_PACKAGES:
            file, folder = main.with_name(f"{name}.py"), main.with_name(name)
            found = [file] if file.is_file() and file != main else []
            found += [folder] if any(folder.rglob("*.py")) else []
            for module in found:
                self.reader.report(
                    at,
                    f'"import {name}" would not find {module} here, but a package of the emulator, which has the same '
                    "name: rename it.",
                )

    def _workflows(self, script: str) -> tuple[WorkflowConfig, ...]:
        found: list[tuple[KeyPath, WorkflowConfig]] = []
        for index, entry in enumerate(self.own.workflows or ()):
            at: KeyPath = (*self.at, "workflows", index)
            if binding := self.reader.read(WorkflowBinding, entry, at):
                found.append((at, self._bound(binding, script, at)))
        base = () if self.own.exports is None else self.at
        for class_name, entry in ((self.own if base else self.top).exports or {}).items():
            at = (*base, "exports", class_name)
            is_workflow = entry.get("type") == "workflow"
            if is_workflow and (settings := self.reader.read(WorkflowExport, entry, at)):
                found.append((at, self._defined(settings, class_name, at)))
        self._report_twins(found)
        return self._with_settings_of_twins(found)

    def _bound(self, entry: WorkflowBinding, script: str, at: KeyPath) -> WorkflowConfig:
        workflow = replace(self._defined(entry, entry.class_name, at), binding=entry.binding)
        if entry.script_name in (None, script):
            return workflow
        for key in SETTINGS:
            if getattr(entry, key) is not None:
                self.reader.report(
                    (*at, key),
                    f'"{key}" cannot be set here, since "script_name" is another script, {given_text(entry.script_name)}: '
                    "set it where the workflow is defined.",
                )
        return replace(workflow, script_name=entry.script_name)

    def _defined(self, entry: WorkflowSettings, class_name: str, at: KeyPath) -> WorkflowConfig:
        step_limit = entry.limits and entry.limits.steps
        if step_limit is not None and step_limit > MAX_INSTANCE_STEPS:
            self.reader.warn(
                (*at, "limits", "steps"),
                f'"{entry.name}" has a step limit of {step_limit:,}, which exceeds the production maximum of '
                f"{MAX_INSTANCE_STEPS:,}. This configuration may not work when deployed.",
            )
        schedules = self._crons(entry.schedules or [], (*at, "schedules"))
        retention = entry.default_retention or DefaultRetention()
        retention_at = (*at, "default_retention")
        return WorkflowConfig(
            name=entry.name,
            class_name=class_name,
            step_limit=step_limit,
            concurrency_limit=entry.concurrency and entry.concurrency.limit,
            schedules=schedules,
            success_retention_ms=self._retention_ms(
                retention.success_retention, (*retention_at, "success_retention")
            ),
            error_retention_ms=self._retention_ms(
                retention.error_retention, (*retention_at, "error_retention")
            ),
        )

    def _retention_ms(self, given: int | str | None, at: KeyPath) -> int | None:
        if given is None:
            return None
        try:
            if unit := unknown_unit(given):
                self.reader.warn(
                    at,
                    f'got {given_text(given)}; there is no unit "{unit}", so that is milliseconds.',
                )
            return retention_ms(given)
        except InvalidRetention:
            self.reader.report(
                at,
                f'got {given_text(given)}; expected a duration such as "7 days", of '
                f"{MAX_RETENTION_MS // DAY_MS} days at most.",
            )
            return DEFAULT_RETENTION_MS

    def _crons(self, given: str | list[str], at: KeyPath) -> tuple[str, ...]:
        """Check cron expressions: one, or a list."""
        if isinstance(given, str):
            placed: list[tuple[KeyPath, str]] = [(at, given)]
        else:
            placed = [((*at, index), text) for index, text in enumerate(given)]
        for place, text in placed:
            try:
                parse_cron(text)
            except InvalidCron as error:
                self.reader.report(place, error.message)
        return tuple(text for _, text in placed)

    def _report_twins(self, found: list[tuple[KeyPath, WorkflowConfig]]) -> None:
        """Report a binding that is taken, and a workflow that is said to be two classes."""
        taken = unsupplied_bindings(self.raw)
        taken |= dict.fromkeys(self.own.vars or (), "a variable")
        classes: dict[str, str] = {}
        for at, workflow in found:
            if workflow.binding in taken:
                self.reader.report(
                    (*at, "binding"),
                    f'"{workflow.binding}" is already {taken[workflow.binding]}; expected a name of its own.',
                )
            elif workflow.binding:
                taken[workflow.binding] = "another workflow's binding"
            if classes.setdefault(workflow.name, workflow.class_name) != workflow.class_name:
                self.reader.report(
                    (*at, "name"),
                    f'"{workflow.name}" is already the workflow of class {classes[workflow.name]}; '
                    f"expected another name for {workflow.class_name}.",
                )

    def _with_settings_of_twins(
        self, found: list[tuple[KeyPath, WorkflowConfig]]
    ) -> tuple[WorkflowConfig, ...]:
        """Give each entry of a workflow the settings that any of them states, and report where two differ."""
        stated: dict[str, dict[str, object]] = {}
        for at, workflow in found:
            if workflow.script_name is not None:
                continue
            settings = stated.setdefault(workflow.name, {})
            for field, key in _SETTING_OF_FIELD.items():
                value = getattr(workflow, field)
                if value != _UNSET[field] and settings.setdefault(field, value) != value:
                    self.reader.report(
                        (*at, *key),
                        f'"{key[-1]}" of the workflow "{workflow.name}" is another one in an entry above: expected the same, '
                        "or none.",
                    )
        return tuple(
            workflow if workflow.script_name else replace(workflow, **stated[workflow.name])
            for _, workflow in found
        )
