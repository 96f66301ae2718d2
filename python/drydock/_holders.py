"""Tells the trace what blocks of device memory are for: parameters, gradients, optimizer state, and when backward() and
optimizer steps run.

Nothing runs per module or per operator. torch's own objects are asked where the program passes by anyway: at the first
module call after new parameters were made, after each backward pass, around each optimizer step, and at the end.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drydock import _recorder

_OTHER, _BACKWARD, _OPTIMIZER, _EXIT = 0, 1, 2, 3
_PARAMETER, _GRADIENT, _STATE, _BUFFER = 0, 1, 2, 3


class _Known:
    """A parameter: its name, and the storage that was last labelled."""

    __slots__ = ("name", "place", "reference")

    def __init__(self, parameter: Any, name: int) -> None:
        self.reference = weakref.ref(parameter)
        self.name = name
        self.place = 0


class Holders:
    """What is known of the program's modules and optimizers."""

    def __init__(self) -> None:
        self._parameters: dict[int, _Known] = {}
        self._states: dict[tuple[int, str], int] = {}
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._backward_depth = 0
        self._waiting: Any = None  # the hook that waits for a module call
        self._unnamed = 0
        self._layout_tries = 5

    def install(self) -> None:
        """Puts the hooks into torch."""
        from torch.nn.modules import module
        from torch.optim import optimizer

        self._chain_backward()
        optimizer.register_optimizer_step_pre_hook(self._optimizer_begins)
        optimizer.register_optimizer_step_post_hook(self._optimizer_ended)
        module.register_module_parameter_registration_hook(self._parameter_made)
        atexit.register(self._ending)

    def _ending(self) -> None:
        self.look()
        _recorder.phase_began(_EXIT)

    def look(self) -> None:
        """Labels everything that torch's objects hold now."""
        if not _recorder.has_begun():
            return
        with contextlib.suppress(Exception):
            self._scan(everything=True)
            self._label_gradients()
            for optimizer in list(self._optimizers):
                self._label_optimizer(optimizer, everything=True)

    def _parameter_made(self, module: Any, name: str, parameter: Any) -> None:
        if self._waiting is None:
            from torch.nn.modules.module import register_module_forward_pre_hook

            self._waiting = register_module_forward_pre_hook(self._module_called)

    def _module_called(self, module: Any, arguments: Any) -> None:
        # Once, and away with it: a hook for all modules takes every call off its fast path.
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None
        with contextlib.suppress(Exception):
            self._scan(everything=False)

    def _chain_backward(self) -> None:
        import torch.autograd

        engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def run_backward(*arguments: Any, **named: Any) -> Any:
            if self._backward_depth == 0:
                self._note_modules()
                if self._layout_tries > 0:
                    self._find_node_layout(arguments)
                _recorder.phase_began(_BACKWARD)
            self._backward_depth += 1
            try:
                return engine(*arguments, **named)
            finally:
                self._backward_depth -= 1
                if self._backward_depth == 0:
                    _recorder.phase_began(_OTHER)
                    with contextlib.suppress(Exception):
                        self._label_gradients()

        torch.autograd._engine_run_backward = run_backward  # type: ignore[attr-defined]

    def _find_node_layout(self, arguments: tuple[Any, ...]) -> None:
        # The blocks of a backward pass belong to the modules that made its nodes, which nodes don't say by themselves.
        self._layout_tries -= 1
        with contextlib.suppress(Exception):
            layout = _node_layout(arguments[0])
            if layout is not None:
                _recorder.node_layout(*layout)
                self._layout_tries = 0

    def _optimizer_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with contextlib.suppress(Exception):
            self._optimizers.add(optimizer)
            if not _recorder.has_begun():
                return
            for group in optimizer.param_groups:
                for index, parameter in enumerate(group["params"]):
                    known = self._parameters.get(id(parameter))
                    if known is None or known.reference() is not parameter:
                        known = self._learn(parameter, f"parameter {index}")
                    self._label_parameter(known, parameter, everything=False)
                    self._label_gradient(known, parameter)
        _recorder.phase_began(_OPTIMIZER)

    def _optimizer_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        _recorder.phase_began(_OTHER)
        with contextlib.suppress(Exception):
            self._label_optimizer(optimizer, everything=False)

    def _note_modules(self) -> None:
        # Modules that blocks were born under and that no scan has seen: copies, or read from a file.
        with contextlib.suppress(Exception):
            unnamed = _recorder.modules_without_name()
            if unnamed > self._unnamed:
                self._scan(everything=False)
            self._unnamed = _recorder.modules_without_name()

    def _scan(self, everything: bool) -> None:
        if not _recorder.has_begun():
            return
        for path, module in _modules():
            # The outermost module has no path: its class names it.
            _recorder.name_module(id(module), path or type(module).__name__)
            for name, parameter in module._parameters.items():
                if parameter is None:
                    continue
                known = self._parameters.get(id(parameter))
                if known is None or known.reference() is not parameter:
                    known = self._learn(parameter, f"{path}.{name}" if path else name)
                self._label_parameter(known, parameter, everything)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    _label(_BUFFER, buffer, _recorder.string(f"{path}.{name}" if path else name))

    def _learn(self, parameter: Any, name: str) -> _Known:
        known = _Known(parameter, _recorder.string(name))
        self._parameters[id(parameter)] = known
        return known

    def _label_parameter(self, known: _Known, parameter: Any, everything: bool) -> None:
        place = _place(parameter)
        if place and (everything or place != known.place):
            known.place = place
            _label(_PARAMETER, parameter, known.name)

    def _label_gradients(self) -> None:
        for known in list(self._parameters.values()):
            parameter = known.reference()
            if parameter is not None and parameter.requires_grad:
                self._label_gradient(known, parameter)

    def _label_gradient(self, known: _Known, parameter: Any) -> None:
        gradient = parameter.grad
        # New each time: the allocator gives the same address to the next step's gradient.
        if gradient is not None:
            _label(_GRADIENT, gradient, known.name)

    def _label_optimizer(self, optimizer: Any, everything: bool) -> None:
        import torch

        for parameter, values in optimizer.state.items():
            if not isinstance(values, dict):
                continue
            known = self._parameters.get(id(parameter))
            for key, value in values.items():
                if not isinstance(value, torch.Tensor):
                    continue
                place = _place(value)
                slot = (id(parameter), key)
                if not place or (not everything and self._states.get(slot) == place):
                    continue
                self._states[slot] = place
                _label(_STATE, value, known.name if known is not None else 0)


