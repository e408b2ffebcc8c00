"""The Rules of Workflows, checked in the user's source: `workflow-emulator check`."""

from wrangler_compat.check.checking import check_folder, check_source
from wrangler_compat.check.finding import TITLES, Finding

__all__ = ["TITLES", "Finding", "check_folder", "check_source"]
