"""Every mistake: where it is, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.errors import ConfigError
from wrangler_compat.config import load_config

WriteProject = Callable[[str], Path]

NAME_RULE = (
    "expected a valid name. Workflow names must be 1-64 characters long, start with a letter, number, or "
    "underscore, and may only contain letters, numbers, underscores, or hyphens."
)
TEXT = "expected a non-empty string."
POSITIVE = "expected a positive integer."
RETENTION = 'expected a positive number of milliseconds or a duration such as "7 days".'

MISTAKES = [
    # key, value, the rest of the message after "<key>: "
    ("name", "5", f"got 5; {TEXT}"),
    ("name", '""', f'got ""; {TEXT}'),
    (
        "compatibility_date",
        '"soon"',
        'got "soon"; expected a date in quotes, such as "2026-08-01".',
    ),
    ("compatibility_flags", '"x"', 'got "x"; expected a list, each item a non-empty string.'),
    ("vars", "[1]", "got [1]; expected an object."),
    ("triggers", '["* * * * *"]', 'got ["* * * * *"]; expected an object.'),
    ("workflows", '{"name": "a"}', 'got {"name": "a"}; expected a list, each item an object.'),
    ("exports", '["A"]', 'got ["A"]; expected an object.'),
    ("env", "true", "got true; expected an object."),
    ("main", '"src/index.ts"', 'got "src/index.ts"; expected the path of a Python file (.py).'),
]

WORKFLOW_MISTAKES = [
    ("name", '"a b"', f'got "a b"; {NAME_RULE}'),
    ("name", '"-a"', f'got "-a"; {NAME_RULE}'),
    ("name", f'"{"a" * 65}"', f'got "{"a" * 65}"; {NAME_RULE}'),
    ("name", '"é"', f'got "é"; {NAME_RULE}'),
    ("name", '""', f'got ""; {NAME_RULE}'),
    ("binding", "1", f"got 1; {TEXT}"),
    ("class_name", "null", f"got null; {TEXT}"),
    ("script_name", "[]", f"got []; {TEXT}"),
    ("limits", "10", "got 10; expected an object."),
    ("limits.steps", "0", f"got 0; {POSITIVE}"),
    ("limits.steps", "true", f"got true; {POSITIVE}"),
    ("limits.steps", "1.5", f"got 1.5; {POSITIVE}"),
    ("concurrency.limit", '"4"', f'got "4"; {POSITIVE}'),
    (
        "schedules",
        "[]",
        "got []; expected a non-empty string or a non-empty list of cron expressions.",
    ),
    (
        "schedules",
        '"0 0 * * 0"',
        'The cron expression "0 0 * * 0" is not valid: the day of the week "0" is not allowed; expected',
    ),
    ("schedules", '"0 0 31 11 *"', 'The cron expression "0 0 31 11 *" is not valid: no year has'),
    ("schedules", '["* * * * *", ""]', 'got ["* * * * *", ""]; expected a non-empty string or a'),
    ("default_retention.success_retention", "0", f"got 0; {RETENTION}"),
    ("default_retention.error_retention", '""', f'got ""; {RETENTION}'),
    (
        "default_retention.error_retention",
        '"a while"',
        'got "a while"; expected a duration such as "7 days", of 30 days at most.',
    ),
    (
        "default_retention.success_retention",
        '"31 days"',
        'got "31 days"; expected a duration such as "7 days", of 30 days at most.',
    ),
    ("jurisdiction", '"mars"', 'got "mars"; expected "eu" or "fedramp" or "us".'),
]


def mistakes_of(path: Path, environment: str | None = None) -> list[str]:
    """Load, and give the lines of the error, each without the path of the file."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, environment)
    lines = caught.value.message.splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def workflow_json(**changes: str) -> str:
    keys = {"name": '"a"', "binding": '"A"', "class_name": '"K"'} | changes
    return "{" + ", ".join(f'"{key}": {value}' for key, value in keys.items()) + "}"


@pytest.mark.parametrize(("key", "value", "problem"), MISTAKES)
def test_a_mistake_at_the_top_is_told_with_its_place(
    write_project: WriteProject, key: str, value: str, problem: str
) -> None:
    main = "" if key == "main" else '"main": "src/entry.py",'
    path = write_project(f'{{ {main}\n\n  "{key}":\n    {value} }}')
    assert mistakes_of(path) == [f"4:5: {key}: {problem}"]


