"""What the rows in spec/ decide: generated files, and the symbols that the installed libraries export."""

from __future__ import annotations

from check_files import ROOT, relative, run, tool

GENERATORS = [ROOT / "tools" / "generate", ROOT / "profiles" / "generate_builtin.py"]
SYMBOLS_TEST = ROOT / "test" / "python" / "test_rows.py"


def generated_files(_fix: bool) -> list[str]:
    """The generated files in the tree are what the rows and the profiles give."""
    complaints = []
    for generator in GENERATORS:
        done = run([tool("python"), str(generator), "--check"])
        if done.returncode != 0:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            complaints += lines or [f"{relative(generator)} --check failed"]
    return complaints


def exported_symbols(_fix: bool) -> list[str]:
    """`nm -D` of each installed library equals the rows: the test that says so, passes."""
    if not SYMBOLS_TEST.is_file():
        return [f"{relative(SYMBOLS_TEST)} is missing"]
    done = run([tool("python"), "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", str(SYMBOLS_TEST)])
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))] or lines[-5:]
