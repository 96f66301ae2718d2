"""The rows in spec/ against what they describe: the installed libraries, the torch_npu wheel, the generated files."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

from generators.libraries import exported_names  # noqa: E402
from generators.tables import ENTRY_CLASSES, Spec  # noqa: E402

SPEC = Spec(REPOSITORY / "spec")
GENERATE = REPOSITORY / "tools" / "generate"
VENDOR_C_NAME = re.compile(r"(acl|Hccl|Hcom|rt|Msprof|mstx|dcmi|hal|drv)[A-Z_a-z]\w*")
# Linked, but neither C nor needed to load torch_npu: GE graphs (torchair) and ATB.
VENDOR_CPP_NAME = re.compile(r"_ZN?K?N?(2ge|3atb)")


def library_dir() -> Path:
    if folder := os.environ.get("DRYDOCK_LIB_DIR"):
        return Path(folder)
    spec = importlib.util.find_spec("drydock")
    assert spec is not None and spec.origin is not None, "the wheel is not installed: tools/setup"
    return Path(spec.origin).parent / "cann" / "lib64"


def torch_npu_dir() -> Path:
    spec = importlib.util.find_spec("torch_npu")
    assert spec is not None and spec.origin is not None, "torch_npu is not installed: tools/setup"
    return Path(spec.origin).parent


def symbols(path: Path, *options: str) -> set[str]:
    """Names of the dynamic symbols, without versions. Weak ones do not count: a library loads without them."""
    done = subprocess.run(["nm", "-D", *options, path], check=True, capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[-1].split("@")[0] for line in lines if line[-2] not in ("w", "v")}


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, GENERATE, "--root", root, *options], capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the generator reads and of the headers that its output includes."""
    shutil.copytree(REPOSITORY / "spec", tmp_path / "spec")
    headers = shutil.ignore_patterns("*.cpp")
    for folder in ("base", "ops", "abi"):
        shutil.copytree(REPOSITORY / "src" / folder, tmp_path / "src" / folder, ignore=headers)
    shutil.copytree(REPOSITORY / "src" / "trace", tmp_path / "src" / "trace", ignore=headers)
    return tmp_path


def compiles(root: Path, file: str) -> str:
    """Empty if the file compiles, else what the compiler says."""
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{root / 'src'}", root / file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def add_row(root: Path, table: str, row: str) -> None:
    with (root / "spec" / table).open("a", encoding="utf-8") as stream:
        stream.write(row + "\n")


# The libraries.


@pytest.mark.parametrize("library", [library.name for library in SPEC.libraries])
def test_a_library_exports_the_names_of_its_rows_and_no_other(library: str):
    exported = symbols(library_dir() / f"{library}.so", "--defined-only")
    assert exported == set(exported_names(SPEC, library))


def test_every_door_library_has_a_row():
    # libascend_kernel_hook has no entries of its own: it is preloaded, and stands before a function of torch's.
    built = {path.stem for path in library_dir().glob("*.so")} - {"libdrydock", "libascend_kernel_hook"}
    assert built == {library.name for library in SPEC.libraries}


def test_no_name_is_exported_twice():
    names = [name for library in SPEC.libraries for name in exported_names(SPEC, library.name)]
    assert len(names) == len(set(names))


# The wheel.


@pytest.mark.parametrize("file", ["libtorch_npu.so", "libtensorpipe.so", "libnpu_profiler.so"])
def test_every_vendor_name_that_torch_npu_links_is_exported(file: str):
    wanted = {name for name in symbols(torch_npu_dir() / "lib" / file, "-u") if VENDOR_C_NAME.fullmatch(name)}
    assert wanted, f"{file} links no vendor name?"
    exported = {name for library in SPEC.libraries for name in exported_names(SPEC, library.name)}
    assert wanted <= exported


def test_every_vendor_name_that_any_library_of_the_wheel_links_has_a_row():
    libraries = sorted(torch_npu_dir().rglob("*.so"))
    own = set().union(*(symbols(path, "--defined-only") for path in libraries))
    rows = {entry.name for entry in SPEC.entries}
    for path in libraries:
        wanted = {
            name for name in symbols(path, "-u") - own if VENDOR_C_NAME.fullmatch(name) or VENDOR_CPP_NAME.match(name)
        }
        assert wanted <= rows, path.name


