"""Every error there is has an answer in both APIs."""

from __future__ import annotations

import pytest

from emulator.errors import Conflict, EmulatorError, HookConflictError, InvalidInput, NotFound
from tests.product_errors import product_errors
from wrangler_compat.rest.answers import AUTHENTICATION, local_answer, remote_answer

RETRIED_BY_THE_SDK = {408, 409, 429}


@pytest.mark.parametrize("error", product_errors())
def test_every_error_has_an_answer_in_both_apis(error: type[EmulatorError]) -> None:
    for answer in (remote_answer(error()), local_answer(error())):
        assert 400 <= answer.status < 600
        assert answer.code != AUTHENTICATION


@pytest.mark.parametrize(
    "error", [each for kind in (InvalidInput, NotFound, Conflict) for each in product_errors(kind)]
)
def test_a_mistake_of_the_client_is_never_sent_again_by_the_sdk(
    error: type[EmulatorError],
) -> None:
    status = remote_answer(error()).status
    assert 400 <= status < 500
    # No client of Cloudflare's asks for a hook; who does gets the same answer however often.
    assert status not in RETRIED_BY_THE_SDK or error is HookConflictError
