"""C and C++ programs against our headers and libraries: every header compiles, and the examples build and compute."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "cpp"
PROGRAMS = ["matmul_streams", "tensor_lists", "vector_add"]
LIBRARIES = ("-lascendcl", "-lopapi", "-lnnopbase")


@dataclass(frozen=True)
class Installation:
    """The command under test and the tree that ASCEND_HOME_PATH names."""

    command: str
    home: Path


@pytest.fixture(scope="module")
def installation(drydock_command: str, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    shown = run(drydock_command, "env", "--out", "unused", folder=tmp_path_factory.mktemp("env")).stdout
    home = re.search(r"ASCEND_HOME_PATH=['\"]?([^'\"\n]+)", shown)
    assert home is not None, shown
    return Installation(drydock_command, Path(home[1]))


def run(*command: object, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DRYDOCK_", "ASCEND_", "LD_"))}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
        env=clean | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built_plainly(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, built with the command line of their README."""
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert " ".join(LIBRARIES) in readme
    folder = tmp_path_factory.mktemp("plain")
    for name in PROGRAMS:
        options = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        search = ["-I", installation.home / "include", "-L", installation.home / "lib64"]
        run("g++", *options, EXAMPLES / f"{name}.cpp", "-o", folder / name, *search, *LIBRARIES)
    return folder


def test_all_examples_are_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.cpp")) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_built_plainly_runs_bare(
    installation: Installation, built_plainly: Path, tmp_path: Path, name: str
) -> None:
    done = run(
        built_plainly / name,
        LD_LIBRARY_PATH=str(installation.home / "lib64"),
        DRYDOCK_VALUES="full",
        folder=tmp_path,
    )
    assert re.fullmatch(rf"{name}: \d+ elements are right, the last is \S+\n", done.stdout), done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_under_drydock(
    installation: Installation, built_plainly: Path, tmp_path: Path, name: str
) -> None:
    program = built_plainly / name
    out = tmp_path / "run"
    done = run(installation.command, "run", "--values", "full", "--out", out, "--", program, folder=tmp_path)
    assert f"{name}: " in done.stdout
    assert "100% computed" in done.stderr


def test_an_example_says_what_differs(installation: Installation, built_plainly: Path, tmp_path: Path) -> None:
    """Without values the results are not the host's: an example that checks nothing would still end well."""
    done = subprocess.run(
        [built_plainly / "vector_add"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env={"LD_LIBRARY_PATH": str(installation.home / "lib64"), "DRYDOCK_VALUES": "ghost"},
    )
    assert done.returncode == 1
    assert "vector_add: element 0 is 1, not 0" in done.stdout


def test_find_package_builds_the_examples(installation: Installation, tmp_path: Path) -> None:
    build = tmp_path / "build"
    run("cmake", "-S", EXAMPLES, "-B", build, f"-DCMAKE_PREFIX_PATH={installation.home}")
    run("cmake", "--build", build)
    for name in PROGRAMS:
        done = run(build / name, folder=tmp_path, DRYDOCK_VALUES="full")  # CMake sets the build tree's library path
        assert f"{name}: " in done.stdout


def test_find_package_says_what_is_missing(installation: Installation, tmp_path: Path) -> None:
    broken = tmp_path / "cann"
    shutil.copytree(installation.home / "cmake", broken / "cmake")
    done = subprocess.run(
        ["cmake", "-S", EXAMPLES, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={broken}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "acl.h is missing" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("compiler", "suffix", "standard"), [("gcc", "c", "c11"), ("g++", "cpp", "c++11"), ("g++", "cpp", "c++20")]
)
def test_every_header_compiles_with_all_the_others(
    installation: Installation, tmp_path: Path, compiler: str, suffix: str, standard: str
) -> None:
    include = installation.home / "include"
    headers = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.h"))
    assert len(headers) > 500
    if suffix == "c":  # these two are classes
        headers = [header for header in headers if "/opdev/" not in header]
    source = tmp_path / f"all.{suffix}"
    source.write_text("".join(f"#include <{header}>\n" for header in headers * 2), encoding="utf-8")
    options = [f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    run(compiler, *options, "-I", include, source)
