"""What Python tells the trace: thin calls of libdrydock.so."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from drydock._layout import library_dir


@cache
def _library() -> ctypes.CDLL:
    # The same file that the client's libraries have loaded, or will load: one state in the process.
    library = ctypes.CDLL(str(library_dir() / "libdrydock.so"))
    for name, arguments in (
        ("drydock_trace_step_ended", []),
        ("drydock_trace_host_fallback", [ctypes.c_char_p]),
        ("drydock_trace_python_exception", [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32]),
        ("drydock_trace_garbage_collected", [ctypes.c_uint32, ctypes.c_uint64]),
        ("drydock_trace_cache_emptied", []),
        ("drydock_trace_fraction_set", [ctypes.c_int32, ctypes.c_uint64]),
        ("drydock_trace_phase", [ctypes.c_uint32]),
        ("drydock_trace_node_layout", [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_bool]),
        ("drydock_trace_name_module", [ctypes.c_uint64, ctypes.c_char_p]),
        ("drydock_trace_label", [ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32]),
        ("drydock_trace_close", []),
    ):
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = None
    library.drydock_trace_blocks_freed.argtypes = []
    library.drydock_trace_blocks_freed.restype = ctypes.c_uint64
    library.drydock_trace_modules_without_name.argtypes = []
    library.drydock_trace_modules_without_name.restype = ctypes.c_uint32
    library.drydock_trace_has_begun.argtypes = []
    library.drydock_trace_has_begun.restype = ctypes.c_bool
    library.drydock_trace_string.argtypes = [ctypes.c_char_p]
    library.drydock_trace_string.restype = ctypes.c_uint32
    return library


def run_dir() -> Path | None:
    """The folder this process is recorded in, or None."""
    name = os.environ.get("DRYDOCK_RUN_DIR")
    return Path(name) if name else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b" ")


def step_ended() -> None:
    _library().drydock_trace_step_ended()


def blocks_freed() -> int:
    return int(_library().drydock_trace_blocks_freed())


def garbage_collected(generation: int, freed_before: int) -> None:
    _library().drydock_trace_garbage_collected(generation, freed_before)


def cache_emptied() -> None:
    _library().drydock_trace_cache_emptied()


def fraction_set(device: int, allowed_bytes: int | None) -> None:
    """None: the process may use all memory of the device."""
    _library().drydock_trace_fraction_set(device, 2**64 - 1 if allowed_bytes is None else allowed_bytes)


def host_fallback(name: str) -> None:
    _library().drydock_trace_host_fallback(_bytes(name))


def python_exception(type_name: str, text: str, file: str, line: int) -> None:
    _library().drydock_trace_python_exception(_bytes(type_name), _bytes(text), _bytes(file), line)


def phase_began(phase: int) -> None:
    """0 for what is none of the others, 1 for backward(), 2 for an optimizer step, 3 for the interpreter's end."""
    _library().drydock_trace_phase(phase)


def has_begun() -> bool:
    """True if this process has a trace: asking begins none."""
    begun: bool = _library().drydock_trace_has_begun()
    return begun


def node_layout(sequence_offset: int, thread_offset: int, counts_itself: bool) -> None:
    """Where autograd's nodes keep their numbers and those of the threads that made them; who counts their owners."""
    _library().drydock_trace_node_layout(sequence_offset, thread_offset, counts_itself)


def name_module(identity: int, path: str) -> None:
    _library().drydock_trace_name_module(identity, _bytes(path))


def modules_without_name() -> int:
    count: int = _library().drydock_trace_modules_without_name()
    return count


def string(text: str) -> int:
    """Id of a text, for `label`."""
    identity: int = _library().drydock_trace_string(_bytes(text))
    return identity


def label(kind: int, address: int, storage_bytes: int, name: int) -> None:
    """A storage is a parameter (0), gradient (1), part of an optimizer's state (2) or a buffer (3)."""
    _library().drydock_trace_label(kind, address, storage_bytes, name)


def close() -> None:
    _library().drydock_trace_close()
