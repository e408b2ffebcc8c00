"""Which webhooks a project takes: a table of its `pyproject.toml` for each path.

[tool.workflow-emulator.webhooks."/webhooks/payments"]
workflow = "orders"
instance = "order-{data.order_id}"   # a template over the JSON body
event = "payment"                    # the type of the event; a template too
payload = "data"                     # a path into the body; the whole body without it
create = false                       # whether to create the instance, with the payload as its params, if it is missing
verify = "stripe"                    # or "standard", "github", "slack", "token"
secret = "PAYMENT_SECRET"            # the name of a variable in `.dev.vars` or the environment
tolerance = "5 minutes"              # of signatures that have a timestamp
header = "X-Token"                   # of a token: where it stands
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from bindings.host import WEBHOOK_PATH
from emulator.domain.duration import UNITS, duration_ms, unknown_unit
from emulator.domain.names import check_event_type, check_instance_id, check_new_instance_id
from emulator.errors import ConfigError, EmulatorError, InvalidDuration
from wrangler_compat.config.reading import Reader, given_text
from wrangler_compat.config.schema import Text
from wrangler_compat.config.tool_table import read_tool_table
from wrangler_compat.config.variables import local_variables
from wrangler_compat.webhooks.schemes import (
    GitHub,
    Scheme,
    SharedToken,
    Slack,
    StandardWebhooks,
    Stripe,
)
from wrangler_compat.webhooks.template import Path, Template, parse_path, parse_template

if TYPE_CHECKING:
    from wrangler_compat.config import WorkerConfig
    from wrangler_compat.config.document import KeyPath

T = TypeVar("T")

DEFAULT_TOLERANCE_MS: Final = 5 * 60 * 1000
"""What Standard Webhooks, Stripe and Slack recommend."""

_TIMED: Final = ("standard", "stripe", "slack")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_URL_PATH: Final = re.compile(r"(/[^\s?#/]+)+/?|/")
_OWN_PATHS: Final = re.compile(rf"/(cdn-cgi|client/v4)(/.*)?|{re.escape(WEBHOOK_PATH)}.*")


class _Entry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The table of one path."""

    workflow: Text
    instance: Text
    event: Text
    verify: Literal["standard", "github", "stripe", "slack", "token"]
    secret: Annotated[str, Meta(min_length=1, description="the name of a variable")]
    payload: Text | None = None
    create: bool | None = None
    tolerance: (
        Annotated[str, Meta(min_length=1, description='a duration such as "5 minutes"')] | None
    ) = None
    header: Annotated[str, Meta(description="the name of a header")] | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """What is done with a delivery to `path`. `payload` leads to a part of the body; empty, to the whole."""

    path: str
    workflow: str
    instance: Template
    event: Template
    payload: Path
    create: bool
    scheme: Scheme


def read_webhooks(config: WorkerConfig, environment: Mapping[str, str]) -> tuple[Webhook, ...]:
    """Read the table. Secrets are those of `.dev.vars` (or `.env`), or else of the process's `environment`.

    Raises:
        ConfigError: it has mistakes; all of them are told, one a line.
    """
    table = read_tool_table(config.root, "webhooks", entries='paths, such as "/webhooks/payments"')
    if table is None:
        return ()
    workflows = [each.name for each in config.workflows if each.script_name is None]
    secrets = {**environment, **local_variables(config.root, config.environment)}
    webhooks: list[Webhook] = []
    for path, value in table.entries.items():
        reading = _Reading(table.reader, (*table.at, path), workflows, secrets)
        if webhook := reading.webhook(path, value):
            webhooks.append(webhook)
    table.reader.finish()
    return tuple(webhooks)


