"""DBOS, with its system database in SQLite."""

from benchmarks.peers.install import PythonPeer

PEER = PythonPeer("dbos", "DBOS 3.4.0, SQLite", "dbos==3.4.0", "dbos_work.py")