def _node_layout(roots: Any) -> tuple[int, int, bool] | None:
    """Where autograd's nodes keep their sequence numbers and threads: the only words that agree for all."""
    import torch

    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    this_thread = library["_ZN2at14RecordFunction15currentThreadIdEv"]
    this_thread.restype = ctypes.c_uint64
    thread = this_thread()
    numbers: dict[int, tuple[int, ...]] = {}
    sizes = set()
    todo = [root.grad_fn for root in roots if root.grad_fn is not None]
    for node in todo:  # grows
        todo += [further for further, _ in node.next_functions if further is not None][: 64 - len(todo)]
        # A node of torch's own: a Python object that holds nothing but a pointer to it, of one word or, where somebody
        # else counts its owners, two. Nodes of gradients have no number.
        size = type(node).__basicsize__ - object.__basicsize__
        if size in (8, 16) and type(node).__name__ != "AccumulateGrad":
            sizes.add(size)
            address = ctypes.c_uint64.from_address(id(node) + object.__basicsize__).value
            numbers[node._sequence_nr()] = tuple((ctypes.c_uint64 * 12).from_address(address))
    if len(numbers) < 3 or len(sizes) != 1:
        return None
    counts_itself = sizes == {8}
    if counts_itself and not all(0 < words[1] & 0xFFFFFFFF < 1000 for words in numbers.values()):
        return None
    sequences = [at for at in range(2, 9) if all(words[at] == number for number, words in numbers.items())]
    if len(sequences) != 1 or any(words[sequences[0] + 3] != thread for words in numbers.values()):
        return None
    return sequences[0] * 8, sequences[0] * 8 + 24, counts_itself


def _place(tensor: Any) -> int:
    """Address of a tensor's storage on an NPU, else 0."""
    if tensor.device.type != "npu":
        return 0
    place: int = tensor.untyped_storage().data_ptr()
    return place


def _label(label: int, tensor: Any, name: int) -> None:
    if place := _place(tensor):
        _recorder.label(label, place, tensor.untyped_storage().nbytes(), name)


def _modules() -> Iterator[tuple[str, Any]]:
    """All modules of the process with their paths: those that are in no other first, and what they hold."""
    from torch.nn import Module

    found = [thing for thing in gc.get_objects() if issubclass(type(thing), Module)]
    inner = {id(child) for module in found for child in module.__dict__.get("_modules", {}).values()}
    seen: set[int] = set()
    for root in (module for module in found if id(module) not in inner and "_modules" in module.__dict__):
        for path, module in root.named_modules():
            if id(module) not in seen:
                seen.add(id(module))
                yield path, module
