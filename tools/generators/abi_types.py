"""Vendor types as the doors see them: handles and structs are void*, enumerations and error codes int32_t."""

from __future__ import annotations

import re

from .tables import Entry, Param, Spec, SpecError

_BUILTIN = {
    *("void", "char", "bool", "int", "float", "double", "size_t"),
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


def kind_of(spec: Spec, c_type: str) -> str:
    """Kind of a vendor type (spec/types.csv), "builtin" for the language's own."""
    base = Param(c_type, "").base_type
    if base in _BUILTIN:
        return "builtin"
    return spec.types.get(base, ("", ""))[0]


def abi_type(spec: Spec, c_type: str, where: str) -> str:
    """`const aclTensorDesc* const*` -> `const void* const*`, `aclrtStream*` -> `void**`, `aclDataType` -> `int32_t`."""
    base = Param(c_type, "").base_type
    if base in _BUILTIN:
        return c_type
    if base not in spec.types:
        raise SpecError(f"{where}: no row in spec/types.csv for the type {base}")
    kind, abi = spec.types[base]
    if kind in ("struct", "object") and "*" not in c_type:
        raise SpecError(f"{where}: {base} is passed by value; give it a row of kind 'value' in spec/types.csv")
    if abi.endswith("*") and c_type.startswith("const "):
        # A constant handle is `void* const`, not `const void*`.
        return re.sub(rf"^const {base}\b", f"{abi} const", c_type)
    return re.sub(rf"\b{base}\b", abi, c_type)


def declaration(spec: Spec, param: Param, where: str) -> str:
    """`aclrtCallback fn` -> `void (*fn)(void*)`."""
    abi = abi_type(spec, param.type, where)
    if "(*)" in abi:
        return abi.replace("(*)", f"(*{param.name})")
    return f"{abi} {param.name}"


def unnamed(spec: Spec, param: Param, where: str) -> str:
    return abi_type(spec, param.type, where)


def returns_status(spec: Spec, entry: Entry) -> bool:
    """True where the C function returns an error code, so that the handler returns a Status."""
    return kind_of(spec, entry.returns) == "status" and "*" not in entry.returns
