"""Kairo, embedded, on SQLite."""

from benchmarks.peers.install import PythonPeer

PEER = PythonPeer(
    "kairo", "kairo-sdk 0.4.1", "kairo-sdk[embedded]==0.4.1", "kairo_work.py", python=(3, 12)
)
