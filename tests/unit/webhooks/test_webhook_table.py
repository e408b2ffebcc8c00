"""The table of webhooks in `pyproject.toml`: what it says, and what is said of its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindings.host import WEBHOOK_PATH
from emulator.errors import ConfigError
from tests.unit.webhooks.conftest import Project
from tests.unit.webhooks.senders import SECRET, WHSEC
from wrangler_compat.webhooks.schemes import GitHub, SharedToken, Slack, StandardWebhooks, Stripe
from wrangler_compat.webhooks.table import read_webhooks
from wrangler_compat.webhooks.template import parse_template

SECRETS = {"SECRET": SECRET, "WHSEC": WHSEC}
HEADER = '[tool.workflow-emulator.webhooks."/pay"]'
PLAIN = {
    "workflow": '"orders"',
    "instance": '"order-{id}"',
    "event": '"payment"',
    "verify": '"github"',
    "secret": '"SECRET"',
}


def table(**settings: str | None) -> str:
    """The table of one webhook: a plain one, with changes (None: without that line)."""
    lines = {key: value for key, value in {**PLAIN, **settings}.items() if value is not None}
    return "\n".join([HEADER, *(f"{key} = {value}" for key, value in lines.items())])


@pytest.mark.parametrize("toml", ["", "[tool.other]\n", "[tool.workflow-emulator.webhooks]\n"])
def test_without_a_table_there_are_no_webhooks(project: Project, toml: str) -> None:
    assert read_webhooks(project(toml), {}) == ()


def test_without_a_file_there_are_no_webhooks(project: Project) -> None:
    config = project("")
    (config.root / "pyproject.toml").unlink()
    assert read_webhooks(config, {}) == ()


def test_a_webhook_has_what_its_table_says(project: Project) -> None:
    text = table(payload='"data.object"', create="true", event='"pay-{kind}"')
    [webhook] = read_webhooks(project(text), SECRETS)
    assert webhook.path == "/pay"
    assert webhook.workflow == "orders"
    assert webhook.instance == parse_template("order-{id}")
    assert webhook.event == parse_template("pay-{kind}")
    assert webhook.payload == ("data", "object")
    assert webhook.create is True


def test_by_default_the_whole_body_is_the_payload_and_nothing_is_created(project: Project) -> None:
    [webhook] = read_webhooks(project(table()), SECRETS)
    assert (webhook.payload, webhook.create) == ((), False)


def test_each_path_has_a_table_of_its_own(project: Project) -> None:
    text = f"{table()}\n{table().replace('/pay', '/a/b')}"
    assert [each.path for each in read_webhooks(project(text), SECRETS)] == ["/pay", "/a/b"]


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ({"verify": '"github"'}, GitHub(SECRET)),
        ({"verify": '"stripe"'}, Stripe(SECRET, 300_000)),
        ({"verify": '"stripe"', "tolerance": '"10 seconds"'}, Stripe(SECRET, 10_000)),
        ({"verify": '"slack"', "tolerance": '"1 hour"'}, Slack(SECRET, 3_600_000)),
        ({"verify": '"token"', "header": '"X-Token"'}, SharedToken(SECRET, "X-Token")),
    ],
)
def test_a_webhook_has_its_scheme(
    project: Project, settings: dict[str, str], scheme: object
) -> None:
    [webhook] = read_webhooks(project(table(**settings)), SECRETS)
    assert webhook.scheme == scheme


def test_a_webhook_may_follow_standard_webhooks(project: Project) -> None:
    text = table(verify='"standard"', secret='"WHSEC"')
    [webhook] = read_webhooks(project(text), SECRETS)
    assert isinstance(webhook.scheme, StandardWebhooks)


def test_a_secret_of_dev_vars_goes_before_one_of_the_environment(project: Project) -> None:
    config = project(table())
    (config.root / ".dev.vars").write_text("SECRET=of-the-file\n")
    [webhook] = read_webhooks(config, SECRETS)
    assert webhook.scheme == GitHub("of-the-file")


def mistakes(project: Project, toml: str, root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_webhooks(project(toml), {**SECRETS, "EMPTY": "", "WORDS": "not base64"})
    prefix = f"{root / 'pyproject.toml'}:"
    lines = caught.value.message.splitlines()
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


@pytest.mark.parametrize(
    ("settings", "line", "key", "expected"),
    [
        ({"workflow": '"mails"'}, 2, "workflow", 'got "mails"; expected a workflow of this Worker: orders.'),
        ({"workflow": '"mail"'}, 2, "workflow", 'got "mail"; expected a workflow of this Worker: orders.'),
        ({"workflow": "5"}, 2, "workflow", 'got 5; expected a non-empty string.'),
        ({"instance": '"a{"'}, 3, "instance", 'got "a{"; expected a partner for each brace, as in "order-{data.order_id}".'),
        ({"instance": '"{}"'}, 3, "instance", 'got "{}"; expected keys with dots between, such as "data.order_id".'),
        ({"instance": '"a!"'}, 3, "instance", 'got "a!"; Workflow instance has invalid id.'),
        ({"payload": '"a..b"'}, 7, "payload", 'got "a..b"; expected keys with dots between, such as "data.order_id".'),
        ({"create": '"yes"'}, 7, "create", 'got "yes"; expected true or false.'),
        ({"verify": '"stripes"'}, 5, "verify", 'got "stripes"; expected "standard" or "github" or "stripe" or "slack" or "token".'),
        ({"verify": None}, 1, "", '"verify" is missing: expected "standard" or "github" or "stripe" or "slack" or "token".'),
        ({"secret": '"OTHER"'}, 6, "secret", 'got "OTHER"; it is not set: expected a variable of .dev.vars or the environment.'),
        ({"secret": '"EMPTY"'}, 6, "secret", 'got "EMPTY"; it is not set: expected a variable of .dev.vars or the environment.'),
        ({"verify": '"standard"', "secret": '"WORDS"'}, 6, "secret", 'got "WORDS"; its value is not right: expected "whsec_" and base64 (Standard Webhooks).'),
        ({"tolerance": '"5 minutes"'}, 7, "tolerance", 'got "5 minutes"; expected none: what verify = "github" checks has no timestamp.'),
        ({"verify": '"stripe"', "tolerance": '"soon"'}, 7, "tolerance", 'got "soon"; expected a duration such as "5 minutes".'),
        ({"verify": '"stripe"', "tolerance": '"5 minuts"'}, 7, "tolerance", 'got "5 minuts"; there is no unit "minuts"; the units are second, minute, hour, day, week, month and year.'),
        ({"verify": '"stripe"', "tolerance": '"0 minutes"'}, 7, "tolerance", 'got "0 minutes"; expected a duration such as "5 minutes".'),
        ({"verify": '"stripe"', "tolerance": "300"}, 7, "tolerance", 'got 300; expected a duration such as "5 minutes".'),
        ({"verify": '"token"'}, 1, "", '"header" is missing: expected the name of a header.'),
        ({"verify": '"token"', "header": '"X Token"'}, 7, "header", 'got "X Token"; expected the name of a header.'),
        ({"header": '"X-Token"'}, 7, "header", 'got "X-Token"; expected it with verify = "token" only.'),
        ({"payloads": '"data"'}, 7, "payloads", 'there is no such setting; expected one of: workflow, instance, event, verify, secret, payload, create, tolerance, header.'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_what_was_given_and_what_is_allowed(
    project: Project,
    tmp_path: Path,
    settings: dict[str, str | None],
    line: int,
    key: str,
    expected: str,
) -> None:
    at = ".".join(filter(None, ['tool.workflow-emulator.webhooks."/pay"', key]))
    assert mistakes(project, table(**settings), tmp_path) == [f"{line}: {at}: {expected}"]


def test_a_constant_event_type_must_be_one(project: Project, tmp_path: Path) -> None:
    [line] = mistakes(project, table(event='"a b"'), tmp_path)
    assert 'got "a b"; (workflow.invalid_event_type)' in line


@pytest.mark.parametrize("path", ["pay", "", "/a b", "/a?b", "/a#b", "//a", "/a//b"])
def test_a_path_must_be_one(project: Project, tmp_path: Path, path: str) -> None:
    [line] = mistakes(project, table().replace("/pay", path), tmp_path)
    assert line.endswith('expected a path, such as "/webhooks/payments".')


@pytest.mark.parametrize(
    "path", ["/cdn-cgi", "/cdn-cgi/health", "/client/v4/accounts", WEBHOOK_PATH + "pay"]
)
def test_a_path_may_not_be_one_of_the_emulator(project: Project, tmp_path: Path, path: str) -> None:
    [line] = mistakes(project, table().replace("/pay", path), tmp_path)
    assert line.endswith("the emulator itself answers there; expected another path.")


def test_all_mistakes_are_told_in_the_order_of_the_file(project: Project, tmp_path: Path) -> None:
    text = f"{table(workflow='1', secret='[]')}\n\n{table(event=None).replace('/pay', '/b')}"
    assert [line.partition(":")[0] for line in mistakes(project, text, tmp_path)] == ["2", "6", "8"]


@pytest.mark.parametrize("toml", ["webhooks = 5", 'webhooks = {"/pay" = 5}'])
def test_something_else_than_a_table_is_refused(
    project: Project, tmp_path: Path, toml: str
) -> None:
    [line] = mistakes(project, f"[tool.workflow-emulator]\n{toml}\n", tmp_path)
    assert "expected a" in line