def test_every_operator_that_the_wheel_names_has_a_row():
    image = (torch_npu_dir() / "lib" / "libtorch_npu.so").read_bytes()
    strings = {match.decode() for match in re.findall(rb"(?<=\0)(aclnn[A-Z]\w+)(?=\0)", image)}
    pairs = {name for name in strings if f"{name}GetWorkspaceSize" in strings}
    assert len(pairs) > 800
    assert pairs <= {operator.name for operator in SPEC.operators}


def test_every_name_that_the_wheel_looks_up_has_a_row():
    """The names that stand in the wheel's strings and are no operator: those that torch_npu's own table registers."""
    image = (torch_npu_dir() / "lib" / "libtorch_npu.so").read_bytes()
    strings = {match.decode() for match in re.findall(rb"(?<=\0)(acl(?:rt|mdl|op|prof|sys)[A-Z]\w+)(?=\0)", image)}
    assert len(strings) > 100
    assert strings <= {entry.name for entry in SPEC.entries}


# The rows.


def test_every_row_that_is_not_modelled_says_why():
    for entry in SPEC.entries:
        assert entry.entry_class in ENTRY_CLASSES
        assert bool(entry.reason) == (entry.entry_class != "modelled"), entry.where
    for operator in SPEC.operators:
        assert bool(operator.reason) == (operator.operator_class != "modelled"), operator.where


def test_refusals_never_answer_a_code_that_torch_npu_takes_for_success():
    """torch_npu prints a warning for 207000 and goes on as if the call had worked."""
    text = (REPOSITORY / "src" / "abi" / "generated" / "entry_rows.cpp").read_text(encoding="utf-8")
    codes = set(re.findall(r"EntryClass::kRefused, \d+, (\d+)", text))
    assert codes == {"200001"}


def test_every_operator_writes_something():
    without = {
        operator.name
        for operator in SPEC.operators
        if not any(arg.direction in ("out", "inout") for arg in operator.args)
    }
    # The first two send to other ranks, the third only takes time.
    assert without == {"aclnnAttentionToFFN", "aclnnFFNToAttention", "aclnnSleep"}


def test_shapes_that_torch_npu_asks_for_are_those_that_depend_on_values():
    """After these operators op-plugin calls aclGetViewShape."""
    resized = {operator.name for operator in SPEC.operators if any(arg.resized for arg in operator.args)}
    unique = {"aclnnUnique", "aclnnUnique2", "aclnnUniqueConsecutive", "aclnnUniqueDim"}
    assert resized == unique | {"aclnnMaskedSelect", "aclnnNonzero", "aclnnNonzeroV2", "aclnnRepeatInterleave"}


def test_names_that_form_a_set_are_exported_whole_or_not_at_all():
    cache = {
        *("CanUsePTACache", "InitPTACacheThreadLocal", "UnInitPTACacheThreadLocal", "AddTensorAddrToCachedList"),
        *("SetPTAHashKey", "PTAGetExecCache", "SetPTACacheHashKey", "PTAFindExecCache"),
    }
    exported = {entry.name for entry in SPEC.entries if entry.exported}
    assert cache & exported in (set(), cache)


def test_data_types_are_those_of_the_code():
    header = (REPOSITORY / "src" / "base" / "data_type.h").read_text(encoding="utf-8")
    source = (REPOSITORY / "src" / "base" / "data_type.cpp").read_text(encoding="utf-8")
    rows = [row for _, row in SPEC.rows("data_types.csv", ("constant", "number", "enumerator", "bits", "name"))]
    numbers = dict(re.findall(r"^\s+(k\w+) = (-?\d+),", header, re.MULTILINE))
    assert numbers == {row["enumerator"]: row["number"] for row in rows}
    facts = {name: (bits, text) for name, bits, text in re.findall(r"::(k\w+): return \{(\d+), \w+, \"(\w+)\"", source)}
    expected = {row["enumerator"]: (row["bits"], row["name"]) for row in rows if row["enumerator"] != "kUndefined"}
    assert facts == expected


# The generator.


