"""The web page of `workflow-emulator dev`: workflows, instances, and what happens in one, as it happens."""
