"""The names of the bindings that are not emulated: wrangler's other sections, read for their names alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECTIONS = (  # where the section is, the key of the name in each entry, what it declares
    ("kv_namespaces", "binding", "a KV namespace"),
    ("d1_databases", "binding", "a D1 database"),
    ("r2_buckets", "binding", "an R2 bucket"),
    ("queues.producers", "binding", "a queue"),
    ("durable_objects.bindings", "name", "a Durable Object"),
    ("services", "binding", "a service binding"),
    ("ai", "binding", "Workers AI"),
    ("vectorize", "binding", "a Vectorize index"),
    ("hyperdrive", "binding", "a Hyperdrive"),
    ("browser", "binding", "Browser Rendering"),
    ("images", "binding", "Images"),
    ("assets", "binding", "static assets"),
    ("analytics_engine_datasets", "binding", "an Analytics Engine dataset"),
    ("send_email", "name", "an email binding"),
    ("mtls_certificates", "binding", "an mTLS certificate"),
    ("dispatch_namespaces", "binding", "a dispatch namespace"),
    ("secrets_store_secrets", "binding", "a Secrets Store secret"),
    ("pipelines", "binding", "a pipeline"),
    ("ratelimits", "name", "a rate limit"),
    ("version_metadata", "binding", "version metadata"),
)


def unsupplied_bindings(section: Mapping[str, object]) -> dict[str, str]:
    """Map each binding of `section` that is not a workflow to what it is.

    What does not look like a binding is passed over: these keys are not ours to judge.
    """
    return {
        name: kind
        for place, key, kind in _SECTIONS
        for entry in _entries(section, place)
        if isinstance(name := entry.get(key), str)
    }


def _entries(section: Mapping[str, object], place: str) -> Iterator[Mapping[str, object]]:
    found: object = section
    for key in place.split("."):
        found = cast("Mapping[str, object]", found).get(key) if isinstance(found, dict) else None
    for entry in cast("list[object]", found) if isinstance(found, list) else [found]:
        if isinstance(entry, dict):
            yield cast("Mapping[str, object]", entry)