def test_generated_files_are_current():
    done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stale_file_is_named(tree: Path):
    assert generate(tree).returncode == 0
    assert generate(tree, "--check").returncode == 0
    header = tree / "src" / "abi" / "generated" / "entries.h"
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (tree / "src" / "abi" / "generated" / "liboldname_doors.cpp").write_text("", encoding="utf-8")
    done = generate(tree, "--check")
    assert done.returncode == 1
    assert "src/abi/generated/entries.h: stale" in done.stderr
    assert "src/abi/generated/liboldname_doors.cpp: stale" in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("table", "row", "complaint"),
    [
        ("entries.csv", "aclrtFoo,libascendcl,modeled,-,aclError,,", "class 'modeled' is none of"),
        ("entries.csv", "aclrtFoo,libascendcl,hint,-,aclError,,", "needs a reason"),
        ("entries.csv", "aclrtMalloc,libhccl,modelled,-,aclError,,", "has two rows"),
        ("entries.csv", "aclrtFoo,libfoo,modelled,-,aclError,,", "no row in spec/libraries.csv for libfoo"),
        ("entries.csv", "aclrtFoo,libascendcl,modelled,-,aclError,aclFoo* foo,", "no row in spec/types.csv"),
        ("entries.csv", "aclrtFoo,libascendcl,modelled,-,aclError,size_t,", "cannot read the parameter 'size_t'"),
        ("entries.csv", "aclrtFoo,libascendcl,modelled", "does not have 7 cells"),
        ("operators.csv", "aclnnFoo,ghost,in const aclTensor* self; out aclTensor* self,,", "is used twice"),
        ("operators.csv", "aclnnFoo,ghost,out int64_t dim,,", "only tensors and tensor lists have a direction"),
        ("operators.csv", "aclnnFoo,ghost,in resized aclTensor* self,,", "only what is written can be resized"),
        ("operators.csv", "aclnnAdd,ghost,out aclTensor* out,,", "has two rows"),
        ("workspace.csv", "aclnnFoo,,composite,16MiB,,,all,,high,a test,", "no operator of spec/operators.csv"),
        ("workspace.csv", "aclStft,,composite,many,,,all,,high,a test,", "a sum of numbers"),
        ("workspace.csv", "aclStft,,composite,,n(other),,all,,high,a test,", "'other' is no argument"),
        ("workspace.csv", "aclStft,,composite,,n(self,,all,,high,a test,", "')' is missing"),
        ("workspace.csv", "aclStft,,composite,,self,,all,,high,a test,", "self is a tensor"),
        ("workspace.csv", "aclStft,,composite,,n(self),,some,,high,a test,", "copies 'some' is none of"),
        ("workspace.csv", "aclStft,,composite,,n(self),,all,,high,,", "its source"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tree: Path, table: str, row: str, complaint: str):
    add_row(tree, table, row)
    line = len((tree / "spec" / table).read_text(encoding="utf-8").splitlines())
    done = generate(tree)
    assert done.returncode == 2
    assert f"spec/{table}:{line}" in done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


# The steps in docs/.


def test_the_steps_for_adding_an_entry(tree: Path):
    add_row(
        tree,
        "entries.csv",
        "aclrtNewThing,libascendcl,modelled,-,aclError,aclrtStream stream; const aclrtNewStruct* what; size_t* size,",
    )
    add_row(tree, "entries.csv", "aclrtNewHint,libascendcl,hint,-,aclError,aclrtStream stream,nothing to do")
    add_row(tree, "entries.csv", "aclrtNewRefusal,libascendcl,refused,-,void*,aclrtStream stream,no such thing")
    add_row(tree, "types.csv", "aclrtNewStruct,struct,void")
    done = generate(tree)
    assert done.returncode == 0, done.stderr
    declared = (tree / "src/abi/generated/entries.h").read_text(encoding="utf-8")
    assert "DRYDOCK_API Status aclrtNewThing(void* stream, const void* what, size_t* size);" in declared
    assert "aclrtNewHint" not in declared, "a hint has no handler"
    assert "aclrtNewThing;" in (tree / "src/abi/generated/libascendcl.map").read_text(encoding="utf-8")
    for file in ("libascendcl_doors.cpp", "entry_rows.cpp"):
        assert compiles(tree, f"src/abi/generated/{file}") == ""


def test_the_steps_for_adding_an_operator(tree: Path):
    (tree / "spec/kernels/zoo.csv").write_text("operator,kernel,assumed\n", encoding="utf-8")
    args = "in const aclTensor* self; inout aclTensor* stateRef; float scale; uint64_t seed; char* mode"
    add_row(tree, "operators.csv", f"aclnnZebra,ghost,{args}; out resized aclTensor* out,,")
    add_row(tree, "workspace.csv", "aclnnZebra,n(self) > 8,composite,16MiB,4 * n(self) * seed,,all,,high,a zoo,")
    add_row(tree, "kernels/zoo.csv", "aclnnZebra,zebra,one")
    done = generate(tree)
    assert done.returncode == 0, done.stderr
    rows = (tree / "src/ops/generated/operator_rows.cpp").read_text(encoding="utf-8")
    assert "Status zebra(KernelCall& call);" in (tree / "src/ops/generated/kernels.h").read_text(encoding="utf-8")
    assert '{"aclnnZebra", OperatorClass::kModelled, ' in rows
    zebra = rows[rows.index('{"aclnnZebra"') :]
    assert '"", true}' in zebra[: zebra.index("}") + 1], "its shape depends on values"
    rules = (tree / "src/ops/generated/workspace_rules.cpp").read_text(encoding="utf-8")
    assert "// aclnnZebra" in rules
    index = len(SPEC.operators)
    doors = (tree / "src/abi/generated/libopapi_doors_3.cpp").read_text(encoding="utf-8")
    assert f"return drydock::ops::phase1({index}, args, 6, workspaceSize, executor);" in doors
    assert f"return drydock::ops::phase2({index}, workspace, workspaceSize, executor, stream);" in doors
    exported = (tree / "src/abi/generated/libopapi.map").read_text(encoding="utf-8")
    assert "aclnnZebra;" in exported and "aclnnZebraGetWorkspaceSize;" in exported
    for file in (
        "src/ops/generated/operator_rows.cpp",
        "src/ops/generated/workspace_rules.cpp",
        "src/abi/generated/libopapi_doors_3.cpp",
    ):
        assert compiles(tree, file) == ""


# The command that prints them.


def support(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = library_dir().parents[1] / "bin" / "drydock"
    return subprocess.run([command, "support", *arguments], capture_output=True, text=True, check=False)


def test_support_prints_every_row():
    document = json.loads(support("--json").stdout)
    rows = {(row["name"], row["class"], row["reason"]) for row in document["rows"]}
    entries = {(entry.name, entry.entry_class, entry.reason) for entry in SPEC.entries}
    operators = {(operator.name, operator.operator_class, operator.reason) for operator in SPEC.operators}
    assert rows == entries | operators | {(operator.name, "modelled", "") for operator in SPEC.legacy_operators}


def test_support_of_an_unknown_name_is_an_error():
    done = support("aclrtNonsense")
    assert done.returncode == 2
    assert "aclrtNonsense" in done.stderr


def test_support_finds_what_this_wheel_wants(tmp_path: Path):
    done = support("--wheel", torch_npu_dir(), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    linked = {item["file"]: item for item in document["linked"]}
    assert linked["lib/libtorch_npu.so"]["names"] > 80
    for file in ("lib/libtorch_npu.so", "lib/libtensorpipe.so", "lib/libnpu_profiler.so"):
        assert linked[file]["missing"] == []
    assert document["operators"]["unknown"] == []
    absent = {item["name"] for item in document["looked_up"]["absent"]}
    assert absent == {entry.name for entry in SPEC.entries if entry.entry_class == "absent"} & absent
    # The same objects in a zip file, as a wheel is, give the same answer.
    wheel = tmp_path / "torch_npu.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in ("lib/libtensorpipe.so", "lib/libop_plugin_atb.so"):
            archive.write(torch_npu_dir() / path, path)
    packed = {item["file"]: item for item in json.loads(support("--wheel", wheel, "--json").stdout)["linked"]}
    assert packed == {path: linked[path] for path in ("lib/libtensorpipe.so", "lib/libop_plugin_atb.so")}


def test_support_names_what_a_wheel_wants_and_drydock_lacks(tmp_path: Path):
    source = tmp_path / "client.cpp"
    source.write_text(
        'extern "C" int aclrtFromTheFuture(); extern "C" int aclrtSetDevice(int);\n'
        'const char* const names[] = {"aclnnFuture", "aclnnFutureGetWorkspaceSize", "aclrtLookedUpLater"};\n'
        "int client(int index) { return aclrtFromTheFuture() + aclrtSetDevice(0) + names[index][0]; }\n",
        encoding="utf-8",
    )
    library = tmp_path / "wheel" / "libclient.so"
    library.parent.mkdir()
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    document = json.loads(support("--wheel", library.parent, "--json").stdout)
    missing = [{"class": "no row", "name": "aclrtFromTheFuture", "reason": ""}]
    assert document["linked"] == [{"file": "libclient.so", "names": 2, "missing": missing}]
    assert document["looked_up"]["unknown"] == ["aclrtLookedUpLater"]
    assert document["operators"]["unknown"] == ["aclnnFuture"]
