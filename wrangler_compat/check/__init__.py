"""The Rules of Workflows, checked in the user's source: `workflow-emulator check`."""

from wrangler_compat.check.checking import check_folder, check_source
from wrangler_compat.check.finding import TITLES, Finding
from wrangler_compat.check.project import check_project

__all__ = ["TITLES", "Finding", "check_folder", "check_project", "check_source"]
