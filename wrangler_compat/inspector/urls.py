"""Where the pages are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from emulator.domain.instance import InstanceKey

PREFIX: Final = "/cdn-cgi/local/explorer"
"""Beside the explorer API, as in `wrangler dev`."""

HOME: Final = f"{PREFIX}/"


def workflow_url(workflow: str) -> str:
    """The page of a workflow."""
    return f"{PREFIX}/workflows/{quote(workflow, safe='')}"


def instance_url(key: InstanceKey) -> str:
    """The page of an instance. An id may hold a slash, which is no separator."""
    return f"{workflow_url(key.workflow)}/instances/{quote(key.id, safe='')}"


def stream_url(key: InstanceKey, stream: str) -> str:
    """The page of a stream of an instance."""
    return f"{instance_url(key)}/streams/{quote(stream, safe='')}"


def attribute_url(workflow: str, name: str, value: str) -> str:
    """The instances of a workflow that have an attribute."""
    return with_query(workflow_url(workflow), [("attribute", f"{name}={value}")])


def with_query(url: str, asked: Sequence[tuple[str, object]]) -> str:
    """A page, asked for something."""
    return f"{url}?{urlencode(asked)}"
