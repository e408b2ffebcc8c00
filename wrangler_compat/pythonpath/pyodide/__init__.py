"""The folder of `pyodide.ffi`; nothing else of Pyodide exists outside of it."""