class _Reading:
    """The reading of one path's table, which stands at `at`."""

    def __init__(
        self, reader: Reader, at: KeyPath, workflows: list[str], secrets: Mapping[str, str]
    ) -> None:
        self.reader = reader
        self.at = at
        self.workflows = workflows
        self.secrets = secrets

    def webhook(self, path: str, value: object) -> Webhook | None:
        """Read it; None if a mistake was reported that leaves nothing to go on with."""
        self._check_path(path)
        entry = self.reader.read(_Entry, value, self.at)
        if entry is None:
            return None
        if entry.workflow not in self.workflows:
            known = ", ".join(self.workflows) or "none"
            self._refuse("workflow", entry.workflow, f"expected a workflow of this Worker: {known}")
        create = bool(entry.create)
        instance = self._template(
            "instance", entry.instance, check_new_instance_id if create else check_instance_id
        )
        event = self._template("event", entry.event, check_event_type)
        payload = self._parse("payload", entry.payload, parse_path) if entry.payload else ()
        scheme = self._scheme(entry)
        if instance is None or event is None or payload is None or scheme is None:
            return None
        return Webhook(path, entry.workflow, instance, event, payload, create, scheme)

    def _check_path(self, path: str) -> None:
        if not _URL_PATH.fullmatch(path):
            self.reader.report(self.at, 'expected a path, such as "/webhooks/payments".')
        elif _OWN_PATHS.fullmatch(path):
            self.reader.report(self.at, "the emulator itself answers there; expected another path.")

    def _template(self, key: str, text: str, check: Callable[[object], object]) -> Template | None:
        template = self._parse(key, text, parse_template)
        if template is not None and template.is_constant:
            self._parse(key, text, check)
        return template

    def _scheme(self, entry: _Entry) -> Scheme | None:
        tolerance_ms, header = self._tolerance_ms(entry), self._header(entry)
        secret = self.secrets.get(entry.secret)
        if not secret:
            text = "it is not set: expected a variable of .dev.vars or the environment"
            self._refuse("secret", entry.secret, text)
            return None
        match entry.verify:
            case "standard":
                try:
                    return StandardWebhooks(secret, tolerance_ms)
                except ConfigError as error:  # which says nothing of the value
                    self._refuse("secret", entry.secret, error.message)
                    return None
            case "github":
                return GitHub(secret)
            case "stripe":
                return Stripe(secret, tolerance_ms)
            case "slack":
                return Slack(secret, tolerance_ms)
            case "token":
                return SharedToken(secret, header)

    def _header(self, entry: _Entry) -> str:
        is_token = entry.verify == "token"
        if is_token and entry.header is None:
            self.reader.report(self.at, '"header" is missing: expected the name of a header.')
        elif entry.header is not None and not is_token:
            self._refuse("header", entry.header, 'expected it with verify = "token" only')
        elif entry.header is not None and not _HEADER_NAME.fullmatch(entry.header):
            self._refuse("header", entry.header, "expected the name of a header")
        return entry.header or ""

    def _tolerance_ms(self, entry: _Entry) -> int:
        if entry.tolerance is None:
            return DEFAULT_TOLERANCE_MS
        if entry.verify not in _TIMED:
            text = f'expected none: what verify = "{entry.verify}" checks has no timestamp'
            self._refuse("tolerance", entry.tolerance, text)
        try:
            given_ms = duration_ms(entry.tolerance, what="The tolerance")
        except InvalidDuration:
            given_ms = 0
        if unit := unknown_unit(entry.tolerance):
            text = f'there is no unit "{unit}"; the units are {UNITS}'
            self._refuse("tolerance", entry.tolerance, text)
        elif given_ms <= 0:
            self._refuse("tolerance", entry.tolerance, 'expected a duration such as "5 minutes"')
        return given_ms

    def _parse(self, key: str, text: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(text)
        except EmulatorError as error:
            self._refuse(key, text, error.message.rstrip("."))
            return None

    def _refuse(self, key: str, given: str, problem: str) -> None:
        self.reader.report((*self.at, key), f"got {given_text(given)}; {problem}.")
