"""Loaded by `import torch` in every process of a run (entry point group torch.backends).

Finds steps (one optimizer update each), keeps the exception that ended the program, and reads the warnings of
operators that torch_npu computes on the host. Does nothing outside a run, and never raises.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any

_installed = False
_steps_by_hand = False
_freed_before_collection = 0
_steps_left: int | None = None
_recorded: set[int] = set()

# torch_npu's own kernels that compute on the CPU say so once. Operators without any kernel go through a fallback that
# the preloaded library counts; their warning ends otherwise and is left alone.
_FALLBACK_WARNING = re.compile(r"operators? (aten::\w+).*fallback to run on the CPU", re.DOTALL)

_DOTTED_NAME = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def autoload() -> None:
    if not os.environ.get("DRYDOCK_RUN_DIR"):
        # A later `import drydock` of the user's must find the package as if it had never been looked at.
        for name in ("drydock", "drydock._hooks"):
            sys.modules.pop(name, None)
        return
    with contextlib.suppress(Exception):
        install()


def install() -> None:
    """Puts the hooks in place, once. torch must be imported."""
    global _installed
    if _installed:
        return
    _installed = True
    global _steps_left
    asked = os.environ.get("DRYDOCK_STEPS", "")
    _steps_left = int(asked) if asked.isdecimal() and int(asked) > 0 else None
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_optimizer_stepped)
    holders = None
    if os.environ.get("DRYDOCK_HOLDERS", "on") != "off":
        from drydock._holders import Holders

        holders = Holders()
        holders.install()
    _chain_exception_hooks(holders)
    _chain_warnings()
    gc.callbacks.append(_collecting)
    _follow_allocator_calls()
    from drydock import _torchair

    _torchair.install()


def _collecting(phase: str, info: dict[str, int]) -> None:
    """Tells which blocks Python's garbage collector freed: those of reference cycles."""
    global _freed_before_collection
    if "torch_npu" not in sys.modules:
        return  # nor is Drydock's library in the process
    with contextlib.suppress(Exception):
        from drydock import _recorder

        if phase == "start":
            _freed_before_collection = _recorder.blocks_freed()
        else:
            _recorder.garbage_collected(info["generation"], _freed_before_collection)


def step() -> None:
    """Marks a step by hand; from then on optimizer updates are not counted any more."""
    global _steps_by_hand
    from drydock import _recorder

    _steps_by_hand = True
    _recorder.step_ended()
    _stop_after_steps()


def _optimizer_stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    if _steps_by_hand:
        return
    with contextlib.suppress(Exception):
        from drydock import _recorder

        _recorder.step_ended()
        _stop_after_steps()


def _stop_after_steps() -> None:
    """Ends the process, with success, after as many steps as `drydock plan` asked for."""
    global _steps_left
    if _steps_left is None:
        return
    _steps_left -= 1
    if _steps_left > 0:
        return
    from drydock import _recorder

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    _recorder.close()
    # Not an exception: the program might catch it, and what it does at its end is none of a plan's business.
    os._exit(0)


def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({os.path.realpath(path) + os.sep for path in map(sysconfig.get_path, names) if path})


def _is_users(file: str, libraries: tuple[str, ...]) -> bool:
    if file.startswith("<") and not file.startswith(("<stdin>", "<string>", "<ipython")):
        return False
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return False
    return not os.path.realpath(file).startswith(libraries)


