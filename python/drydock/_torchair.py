"""What programs of a run find as torchair, torch_npu's way to graphs.

Its own libraries need the C++ interface of GE graphs, which is not modelled, so importing it would fail, and with it
packages that only register a converter for their operators. The stand-in lets them: a registration is taken and never
used, because no graph is ever made. Whatever else is called raises NotImplementedError.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

# torch_npu puts a lazy object into sys.modules under the first name, which imports the second when it is used.
_NAME = "torchair"
_GENUINE = "torch_npu.dynamo.torchair"
_REGISTERING = {"register_fx_node_ge_converter", "declare_supported"}


class _NotModelled:
    """A name of torchair's: may be kept, looked into and written into annotations, but not called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> _NotModelled:
        if name.startswith("__"):
            raise AttributeError(name)
        return _NotModelled(f"{self._name}.{name}")

    def __call__(self, *arguments: object, **named: object) -> NoReturn:
        raise NotImplementedError(
            f"{self._name} was called: torchair makes graphs of GE, which Drydock does not model. Run the program "
            "eagerly (without torch.compile or backend='npu')"
        )


def _registers_nothing(*_: object, **__: object) -> Callable[[Any], Any]:
    return lambda converter: converter


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__} has no attribute {name}")
        return _registers_nothing if name in _REGISTERING else _NotModelled(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _GENUINE and not name.startswith((_GENUINE + ".", _NAME + ".")):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name.replace(_GENUINE, _NAME))

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """From now on the stand-in is what a program imports."""
    sys.meta_path.insert(0, _Finder())
