"""A tenant's code: what is stored of it, whether it compiles, and the class that it becomes.

Theory of operation
===================
Code is one Python module or several, whose names are known to each other and to nobody else: they do not stay in
`sys.modules`. Each module has a namespace of its own, with an `import` that looks among the code's own modules first.
What has been loaded is kept by the hash of the code, so instances of one hash share it; state at module level is no place
to keep anything.

Loading runs the tenant's code in this process, with all that this process may do.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from types import CodeType, ModuleType
from typing import Any, Final

import msgspec

from bindings.entrypoint import WorkflowEntrypoint
from emulator.domain.limits import MAX_CODE_BYTES
from emulator.errors import DynamicCodeError

MAX_LOADED: Final = 100
"""How many codes stay loaded. One that an instance in memory uses stays as long as that."""


class Code(msgspec.Struct, frozen=True):
    """Python modules by name, and which of them defines the workflow class."""

    modules: dict[str, str]
    main: str = "main"

    def manifest(self) -> str:
        """What is stored: the same text for the same code."""
        return msgspec.json.encode(self, order="sorted").decode()

    @property
    def hash(self) -> str:
        """What identifies it: a SHA-256."""
        return sha256(self.manifest().encode()).hexdigest()


def code_of(given: object) -> Code:
    """Accept code: the text of its only module, a `Code`, or a dictionary of `modules` and perhaps `main`; it compiles.

    Raises:
        DynamicCodeError: it is none, is over 1 MiB, or does not compile; with file, line and column.
    """
    if isinstance(given, str):
        code = Code({"main": given})
    elif isinstance(given, Code):
        code = given
    else:
        try:
            code = msgspec.convert(given, Code)
        except msgspec.ValidationError as error:
            raise DynamicCodeError(
                f"Code is a text, or a dictionary of modules and main: {error}"
            ) from None
    _check(code)
    return code


def code_from_manifest(manifest: str) -> Code:
    """What `Code.manifest` has written."""
    return msgspec.json.decode(manifest, type=Code)


def _check(code: Code) -> None:
    if code.main not in code.modules:
        raise DynamicCodeError(
            f"There is no module {code.main!r}; there are: {', '.join(code.modules) or 'none'}."
        )
    for name in code.modules:
        if not name.isidentifier():
            raise DynamicCodeError(
                f"A module cannot be called {name!r}: write the name as `import` has it."
            )
    try:
        size_bytes = sum(len(source.encode()) for source in code.modules.values())
    except UnicodeEncodeError as error:
        raise DynamicCodeError(f"The code is no text that can be stored: {error}.") from None
    if size_bytes > MAX_CODE_BYTES:
        raise DynamicCodeError(
            f"The code has {size_bytes} bytes; {MAX_CODE_BYTES} (1 MiB) are allowed."
        )
    for name, source in code.modules.items():
        compiled(source, f"{name}.py")


def compiled(source: str, file: str) -> CodeType:
    """Compile a module; nothing of it runs.

    Raises:
        DynamicCodeError: it does not compile; with file, line and column.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        text = f"{file}, line {line}, column {column}: {error.msg}"
        raise DynamicCodeError(text, file, line, column) from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        text = f"{file} does not compile: {error or type(error).__name__}"
        raise DynamicCodeError(text, file, 1, 1) from None


class LoadedCode:
    """The modules of a code, each run when it is first imported."""

    def __init__(self, code: Code, code_hash: str) -> None:
        self._code = code
        self._package = f"dynamic.{code_hash[:16]}"
        self._modules: dict[str, ModuleType] = {}

    def workflow_class(self) -> type[WorkflowEntrypoint]:
        """The workflow class that the main module defines. What running the module raises is raised as it is.

        Raises:
            DynamicCodeError: it defines none, or several.
        """
        main = self._module(self._code.main)
        found = {
            name: value
            for name, value in vars(main).items()
            if isinstance(value, type)
            and issubclass(value, WorkflowEntrypoint)
            and value.__module__ == main.__name__
        }
        if len(found) != 1:
            raise DynamicCodeError(
                f"{self._code.main}.py must define one subclass of WorkflowEntrypoint; "
                f"it defines {', '.join(sorted(found)) or 'none'}."
            )
        return next(iter(found.values()))

    def _module(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        # A name of its own: whoever looks into `sys.modules` by it must not find another module there. While it runs it
        # stands there, for `dataclasses` insists on finding it.
        module = ModuleType(f"{self._package}.{name}")
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self._modules[name] = sys.modules[module.__name__] = module
        try:
            # Not under the bare name of its file: that may be one of the project's, whose lines would be shown.
            exec(compiled(self._code.modules[name], f"{self._package}/{name}.py"), vars(module))  # noqa: S102 - this is what it is for
        except BaseException:
            del self._modules[name]
            raise
        finally:
            del sys.modules[module.__name__]
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the signature of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and name in self._code.modules:
            return self._module(name)
        return builtins.__import__(name, globals, locals, fromlist, level)


class LoadedCodes:
    """The classes of codes by hash; those used last stay loaded."""

    def __init__(self) -> None:
        self._classes: OrderedDict[str, type[WorkflowEntrypoint]] = OrderedDict()

    def find(self, code_hash: str) -> type[WorkflowEntrypoint] | None:
        """The class of a code that is loaded."""
        if code_hash not in self._classes:
            return None
        self._classes.move_to_end(code_hash)
        return self._classes[code_hash]

    def load(self, code: Code, code_hash: str) -> type[WorkflowEntrypoint]:
        """Run a code's main module and keep its class; see `LoadedCode.workflow_class`."""
        self._classes[code_hash] = workflow = LoadedCode(code, code_hash).workflow_class()
        if len(self._classes) > MAX_LOADED:
            self._classes.popitem(last=False)
        return workflow