def innermost_user_frame(traceback: TracebackType | None) -> tuple[str, int]:
    """File and line of the innermost frame outside installed packages; of the innermost at all if there is none."""
    libraries = _library_folders()
    last = ("", 0)
    found = ("", 0)
    while traceback is not None:
        last = (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        if _is_users(last[0], libraries):
            found = last
        traceback = traceback.tb_next
    return found if found[0] else last


def _attribute(owner: Any, name: str) -> Any:
    """What `owner.name` would be, as far as that can be known without running anything of the program's."""
    fields = getattr(owner, "__dict__", {})
    for holder in (fields, *(fields.get(each) or {} for each in ("_parameters", "_buffers", "_modules"))):
        if name in holder:
            return holder[name]
    return None


def _operands(traceback: TracebackType | None) -> str:
    """The tensors and numbers that the innermost frame's line names: the shape of what it wanted follows from them."""
    import torch

    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    told = {}
    for name in _DOTTED_NAME.findall(linecache.getline(frame.f_code.co_filename, traceback.tb_lineno)):
        first, *rest = name.split(".")
        value = frame.f_locals.get(first, frame.f_globals.get(first))
        for part in rest:
            value = _attribute(value, part)
        if isinstance(value, torch.Tensor):
            told[name] = f"{name} {list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        elif type(value) is int or (isinstance(value, tuple) and value and all(type(size) is int for size in value)):
            told[name] = f"{name} = {value}"
    return ", ".join(list(told.values())[:8])


def _record(kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
    if value is None or id(value) in _recorded:
        return
    _recorded.add(id(value))
    with contextlib.suppress(Exception):
        from drydock import _recorder

        kind = kind or type(value)
        name = kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
        file, line = innermost_user_frame(traceback)
        text = str(value)
        if "out of memory" in text:
            with contextlib.suppress(Exception):
                if operands := _operands(traceback):
                    text += f"\noperands: {operands}"
        _recorder.python_exception(name, text, os.path.abspath(file) if file else "", line)  # noqa: PTH100


def _chain_exception_hooks(holders: Any) -> None:
    previous = sys.excepthook
    previous_thread = threading.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        # The frames of the traceback still hold what the program held.
        if holders is not None:
            holders.look()
        _record(kind, value, traceback)
        previous(kind, value, traceback)

    def thread_excepthook(arguments: threading.ExceptHookArgs) -> None:
        _record(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        previous_thread(arguments)

    def last_exception() -> None:
        # A library that replaced the hook later keeps the interpreter from calling ours, but not from noting this.
        value = getattr(sys, "last_value", None)
        _record(None, value, getattr(value, "__traceback__", None))

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook
    atexit.register(last_exception)


class _WhenLoaded(importlib.abc.MetaPathFinder):
    """Calls a function once after a module has been loaded."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        genuine = spec.loader.exec_module
        then = self._then

        def exec_module(module: ModuleType) -> None:
            genuine(module)
            with contextlib.suppress(Exception):
                then(module)

        with contextlib.suppress(AttributeError):  # a loader that takes no attributes keeps its own
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _follow_allocator_calls() -> None:
    # Neither calls the driver in a way that tells it apart from other calls.
    module = sys.modules.get("torch_npu.npu.memory")
    if module is not None:
        _wrap_allocator_calls(module)
    else:
        sys.meta_path.insert(0, _WhenLoaded("torch_npu.npu.memory", _wrap_allocator_calls))


def _wrap_allocator_calls(memory: ModuleType) -> None:
    native = memory.torch_npu._C
    empty_cache = native._npu_emptyCache
    set_fraction = native._npu_setMemoryFraction

    def recorded_empty_cache(*arguments: Any) -> Any:
        with contextlib.suppress(Exception):
            from drydock import _recorder

            _recorder.cache_emptied()
        return empty_cache(*arguments)

    def recorded_set_fraction(fraction: float, device: int, *arguments: Any) -> Any:
        result = set_fraction(fraction, device, *arguments)
        with contextlib.suppress(Exception):
            from drydock import _recorder

            total = memory.torch_npu.npu.mem_get_info(device)[1]
            _recorder.fraction_set(device, int(fraction * total) if fraction < 1 else None)
        return result

    native._npu_emptyCache = recorded_empty_cache
    native._npu_setMemoryFraction = recorded_set_fraction


def _chain_warnings() -> None:
    # torch_npu replaces warnings.showwarning and does not call the one before; the interpreter comes by here first.
    previous = getattr(warnings, "_showwarnmsg", None)
    if previous is None:
        return

    def show(message: warnings.WarningMessage) -> None:
        with contextlib.suppress(Exception):
            match = _FALLBACK_WARNING.search(str(message.message))
            if match:
                from drydock import _recorder

                _recorder.host_fallback(match.group(1))
        previous(message)

    warnings._showwarnmsg = show  # type: ignore[attr-defined]
