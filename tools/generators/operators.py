"""Doors and rows of the aclnn operators."""

from __future__ import annotations

from .abi_types import declaration
from .tables import LegacyArg, Operator, OperatorArg, Spec, SpecError
from .text import BANNER, c_string, wrap
from .workspace_rows import read_rows

DOOR_FILES = 4

# Vendor type -> (ArgKind, packing function of src/abi/operator_args.h).
_KINDS = {
    "aclTensor": ("kTensor", "pack_tensor"),
    "aclTensorList": ("kTensorList", "pack_tensors"),
    "aclScalar": ("kScalar", "pack_scalar"),
    "aclScalarList": ("kScalarList", "pack_scalars"),
    "aclIntArray": ("kIntArray", "pack_ints"),
    "aclFloatArray": ("kFloatArray", "pack_floats"),
    "aclBoolArray": ("kBoolArray", "pack_bools"),
    "aclDataType": ("kDataType", "pack_data_type"),
    "float": ("kDouble", "pack_double"),
    "double": ("kDouble", "pack_double"),
    "bool": ("kBool", "pack_bool"),
    "char*": ("kString", "pack_text"),
    "int": ("kInt", "pack_int"),
    **{f"{sign}int{bits}_t": ("kInt", "pack_int") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_DIRECTIONS = {"in": "kIn", "out": "kOut", "inout": "kInOut"}
_HANDLES = ("aclTensor", "aclTensorList", "aclScalar", "aclScalarList", "aclIntArray", "aclFloatArray", "aclBoolArray")
_ASSUMED = {
    "default": "kDefault",
    "zero": "kZero",
    "one": "kOne",
    "balanced_index": "kBalancedIndex",
    "middle_of_range": "kMiddleOfRange",
}
# The types of both phases besides the operator's own arguments.
_OWN_NAMES = ("workspaceSize", "executor", "workspace", "stream", "args")


def generate(spec: Spec) -> dict[str, str]:
    files = {
        "src/ops/generated/operator_rows.cpp": _rows_source(spec),
        "src/ops/generated/kernels.h": _kernels_header(spec),
        "src/ops/generated/legacy_rows.cpp": _legacy_source(spec),
    }
    operators = list(enumerate(spec.operators))
    for index, path in enumerate(door_files(spec)):
        first = len(operators) * index // DOOR_FILES
        last = len(operators) * (index + 1) // DOOR_FILES
        files[path] = _doors(spec, operators[first:last])
    return files


def door_files(spec: Spec) -> list[str]:
    """Several files, so that two cores share the compilation."""
    return [f"src/abi/generated/libopapi_doors_{index}.cpp" for index in range(DOOR_FILES)] if spec.operators else []


def _kind(arg: OperatorArg, where: str) -> tuple[str, str]:
    base, pointers = arg.param.base_type, arg.param.type.count("*")
    if base in _HANDLES and pointers == 1:
        kind = _KINDS[base]
    elif base == "char" and pointers == 1:
        kind = _KINDS["char*"]
    elif pointers > 0:
        kind = ("kPointer", "pack_pointer")
    elif base in _KINDS and base not in _HANDLES:
        kind = _KINDS[base]
    else:
        raise SpecError(f"{where}: an operator takes no argument of type '{arg.param.type}'")
    if arg.direction != "in" and kind[0] not in ("kTensor", "kTensorList"):
        raise SpecError(f"{where}: only tensors and tensor lists have a direction, not '{arg.param.name}'")
    return kind


def _kernels_header(spec: Spec) -> str:
    families: dict[str, set[str]] = {}
    declared: set[str] = set()
    for row in spec.kernels.values():
        if row.kernel and row.kernel not in declared:
            declared.add(row.kernel)
            families.setdefault(row.family, set()).add(row.kernel)
    for operator in spec.legacy_operators:
        if operator.kernel not in declared:
            declared.add(operator.kernel)
            families.setdefault("legacy_operators", set()).add(operator.kernel)
    lines = [
        BANNER,
        "// The kernels that the rows of spec/kernels/ name. A kernel computes one call on host memory; it finds its",
        "// operands by position, so that it serves every operator with the same meaning: tensor, scalar and in-place",
        "// forms. It answers kNotComputed (kernel_access.h) before it wrote anything if it does not know the element",
        "// types, and kParameterInvalid if shapes or index values are wrong; it never reads or writes outside a view.",
        "// Kernels have no state and may run in any thread.",
        "",
        "#pragma once",
        "",
        '#include "base/status.h"',
        '#include "ops/kernel_call.h"',
        "",
        "namespace drydock::ops::kernels {",
        "",
    ]
    for family, kernels in sorted(families.items()):
        declarations = [f"Status {kernel}(KernelCall& call);" for kernel in sorted(kernels)]
        table = f"kernels/{family}" if family != "legacy_operators" else family
        lines += [f"// spec/{table}.csv", *declarations, ""]
    return "\n".join([*lines, "}  // namespace drydock::ops::kernels", ""])


def _rows_source(spec: Spec) -> str:
    lines = [
        BANNER,
        '#include "ops/generated/kernels.h"',
        '#include "ops/operator_row.h"',
        "",
        "namespace drydock::ops {",
        "",
    ]
    lines += ["namespace {", "", "using enum ArgKind;", "using enum ArgDirection;", ""]
    for index, operator in enumerate(spec.operators):
        if operator.args:
            specs = [
                f"{{{c_string(arg.param.name)}, {_kind(arg, operator.where)[0]}, {_DIRECTIONS[arg.direction]}"
                f"{_gate(spec, operator, arg)}}}"
                for arg in operator.args
            ]
            lines += wrap(f"constexpr ArgSpec kArgs{index}[] = {{{', '.join(specs)}}};", "    ")
    for index, legacy in enumerate(spec.legacy_operators):
        if legacy.args:
            specs = [
                f"{{{c_string(arg.param.name)}, {_kind(_as_operator_arg(arg), legacy.where)[0]}, "
                f"{'kOut' if arg.source == 'out' else 'kIn'}}}"
                for arg in legacy.args
            ]
            lines += wrap(f"constexpr ArgSpec kLegacyArgs{index}[] = {{{', '.join(specs)}}};", "    ")
    # Of the row of spec/workspace.csv that is for all calls.
    constants = {name: row.constant_bytes for row in read_rows(spec) if not row.when for name in row.operators}
    lines += ["", "constexpr OperatorRow kRows[] = {"]
    for index, operator in enumerate(spec.operators):
        args = f"kArgs{index}" if operator.args else "{}"
        kernel = f"kernels::{operator.kernel}" if operator.kernel else "nullptr"
        row_class = f"OperatorClass::k{operator.operator_class.capitalize()}"
        assumed = f"AssumedValue::{_ASSUMED[operator.assumed]}"
        lines.append(f"    {{{c_string(operator.name)}, {row_class}, {args}, {kernel}, {assumed},")
        resized = "true" if any(arg.resized for arg in operator.args) else "false"
        lines.append(f"     {constants.get(operator.name, 0)}, {c_string(operator.reason)}, {resized}}},")
    for index, legacy in enumerate(spec.legacy_operators):
        args = f"kLegacyArgs{index}" if legacy.args else "{}"
        lines.append(f"    {{{c_string(legacy.name)}, OperatorClass::kModelled, {args}, kernels::{legacy.kernel},")
        lines.append('     AssumedValue::kDefault, 0, "", false},')
    lines += ["};", "", "}  // namespace", ""]
    lines += [
        "std::span<const OperatorRow> operator_rows() noexcept { return kRows; }",
        "",
        "}  // namespace drydock::ops",
        "",
    ]
    return "\n".join(lines)


_SOURCES = {"in": "kInput", "values": "kInputValues", "out": "kOutput", "attr": "kAttribute"}


def _as_operator_arg(arg: LegacyArg) -> OperatorArg:
    return OperatorArg("out" if arg.source == "out" else "in", arg.param)


def _legacy_source(spec: Spec) -> str:
    """Where the arguments of legacy operators come from; their rows stand behind those of the aclnn operators."""
    lines = [BANNER, '#include "ops/legacy_operator.h"', "", "namespace drydock::ops {", "", "namespace {", ""]
    lines += ["using enum LegacyArgSource::From;", ""]
    for index, legacy in enumerate(spec.legacy_operators):
        if legacy.args:
            sources = ", ".join(f"{{{_SOURCES[arg.source]}, {arg.position}}}" for arg in legacy.args)
            lines += wrap(f"constexpr LegacyArgSource kSources{index}[] = {{{sources}}};", "    ")
    lines += ["", "constexpr LegacyRow kRows[] = {"]
    for index, legacy in enumerate(spec.legacy_operators):
        sources = f"kSources{index}" if legacy.args else "{}"
        lines.append(f"    {{{len(spec.operators) + index}, {sources}}},  // {legacy.name}")
    lines += ["};", "", "}  // namespace", ""]
    lines += ["std::span<const LegacyRow> legacy_rows() noexcept { return kRows; }", "", "}  // namespace drydock::ops"]
    return "\n".join([*lines, ""])


def _gate(spec: Spec, operator: Operator, arg: OperatorArg) -> str:
    """The rest of an ArgSpec: a bit for each dtype that the device takes, and the highest rank."""
    gate = spec.gates.get((operator.name, arg.param.name))
    if gate is None:
        return ""
    mask = sum(1 << spec.data_type_numbers[dtype] for dtype in gate.dtypes)
    return f", {mask:#x}, {gate.max_rank}"


def _doors(spec: Spec, operators: list[tuple[int, Operator]]) -> str:
    lines = [
        BANNER,
        "// Doors of libopapi.so: the two phases of each operator.",
        "",
        "#include <cstdint>",
        "",
        '#include "abi/operator_args.h"',
        '#include "base/export.h"',
        '#include "ops/phases.h"',
        "",
        "using namespace drydock::abi;",
        "using drydock::ops::Arg;",
        "",
        'extern "C" {',
        "",
    ]
    for index, operator in operators:
        lines += _phase1(spec, index, operator) + _phase2(index, operator)
    return "\n".join([*lines, '}  // extern "C"', ""])


def _phase1(spec: Spec, index: int, operator: Operator) -> list[str]:
    names = [arg.param.name for arg in operator.args]
    if len(set(names)) != len(names) or set(names) & set(_OWN_NAMES):
        raise SpecError(f"{operator.where}: {operator.name}: an argument name is used twice")
    params = [declaration(spec, arg.param, operator.where) for arg in operator.args]
    params += ["uint64_t* workspaceSize", "void** executor"]
    lines = wrap(f"DRYDOCK_API int32_t {operator.name}GetWorkspaceSize({', '.join(params)}) {{", "    ")
    args = "nullptr"
    if operator.args:
        args = "args"
        packed = [f"{_kind(arg, operator.where)[1]}({_value(arg)})" for arg in operator.args]
        lines += wrap(f"  Arg args[] = {{{', '.join(packed)}}};", "      ")
    lines.append(f"  return drydock::ops::phase1({index}, {args}, {len(operator.args)}, workspaceSize, executor);")
    return [*lines, "}"]


def _value(arg: OperatorArg) -> str:
    if arg.param.type in ("uint64_t", "const uint64_t"):
        return f"static_cast<int64_t>({arg.param.name})"
    return arg.param.name


def _phase2(index: int, operator: Operator) -> list[str]:
    head = (
        f"DRYDOCK_API int32_t {operator.name}(void* workspace, uint64_t workspaceSize, void* executor, void* stream) {{"
    )
    call = f"  return drydock::ops::phase2({index}, workspace, workspaceSize, executor, stream);"
    return [*wrap(head, "    "), call, "}", ""]
