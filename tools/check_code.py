"""Checks that compile: each header alone, and clang-tidy. Files that passed as they are, are not looked at again."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from check_files import ROOT, Passed, cpp_files, relative, run

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
DEFINITIONS = ["-DTOML_HEADER_ONLY=1", '-DDRYDOCK_VERSION="0"']


def headers_alone(_fix: bool) -> list[str]:
    """Each header compiles with nothing included before it."""

    def compile_alone(path: Path) -> list[str]:
        # Through an including file: a header compiled as the main file is warned about for its pragma once.
        name = path.relative_to(ROOT / "src")
        done = subprocess.run(
            ["g++", *FLAGS, *DEFINITIONS, f"-I{ROOT / 'src'}", "-x", "c++", "-"],
            input=f'#include "{name}"\n',
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return []
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        return [f"{relative(path)} does not compile alone: {errors[0]}"]

    headers = cpp_files("src", suffixes=(".h",), generated=True)
    version = run(["g++", "--version"]).stdout.encode()
    return Passed("headers", version + repr(FLAGS).encode()).run(headers, compile_alone)


def clang_tidy(fix: bool) -> list[str]:
    """clang-tidy, with the compile commands of build/dev."""
    commands = ROOT / "build" / "dev" / "compile_commands.json"
    configured = run(["cmake", "--preset", "dev"])
    if configured.returncode != 0:
        return ["cmake --preset dev fails: " + (configured.stderr.strip().splitlines() or ["no message"])[0]]
    entries = json.loads(commands.read_text())
    known = {entry["file"] for entry in entries}
    # clang cannot read what GCC precompiled, and does not know the warnings that are off there.
    for entry in entries:
        entry["command"] = re.sub(r" -Winvalid-pch -include \S+| -Wno-(?!error)\S+", "", entry["command"])
    database = ROOT / "build" / "check" / "compile_commands.json"
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_text(json.dumps(entries))

    def tidy(path: Path) -> list[str]:
        done = run(["clang-tidy", "-p", str(database.parent), "--quiet", *(["--fix"] if fix else []), str(path)])
        found = re.findall(r"^(\S+:\d+:\d+: (?:warning|error): .*)$", done.stdout, re.MULTILINE)
        found = [line.removeprefix(f"{ROOT}/") for line in dict.fromkeys(found)]
        if done.returncode != 0 and not found:
            found = [f"{relative(path)}: clang-tidy fails: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"]
        return found

    # The kernels' families below src/ops/ are not read yet: half of all files, and most of the time.
    kernels = ROOT / "src" / "ops"
    files = [
        path
        for path in cpp_files("src", suffixes=(".cpp",))
        if str(path) in known and not (kernels in path.parents and path.parent != kernels)
    ]
    salt = run(["clang-tidy", "--version"]).stdout.encode() + (ROOT / ".clang-tidy").read_bytes()
    return sorted(set(Passed("tidy", salt).run(files, tidy)))
