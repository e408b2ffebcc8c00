"""The READMEs of the examples print what is really printed.

Each `$ curl …` of a README is sent to the example's Worker, in order, and the line below it is what must come back. The workflow has
half a minute of virtual time to get there. Identifiers that the emulator chose are matched by position.
"""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from wrangler_compat.testing import open_project

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
EXCHANGE = re.compile(r"^ {4}\$ (?P<command>curl .+)\n {4}(?P<answer>\{.*\})$", re.MULTILINE)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PATIENCE_S = 30


@dataclass(frozen=True)
class Exchange:
    method: str
    path: str
    body: Any
    answer: Any
    file: str | None = None


def exchanges(readme: str) -> list[Exchange]:
    return [
        parse(match["command"], json.loads(match["answer"])) for match in EXCHANGE.finditer(readme)
    ]


def parse(command: str, answer: Any) -> Exchange:
    """Understand `curl [-X METHOD | -T FILE] URL [-d JSON]`, and nothing else."""
    words = iter(shlex.split(command)[1:])
    method, path, body, file = "GET", "/", None, None
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-T":
            method, file = "PUT", next(words)
        elif word == "-d":
            body = json.loads(next(words))
        else:
            path = urlparse(word).path
    return Exchange(method, path, body, answer, file)


def test_every_example_has_a_readme_with_commands() -> None:
    folders = [path.parent for path in EXAMPLES.glob("*/wrangler.jsonc")]
    assert folders
    assert all(exchanges((folder / "README.md").read_text("utf-8")) for folder in folders)


@pytest.mark.parametrize("example", [path.parent.name for path in EXAMPLES.glob("*/README.md")])
async def test_a_readme_prints_what_is_printed(example: str) -> None:
    folder = EXAMPLES / example
    ids: dict[str, str] = {}
    async with open_project(folder) as project:
        for exchange in exchanges((folder / "README.md").read_text("utf-8")):
            path = UUID.sub(lambda match: ids[match[0]], exchange.path)
            answer: Any = None
            for _ in range(PATIENCE_S):
                sent = None if exchange.file is None else (ROOT / exchange.file).read_bytes()
                response = await project.request(
                    exchange.method, path, json=exchange.body, body=sent
                )
                answer = response.json()
                if written := UUID.fullmatch(str(exchange.answer.get("id"))):
                    ids[written[0]] = answer.pop("id")
                    answer["id"] = written[0]
                if answer == exchange.answer or exchange.method != "GET":
                    break
                await project.advance("1 second")
            assert answer == exchange.answer, path
