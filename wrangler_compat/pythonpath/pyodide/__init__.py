"""The folder of `pyodide.ffi` and `pyodide.http`; nothing else of Pyodide exists outside of it."""