@pytest.mark.parametrize(("key", "value", "problem"), WORKFLOW_MISTAKES)
def test_a_mistake_of_a_workflow_is_told_with_its_place(
    write_project: WriteProject, key: str, value: str, problem: str
) -> None:
    outer, _, inner = key.partition(".")
    entry = workflow_json(**{outer: f'{{ "{inner}":\n{value} }}' if inner else f"\n{value}"})
    path = write_project(
        f'{{ "main": "src/entry.py", "workflows": [{workflow_json(binding=chr(34) + "B" + chr(34))}, {entry}] }}'
    )
    (mistake,) = mistakes_of(path)
    assert mistake.startswith(f"2:1: workflows[1].{key}: {problem}")


@pytest.mark.parametrize("key", ["name", "binding", "class_name"])
def test_a_workflow_without_a_required_key_is_told_so(
    write_project: WriteProject, key: str
) -> None:
    kept = {"name", "binding", "class_name"} - {key}
    entry = ", ".join(f'"{name}": "X"' for name in kept)
    path = write_project(f'{{ "main": "src/entry.py",\n "workflows": [{{ {entry} }}] }}')
    (mistake,) = mistakes_of(path)
    assert mistake.startswith(f'2:16: workflows[0]: "{key}" is missing: expected a')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits", '{ "steps": 5 }'),
        ("concurrency", '{ "limit": 5 }'),
        ("schedules", '"* * * * *"'),
        ("default_retention", '{ "success_retention": 5 }'),
        ("jurisdiction", '"eu"'),
    ],
)
def test_a_workflow_of_another_script_cannot_be_set_up_here(
    write_project: WriteProject, key: str, value: str
) -> None:
    entry = workflow_json(script_name='"other"', **{key: value})
    path = write_project(f'{{ "main": "src/entry.py", "name": "me", "workflows": [{entry}] }}')
    (mistake,) = mistakes_of(path)
    assert (
        f'workflows[0].{key}: "{key}" cannot be set here, since "script_name" is another script, "other"'
        in mistake
    )


def test_several_mistakes_are_told_together_in_the_order_of_the_file(
    write_project: WriteProject,
) -> None:
    path = write_project(
        """{
  "name": 1,
  "main": "src/gone.py",
  "workflows": [
    { "name": "a b", "binding": "A", "class_name": "" },
    { "name": "fine", "binding": "B", "class_name": "K" },
    { "binding": "C", "class_name": "K", "limits": { "steps": -1 } },
    7,
  ],
}"""
    )
    assert [line.split(": ")[:2] for line in mistakes_of(path)] == [
        ["2:11", "name"],
        ["3:11", "main"],
        ["4:16", "workflows"],
    ]
    path = write_project(path.read_text().replace("    7,\n", ""))
    assert [line.split(": ")[:2] for line in mistakes_of(path)] == [
        ["2:11", "name"],
        ["3:11", "main"],
        ["5:15", "workflows[0].name"],
        ["5:52", "workflows[0].class_name"],
        ["7:5", "workflows[2]"],
        ["7:63", "workflows[2].limits.steps"],
    ]


def test_a_main_that_is_missing_or_not_there_is_told_apart(write_project: WriteProject) -> None:
    path = write_project("{}")
    assert mistakes_of(path) == ['1:1: "main" is missing: expected the path of a Python file.']
    path = write_project('{ "main": "src/gone.py" }')
    assert mistakes_of(path) == [
        f'1:11: main: got "src/gone.py", but there is no file {path.parent / "src" / "gone.py"}.'
    ]
    path = write_project('{ "main": 5 }')
    assert mistakes_of(path) == [f"1:11: main: got 5; {TEXT}"]


def test_a_mistake_in_an_environment_names_the_environment(write_project: WriteProject) -> None:
    path = write_project(
        f'{{ "main": "src/entry.py", "env": {{ "test": {{\n "workflows": [{workflow_json(name="1")}] }} }} }}'
    )
    (mistake,) = mistakes_of(path, "test")
    assert mistake.startswith("2:25: env.test.workflows[0].name: got 1; ")
    load_config(path)  # an environment that is not asked for does not stand in the way


def test_an_unknown_environment_is_refused_with_those_there_are(
    write_project: WriteProject,
) -> None:
    path = write_project('{ "main": "src/entry.py", "env": { "test": {}, "live": {} } }')
    assert mistakes_of(path, "tset") == [
        '1:1: there is no environment "tset"; those in the file: test, live.'
    ]


