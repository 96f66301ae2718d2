"""What the build needs to know about the door libraries: their sources, dependencies and export lists."""

from __future__ import annotations

from .operators import door_files
from .tables import Spec
from .text import CMAKE_BANNER


def generate(spec: Spec) -> dict[str, str]:
    files = {"src/abi/generated/libraries.cmake": _cmake(spec)}
    for library in spec.libraries:
        files[f"src/abi/generated/{library.name}.map"] = _version_script(spec, library.name)
    return files


def exported_names(spec: Spec, library: str) -> list[str]:
    """The names that a library exports: no more, no less."""
    names = [entry.name for entry in spec.entries if entry.library == library and entry.exported]
    if library == "libopapi":
        for operator in spec.operators:
            names += [operator.name, f"{operator.name}GetWorkspaceSize"]
    return sorted(names)


def _version_script(spec: Spec, library: str) -> str:
    names = exported_names(spec, library)
    shown = ["  global:", *(f"    {name};" for name in names)] if names else []
    return "\n".join([f"/* {CMAKE_BANNER[2:]} */", "{", *shown, "  local:", "    *;", "};", ""])


def _cmake(spec: Spec) -> str:
    names = [library.name for library in spec.libraries]
    lines = [CMAKE_BANNER, "", f"set(DRYDOCK_DOOR_LIBRARIES {' '.join(names)})"]
    for library in spec.libraries:
        sources = []
        if any(entry.library == library.name and entry.exported for entry in spec.entries):
            sources.append(f"src/abi/generated/{library.name}_doors.cpp")
        if library.name == "libopapi":
            sources += door_files(spec)
        lines.append(f"set(DRYDOCK_DOOR_SOURCES_{library.name} {' '.join(sources)})".replace(" )", ")"))
        lines.append(f"set(DRYDOCK_DOOR_NEEDS_{library.name} {' '.join(library.needs)})".replace(" )", ")"))
    return "\n".join([*lines, ""])
