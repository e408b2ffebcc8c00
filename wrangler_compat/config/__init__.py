"""A Worker's configuration, as wrangler reads it: `load_config` is the way in."""

from wrangler_compat.config.load import load_config
from wrangler_compat.config.locate import find_config
from wrangler_compat.config.model import WorkerConfig, WorkflowConfig

__all__ = ["WorkerConfig", "WorkflowConfig", "find_config", "load_config"]
