"""What the source must look like where no linter has a rule for it.

Each test reads the files as text or as a syntax tree, and names every place that breaks the rule.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("emulator", "bindings", "wrangler_compat")
PRODUCT = (*PACKAGES, "examples", "benchmarks")
BANNED_STEMS = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "manager",
    "base",
    "internal",
}
BANNED_WORDS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
TEXT_SUFFIXES = {".py", ".sql", ".md", ".toml", ".jsonc", ".json", ".html", ".js", ".css", ".yml"}
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 500


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts):
                yield path


def modules(*folders: str) -> Iterator[Path]:
    return (path for path in files(*folders) if path.suffix == ".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def test_there_is_source_to_look_at() -> None:
    assert len(list(modules(*PACKAGES))) > 10


def test_no_file_has_a_name_that_fits_anything() -> None:
    paths = files(*PRODUCT, "tests", "docs")
    assert not [str(path.relative_to(ROOT)) for path in paths if path.stem in BANNED_STEMS]


def test_nothing_is_put_off() -> None:
    paths = [path for path in files(*PRODUCT, "tests", "docs") if path.suffix in TEXT_SUFFIXES]
    paths += [ROOT / name for name in ("README.md", "Makefile", "pyproject.toml", ".ci/run")]
    assert not [
        place(path, number)
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if any(word in line for word in BANNED_WORDS)
    ]


def test_every_module_says_what_lives_in_it() -> None:
    """An `__init__.py` may be empty; a module with code may not be silent."""
    assert not [
        str(path.relative_to(ROOT))
        for path in modules(*PRODUCT, "tests")
        if tree(path).body and ast.get_docstring(tree(path)) is None
    ]


def test_only_the_command_line_prints() -> None:
    command_line = ROOT / "wrangler_compat" / "cli"
    assert not [
        place(path, call.lineno)
        for path in modules(*PACKAGES)
        if not path.is_relative_to(command_line)
        for call in calls(path)
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def test_functions_fit_on_a_page() -> None:
    assert not [
        f"{place(path, node.lineno)} {node.name}"
        for path in modules(*PRODUCT)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]


def test_modules_can_be_read_in_one_sitting() -> None:
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules(*PRODUCT)
    }
    del lengths[ROOT / "emulator/errors.py"]  # a catalogue: nobody reads it from top to bottom
    assert not [
        f"{path.relative_to(ROOT)} {length}"
        for path, length in lengths.items()
        if length > MODULE_LINES_MAX
    ]


REAL_TIME = ("crash", "conformance/worker")
"""Where time passes: processes that are really killed, and a Worker that must run as it is."""


def test_tests_do_not_sleep() -> None:
    """They wait for a condition or drive the clock; only a process that is really killed needs real time.

    `asyncio.sleep` takes no time where the loop is virtual, and `asyncio.sleep(0)` takes none anywhere.
    """
    assert not [
        place(path, call.lineno)
        for path in (*modules("tests"), *modules("examples"))
        if not any(path.is_relative_to(ROOT / "tests" / exempt) for exempt in REAL_TIME)
        for call in calls(path)
        if is_real_sleep(call, loop_is_virtual=imports_the_virtual_loop(path))
    ]


@cache
def imports_the_virtual_loop(path: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "emulator.testing.loop"
        for node in ast.walk(tree(path))
    )


def is_real_sleep(call: ast.Call, *, loop_is_virtual: bool) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(ast.Name("asyncio"), "sleep"), args=[ast.Constant(0)]):
            return False
        case ast.Call(func=ast.Attribute(ast.Name("asyncio"), "sleep")):
            return not loop_is_virtual
        case ast.Call(func=ast.Attribute(ast.Name("time"), "sleep")):
            return True
        case _:
            return False
