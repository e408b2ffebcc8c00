"""No example has a deadline: how long one takes says something about the machine, not about the product."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
