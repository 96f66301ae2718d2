"""The installed wheel: the tree that ASCEND_HOME_PATH names, and libraries that need nothing but a plain system."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
REPOSITORY = Path(__file__).resolve().parents[2]


def package() -> Path:
    spec = importlib.util.find_spec("drydock")
    assert spec is not None and spec.origin is not None, "the wheel is not installed: tools/setup"
    return Path(spec.origin).parent


def dynamic_section(path: Path) -> str:
    return subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout


def needed(path: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic_section(path)))


def libraries() -> list[Path]:
    return sorted((package() / "cann" / "lib64").glob("*.so"))


def test_the_tests_run_on_the_wheel_and_not_on_the_source_tree():
    assert not package().is_relative_to(REPOSITORY / "python")


@pytest.mark.parametrize("folder", ["runtime", "compiler", "opp", "lib64"])
def test_cann_folder_that_torch_npu_looks_for(folder):
    assert (package() / "cann" / folder).is_dir()


def test_every_library_that_torch_npu_links_is_there():
    torch_npu = importlib.util.find_spec("torch_npu")
    assert torch_npu is not None and torch_npu.origin is not None
    wanted = set()
    root = Path(torch_npu.origin).parent
    # libop_plugin_atb.so is an add-on for another library, loaded only by those who have it.
    for library in [*root.glob("_C.*.so"), *root.glob("lib/*.so")]:
        if library.name != "libop_plugin_atb.so":
            wanted |= needed(library)
    vendor = {name for name in wanted if re.match(r"lib(hccl|ascend|acl|ge_|graph)", name)}
    assert vendor, "the wheel of torch_npu links no vendor library?"
    assert vendor <= {library.name for library in libraries()}


def test_libraries_need_only_each_other_and_a_plain_system():
    ours = {library.name for library in libraries()}
    for library in libraries():
        assert needed(library) <= SYSTEM_LIBRARIES | ours, library.name


def test_libraries_find_each_other_and_stay_loaded():
    assert libraries()
    for library in libraries():
        section = dynamic_section(library)
        assert re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", section) == ["$ORIGIN"], library.name
        assert f"[{library.name}]" in re.findall(r"\(SONAME\).*(\[.+\])", section), library.name
        assert "NODELETE" in section, library.name


def test_the_command_needs_only_a_plain_system():
    assert needed(package() / "bin" / "drydock") <= SYSTEM_LIBRARIES


def test_no_path_of_the_building_machine_is_in_the_binaries():
    for binary in [*libraries(), package() / "bin" / "drydock"]:
        assert str(REPOSITORY).encode() + b"/" not in binary.read_bytes(), binary.name