def test_a_binding_is_declared_once(write_project: WriteProject) -> None:
    entries = (
        f"{workflow_json()}, {workflow_json()}, {workflow_json(binding=chr(34) + 'V' + chr(34))}"
    )
    more = workflow_json(binding='"KV"')
    path = write_project(
        f'{{ "main": "src/entry.py", "vars": {{ "V": 1 }}, "kv_namespaces": [{{ "binding": "KV" }}],'
        f' "workflows": [{entries}, {more}] }}'
    )
    assert [line.partition(": ")[2] for line in mistakes_of(path)] == [
        'workflows[1].binding: "A" is already another workflow\'s binding; expected a name of its own.',
        'workflows[2].binding: "V" is already a variable; expected a name of its own.',
        'workflows[3].binding: "KV" is already a KV namespace; expected a name of its own.',
    ]


def test_one_workflow_is_one_class(write_project: WriteProject) -> None:
    path = write_project(
        f'{{ "main": "src/entry.py", "workflows": [{workflow_json()}],\n'
        ' "exports": { "Other": { "type": "workflow", "name": "a" } } }'
    )
    assert mistakes_of(path) == [
        '2:54: exports.Other.name: "a" is already the workflow of class K; expected another name for Other.'
    ]


def test_a_mistake_in_toml_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "entry.py").touch()
    path = tmp_path / "wrangler.toml"
    path.write_text(
        'main = "entry.py"\ncompatibility_date = 2026-08-01\n[[workflows]]\nname = "a"\nbinding = "A"\n'
        "class_name = 5\nlimits = { steps = 0 }\n"
    )
    assert mistakes_of(path) == [
        '2: compatibility_date: got "2026-08-01"; expected a date in quotes, such as "2026-08-01".',
        f"6: workflows[0].class_name: got 5; {TEXT}",
        f"7: workflows[0].limits.steps: got 0; {POSITIVE}",
    ]


def test_a_long_value_is_cut(write_project: WriteProject) -> None:
    path = write_project(f'{{ "main": "src/entry.py", "vars": "{"x" * 500}" }}')
    (mistake,) = mistakes_of(path)
    assert len(mistake) < 150


def test_each_wrong_cron_expression_of_a_list_is_told_with_its_place(
    write_project: WriteProject,
) -> None:
    entry = workflow_json(schedules='["* * * * *",\n  "* * * *"]')
    path = write_project(
        f'{{ "main": "src/entry.py",\n "triggers": {{ "crons": ["@hourly"] }},\n "workflows": [{entry}],\n'
        ' "env": { "test": { "triggers": { "crons": ["0 9 * * *", "0 9 * * 8"] } } } }'
    )
    fields = "expected five fields with spaces between them"
    top, own = mistakes_of(path)
    assert top.startswith(
        f'2:26: triggers.crons[0]: The cron expression "@hourly" is not valid: {fields}'
    )
    assert own.startswith(
        f'4:3: workflows[0].schedules[1]: The cron expression "* * * *" is not valid: {fields}'
    )
    (mistake,) = mistakes_of(path, "test")
    assert mistake.startswith('5:58: env.test.triggers.crons[1]: The cron expression "0 9 * * 8"')


def test_two_entries_of_one_workflow_may_not_set_it_differently(
    write_project: WriteProject,
) -> None:
    path = write_project(
        '{ "main": "src/entry.py", "workflows": [\n'
        '  { "binding": "A", "name": "a", "class_name": "K", "limits": { "steps": 3 }, "schedules": "0 * * * *" },\n'
        '  { "binding": "B", "name": "a", "class_name": "K", "limits": { "steps": 4 }, "schedules": "0 * * * *" }\n'
        "] }"
    )
    assert mistakes_of(path) == [
        '3:63: workflows[1].limits: "limits" of the workflow "a" is another one in an entry above: expected the same, or none.'
    ]


@pytest.mark.parametrize(
    "name", ["bindings.py", "emulator.py", "wrangler_compat.py", "emulator/things.py"]
)
def test_a_module_called_like_a_package_of_the_emulator_is_told(
    write_project: WriteProject, name: str
) -> None:
    path = write_project('{\n"main": "src/entry.py" }')
    module = path.parent / "src" / name
    module.parent.mkdir(exist_ok=True)
    module.touch()
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    top = path.parent / "src" / name.partition("/")[0]
    assert str(caught.value) == (
        f'{path}:2:9: main: "import {top.stem}" would not find {top} here, but a package of the emulator, which has the '
        "same name: rename it."
    )


def test_a_folder_without_modules_and_the_main_module_itself_may_be_called_like_one(
    write_project: WriteProject,
) -> None:
    path = write_project('{ "main": "src/bindings.py" }')
    (path.parent / "src" / "bindings.py").touch()
    (path.parent / "src" / "emulator").mkdir()
    assert load_config(path).main.name == "bindings.py"
