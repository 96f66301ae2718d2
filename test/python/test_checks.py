"""tools/check finds what it is there to find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """The modules of tools/check, looking at a tree in tmp_path."""
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import check_code
    import check_files
    import check_form
    import check_layers
    import check_text

    for module in (check_code, check_files, check_form, check_layers, check_text):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(check_text, "SIZES", tmp_path / "tools" / "file_sizes.txt")
    for folder in ("src/base", "src/trace", "test", "bench", "tools", "python", "examples", "profiles"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tools" / "file_sizes.txt").write_text("# sizes\n")
    (tmp_path / "tools" / "layers.toml").write_text('[folders]\nbase = []\ntrace = ["base"]\n')
    (tmp_path / "src/base/good.h").write_text("#pragma once\n\nint good();\n")

    class Tools:
        root = tmp_path
        code, form, layers, text = check_code, check_form, check_layers, check_text

    return Tools


def test_layers(tools):
    (tools.root / "src/trace/a.cpp").write_text('#include "base/good.h"\n')
    assert tools.layers.layers(False) == []
    (tools.root / "src/trace/a.h").write_text("")
    (tools.root / "src/base/bad.cpp").write_text('\n#include "trace/a.h"\n#include "base/no_such.h"\n')
    upward, absent = tools.layers.layers(False)
    assert upward.startswith("src/base/bad.cpp:2: base may not include trace/a.h")
    assert "is no file of src/" in absent


@pytest.mark.parametrize("name", ["src/base/string_utils.h", "src/base/common.cpp", "tools/helpers.py"])
def test_vague_file_names(tools, name):
    assert tools.text.vague_names(False) == []
    (tools.root / name).write_text("")
    assert len(tools.text.vague_names(False)) == 1


def test_vague_type_names(tools):
    (tools.root / "src/base/stream.h").write_text("class StreamManager {};\nstruct Commonwealth {};\n")
    (complaint,) = tools.text.vague_names(False)
    assert "StreamManager" in complaint


def test_local_paths(tools):
    (tools.root / "src/base/a.h").write_text("// /usr/lib and build/dev/ and 1/2 are fine\n")
    assert tools.text.local_paths(False) == []
    (tools.root / "src/base/b.h").write_text("// see /" + "home/someone/notes\n")
    (tools.root / "src/base/c.h").write_text("// see .." + "/elsewhere/notes\n")
    assert len(tools.text.local_paths(False)) == 2


def test_file_sizes_only_shrink(tools):
    long = tools.root / "src/base/long.cpp"
    long.write_text("\n" * 500)
    assert "500 lines" in tools.text.file_sizes(False)[0]
    sizes = tools.root / "tools/file_sizes.txt"
    sizes.write_text("# sizes\n500 src/base/long.cpp\n")
    assert tools.text.file_sizes(False) == []
    long.write_text("\n" * 450)
    assert "higher than need be" in tools.text.file_sizes(False)[0]
    assert tools.text.file_sizes(True) == []
    assert sizes.read_text() == "# sizes\n450 src/base/long.cpp\n"
    long.write_text("\n" * 451)
    assert "more than its 450" in tools.text.file_sizes(False)[0]
    sizes.write_text("2000 src/base/long.cpp\n")
    long.write_text("\n" * 1001)
    assert "1000 is the most" in tools.text.file_sizes(False)[0]


def test_headers_alone(tools):
    assert tools.code.headers_alone(False) == []
    bad = tools.root / "src/base/bad.h"
    bad.write_text("#pragma once\n\nstd::string lost();\n")
    assert "does not compile alone" in tools.code.headers_alone(False)[0]
    # A file that passed is looked at again when a header that it includes changes.
    bad.write_text('#pragma once\n\n#include "base/good.h"\n\ninline int twice() { return 2 * good(); }\n')
    assert tools.code.headers_alone(False) == []
    (tools.root / "src/base/good.h").write_text("#pragma once\n")
    assert "good" in tools.code.headers_alone(False)[0]


def test_formatting(tools):
    (tools.root / ".clang-format").write_text("BasedOnStyle: Google\n")
    assert tools.form.clang_format(False) == []
    (tools.root / "src/base/bad.h").write_text("int  bad( );\n")
    assert tools.form.clang_format(False) == ["src/base/bad.h is not formatted: tools/check --fix"]
    assert tools.form.clang_format(True) == []
    assert (tools.root / "src/base/bad.h").read_text() == "int bad();\n"
