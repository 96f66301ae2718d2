"""Formatting and lint."""

from __future__ import annotations

import re

from check_files import ROOT, cpp_files, python_files, relative, run, tool


def clang_format(fix: bool) -> list[str]:
    """Every C++ file is as clang-format leaves it. Generated files are the generator's business."""
    files = [str(p) for p in cpp_files("src", "test", "bench", "examples")]
    if not files:
        return ["no C++ file found"]
    done = run(["clang-format", "-i", *files] if fix else ["clang-format", "--dry-run", "-Werror", *files])
    if done.returncode == 0:
        return []
    badly = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.MULTILINE)))
    names = [name.removeprefix(f"{ROOT}/") for name in badly]
    return [f"{name} is not formatted: tools/check --fix" for name in names] or done.stderr.splitlines()[:5]


def ruff(fix: bool) -> list[str]:
    """Every Python file passes ruff, lint and format."""
    files = [relative(p) for p in python_files()]
    if not files:
        return ["no Python file found"]
    ruff_tool = tool("ruff")
    lint = run([ruff_tool, "check", "--output-format=concise", *(["--fix"] if fix else []), *files])
    form = run([ruff_tool, "format", *([] if fix else ["--check"]), *files])
    complaints = [line for line in lint.stdout.splitlines() if re.match(r"\S+:\d+:\d+:", line)]
    if lint.returncode != 0 and not complaints:
        complaints = (lint.stdout + lint.stderr).splitlines()
    if form.returncode != 0:
        badly = [line.removeprefix("Would reformat: ") for line in form.stdout.splitlines() if "Would reformat" in line]
        complaints += [f"{name} is not formatted: tools/check --fix" for name in badly] or form.stderr.splitlines()
    return complaints
