"""What tests have arranged for instances, where it outlives them in memory.

The core has an instance's modifiers in its state, and a state is forgotten while its instance sleeps. So they are kept
here, by name; and what is arranged for all instances that a workflow will create, until they are.
"""

from __future__ import annotations

from typing import Literal

from emulator.core.modifiers import Modifiers
from emulator.domain.instance import InstanceKey


class Arrangements:
    """Modifiers by instance, and by workflow for its future instances. It outlives an engine, too.

    `replays` says which code that rests leaves memory. With "few" that is what is worth a replay (see `InstanceActor`): where
    years pass in a second, code would be replayed all the time.
    """

    def __init__(self, *, replays: Literal["all", "few", "none"] = "all") -> None:
        self.replays = replays
        self._instances: dict[InstanceKey, Modifiers] = {}
        self._workflows: dict[str, Modifiers] = {}
        self._created: dict[str, list[InstanceKey]] = {}

    def of(self, key: InstanceKey) -> Modifiers | None:
        """What is arranged for an instance."""
        return self._instances.get(key)

    def change(self, key: InstanceKey, modifiers: Modifiers | None) -> None:
        """Arrange something for an instance, which need not exist; None: nothing any more."""
        if modifiers is None:
            self._instances.pop(key, None)
        else:
            self._instances[key] = modifiers

    def born(self, key: InstanceKey) -> Modifiers | None:
        """An instance is created: from now on what is arranged for its workflow is arranged for it."""
        if key.workflow in self._created:
            self._created[key.workflow].append(key)
            self._instances.setdefault(key, self._workflows[key.workflow])
        return self.of(key)

    # what is arranged for the instances to come

    def capture(self, workflow: str, modifiers: Modifiers) -> None:
        """Arrange something for all instances of a workflow that are created from now on."""
        self._workflows[workflow] = modifiers
        self._created.setdefault(workflow, [])

    def captured(self, workflow: str) -> list[InstanceKey] | None:
        """The instances created since the first `capture`, in their order; None: nothing is captured."""
        return self._created.get(workflow)

    def release(self, workflow: str) -> None:
        """Arrange nothing for the workflow's instances any more."""
        self._workflows.pop(workflow, None)
        self._created.pop(workflow, None)
