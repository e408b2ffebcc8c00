"""The laws: what holds of every run of the engine, whatever the programs, the clients and the faults.

Each law is a function that raises `LawBroken`; its docstring is the law. Most judge the trace of a whole simulation, those
in `moments` a single moment. They have models of their own, as small as can be, and do not use the core's rules, so that
a mistake there cannot excuse itself.
"""
