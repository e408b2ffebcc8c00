"""This project beside its peers: each does the same work in a process of its own, one after the other.

`scripts/protocol.py` says what the work is and how a script is asked for it; a module for each peer says how it is installed.
"""
