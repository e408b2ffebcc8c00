"""Unhinged: the engine of Absurd, on SQLite."""

from benchmarks.peers.install import PythonPeer

PEER = PythonPeer("unhinged", "unhinged 0.2.0", "unhinged==0.2.0", "unhinged_work.py")
