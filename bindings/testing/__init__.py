"""Tests of workflows: crash simulation."""

from bindings.testing.findings import Finding, Report
from bindings.testing.recorder import Recorder
from bindings.testing.simulate import assert_replayable, simulate

__all__ = ["Finding", "Recorder", "Report", "assert_replayable", "simulate"]
