"""Both APIs under Schemathesis: requests made from their documents, valid and not, and the answers held against them.

The ordinary run is short and always the same; `make fuzz` looks further, by chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.process import Dev
from tests.wire.conftest import ORDINARY_S
from wrangler_compat.rest.local_document import PREFIX as LOCAL
from wrangler_compat.rest.remote_document import PREFIX as REMOTE

EXCLUDED = {
    # Valid by the document is not yet possible: terminating what has ended, a retention of a year.
    "positive_data_acceptance",
    # `not_crashed` holds in its place, which knows where `wrangler dev` answers 500.
    "not_a_server_error",
    # The hooks put other ids in place of those that Schemathesis remembers.
    "ensure_resource_availability",
    "use_after_free",
}
DOCUMENTS = {
    # `wrangler dev` answers 404 to a method that it does not know.
    LOCAL: EXCLUDED | {"unsupported_method", "allow_header_conformance"},
    f"{REMOTE}/openapi.json": EXCLUDED,
}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_request_is_answered_otherwise_than_documented(
    server: Dev, document: str, fuzz_s: int, tmp_path: Path
) -> None:
    is_ordinary = fuzz_s == ORDINARY_S
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--no-color",
        "run",
        server.url + document,
        f"--max-time={fuzz_s}",
        f"--exclude-checks={','.join(sorted(DOCUMENTS[document]))}",
        "--warnings=off",
        *(["--generation-deterministic"] if is_ordinary else []),
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | hooks,
        capture_output=True,
        text=True,
        timeout=fuzz_s + 60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.process.poll() is None
