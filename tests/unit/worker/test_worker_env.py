"""What `env` gives, and what it says of what it has not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from emulator.errors import WorkerLoadError
from wrangler_compat.config import WorkerConfig, load_config
from wrangler_compat.worker import current
from wrangler_compat.worker.entrypoint import ExecutionContext
from wrangler_compat.worker.env import Env, make_env


@pytest.fixture
def config(tmp_path: Path) -> WorkerConfig:
    (tmp_path / "entry.py").touch()
    (tmp_path / "wrangler.jsonc").write_text(
        '{ "main": "entry.py", "vars": { "CURRENCY": "EUR", "LIMITS": { "daily": [{ "n": 3 }] } },'
        ' "kv_namespaces": [{ "binding": "CACHE" }, { "binding": "OTHER" }] }'
    )
    return load_config(tmp_path)


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("stand_ins_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def supplied_by(config: WorkerConfig, function: str) -> WorkerConfig:
    return replace(config, suppliers={"CACHE": f"stand_ins_of_a_test:{function}"})


async def test_env_has_variables_and_bindings_as_attributes_and_nothing_else(
    config: WorkerConfig,
) -> None:
    orders = object()
    env = await make_env(config, {"ORDERS": orders})
    assert env.ORDERS is orders
    assert env.CURRENCY == "EUR"
    assert vars(env).keys() == {"ORDERS", "CURRENCY", "LIMITS"}
    assert repr(env) == "Env(CURRENCY, LIMITS, ORDERS)"


async def test_a_json_variable_answers_to_keys_and_attributes(config: WorkerConfig) -> None:
    env = await make_env(config, {})
    assert env.LIMITS.daily[0].n == env.LIMITS["daily"][0]["n"] == 3


async def test_a_binding_that_is_not_emulated_says_how_to_supply_one(config: WorkerConfig) -> None:
    env = await make_env(config, {})
    with pytest.raises(AttributeError) as caught:
        _ = env.CACHE
    message = str(caught.value)
    assert message.startswith("env.CACHE is declared as a KV namespace, which is not emulated.")
    assert message.endswith('\n\n[tool.workflow-emulator.env]\nCACHE = "module:factory"')
    assert not hasattr(env, "OTHER")


def test_a_name_that_is_not_declared_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        AttributeError, match=r"env has no 'CASH': no binding and no variable; there are: A, B\."
    ):
        _ = Env({"B": 1, "A": 2}, {}).CASH
    with pytest.raises(AttributeError, match=r"there are: none\."):
        _ = Env({}, {}).CASH


async def test_a_supplier_without_parameters_is_called(
    config: WorkerConfig, stand_ins: Any
) -> None:
    stand_ins.make = dict
    stand_ins.Cache = type("Cache", (), {"make": staticmethod(lambda: 5)})
    assert (await make_env(supplied_by(config, "make"), {})).CACHE == {}
    env = await make_env(supplied_by(config, "Cache.make"), {})
    assert env.CACHE == 5
    with pytest.raises(AttributeError, match=r"env\.OTHER is declared as a KV namespace"):
        _ = env.OTHER


async def test_a_supplier_with_a_parameter_gets_the_variables_and_may_be_async(
    config: WorkerConfig, stand_ins: Any
) -> None:
    async def make(variables: dict[str, object]) -> list[str]:
        return sorted(variables)

    stand_ins.make = make
    assert (await make_env(supplied_by(config, "make"), {})).CACHE == ["CURRENCY", "LIMITS"]


async def test_a_supplier_that_is_not_there_or_takes_more_is_refused(
    config: WorkerConfig, stand_ins: Any
) -> None:
    def make(one: object, two: object) -> None: ...

    stand_ins.make = make
    with pytest.raises(WorkerLoadError, match="stand_ins_of_a_test has no function 'absent'"):
        await make_env(supplied_by(config, "absent"), {})
    with pytest.raises(WorkerLoadError, match="expected no argument, or one: the variables"):
        await make_env(supplied_by(config, "make"), {})


async def test_a_supplier_whose_module_is_not_there_is_told_with_the_line_that_names_it(
    tmp_path: Path, config: WorkerConfig
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.workflow-emulator.env]\nCACHE = "nomod.inner:make"\n')
    with pytest.raises(WorkerLoadError) as caught:
        await make_env(load_config(config.path), {})
    assert caught.value.message == (
        f"{file}:2: [tool.workflow-emulator.env] CACHE = \"nomod.inner:make\": there is no module 'nomod'."
    )


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_supplier_raises_has_a_note_of_the_line_that_names_it(
    tmp_path: Path, config: WorkerConfig, stand_ins: Any, is_async: bool
) -> None:
    def make() -> None:
        raise OSError("no cache")

    async def make_later() -> None:
        make()

    stand_ins.make = make_later if is_async else make
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.workflow-emulator.env]\nCACHE = "stand_ins_of_a_test:make"\n')
    with pytest.raises(OSError, match="no cache") as caught:
        await make_env(load_config(config.path), {})
    assert caught.value.__notes__ == [
        f'Raised for {file}:2: [tool.workflow-emulator.env] CACHE = "stand_ins_of_a_test:make".'
    ]


async def test_what_the_module_of_a_supplier_imports_in_vain_is_its_own_mistake(
    tmp_path: Path, config: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_in_vain.py").write_text("import nomod\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModuleNotFoundError, match="nomod"):
        await make_env(replace(config, suppliers={"CACHE": "imports_in_vain:make"}), {})


def test_the_env_of_the_module_is_that_of_the_worker_that_runs() -> None:
    with current.running(Env({"A": 1}, {}), ExecutionContext()):
        assert current.env.A == 1
        assert "A" in dir(current.env)
        with current.running(Env({"A": 2}, {}), ExecutionContext()):
            assert current.env.A == 2
        assert current.env.A == 1
        with pytest.raises(AttributeError, match="there are: A"):
            _ = current.env.B


def test_outside_of_a_worker_env_and_wait_until_say_so() -> None:
    with pytest.raises(
        RuntimeError, match=r"`workers\.env` means something only while a Worker runs"
    ):
        _ = current.env.A
    with pytest.raises(RuntimeError, match=r"`workers\.waitUntil`"):
        current.wait_until(object())  # type: ignore[arg-type]
    assert not hasattr(current.env, "__wrapped__")
    assert dir(current.env) == []
