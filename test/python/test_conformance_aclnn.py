"""tools/conformance aclnn: which programs are examples, what a fault excuses, the figures of a list."""

import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from conformance_suites import aclnn, document, outcomes  # noqa: E402
from conformance_suites.outcomes import CRASH, FAIL, PASS, REFUSED, SKIPPED, Result  # noqa: E402

_PROGRAM = "int main() { aclnnAbsGetWorkspaceSize(self, out, &size, &executor); }"


def test_examples_are_programs_for_this_device_that_call_an_operator(tmp_path):
    root = tmp_path / "ops-math"
    files = {
        "math/abs/examples/test_aclnn_abs.cpp": "int main() {}",
        "math/abs/examples/arch22/test_aclnn_abs.cpp": _PROGRAM,
        "math/abs/examples/arch35/test_aclnn_abs.cpp": _PROGRAM,
        "math/abs/examples/abs_by_another_name.cpp": _PROGRAM,
        "math/abs/examples/no_operator.cpp": "int main() {}",
        "math/abs/example/abs.cpp": _PROGRAM,
        "math/abs/tests/test_aclnn_abs.cpp": _PROGRAM,
        "experimental/math/abs/examples/test_aclnn_abs.cpp": _PROGRAM,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found = sorted(key for key, _ in aclnn.find_examples(root, []))
    assert found == [
        ("ops-math/math/abs/example", "abs.cpp"),
        ("ops-math/math/abs/examples", "abs_by_another_name.cpp"),
        ("ops-math/math/abs/examples", "test_aclnn_abs.cpp"),
        ("ops-math/math/abs/examples/arch22", "test_aclnn_abs.cpp"),
    ]


def test_a_fault_excuses_the_failure_that_it_explains_and_no_other(monkeypatch):
    key = ("ops-math/math/qr/examples", "test_aclnn_linalg_qr.cpp")
    monkeypatch.setattr(aclnn, "faults", lambda: {key: ("not all allocated", "it copies too much")})
    explained = Result(FAIL, "aclrtMemcpy: 128 bytes are not all allocated")
    assert aclnn.excused(key, explained).outcome == REFUSED
    for other in (Result(FAIL, "result[0] is 1, torch computes 2"), Result(PASS), Result(SKIPPED, "not all allocated")):
        assert aclnn.excused(key, other) == other
    assert aclnn.excused(("ops-math/math/abs/examples", "test_aclnn_abs.cpp"), explained) == explained


def test_the_figures_count_examples_whose_operators_compute():
    reasons = [
        (PASS, ""),
        (PASS, aclnn.STATUS_ONLY),
        (FAIL, "does not build: no such header"),
        (CRASH, "signal 11"),
        (REFUSED, f"{aclnn.FAULT}it copies too much (failed)"),
        (REFUSED, f"{aclnn.BUILDS}aclnnX: not on Atlas A3"),
        (SKIPPED, aclnn.SEVERAL_DEVICES),
        (SKIPPED, f"{aclnn.BUILDS}aclnnY has no kernel"),
        (SKIPPED, f"aclnnZ {aclnn.FOREIGN_OPERATOR}"),
    ]
    results = {("ops-math/x/examples", f"{index}.cpp"): Result(*reason) for index, reason in enumerate(reasons)}
    lines = aclnn.figures(results)
    assert lines[0] == (
        "9 examples. 1 call operators that the wheel does not, 1 need several devices; of the other 7, 6 build."
    )
    assert lines[1].startswith("1 of these are not run because an operator has no kernel, 1 because the manual")
    assert "Of the 5 whose operators compute, 2 (40.0 %) build, run and agree, 1 of them compared" in lines[-1]
    assert "1 fail by their own fault, 2 by the device's" in lines[-1]


def test_the_document_has_the_figures_and_the_reasons(tmp_path):
    results = {
        ("ops-math/math/abs/examples", "test_aclnn_abs.cpp"): Result(PASS),
        ("ops-math/math/qr/examples", "test_aclnn_qr.cpp"): Result(FAIL, "signal 11"),
    }
    (tmp_path / "aclnn.csv").write_text(outcomes.list_text(results, "folder"))
    text = document.document_text(tmp_path)
    assert "1 (50.0 %) build, run and agree" in text
    assert "| signal 11 | qr |" in text


def test_every_fault_is_of_an_example_in_the_list():
    listed = outcomes.read_list(aclnn.LIST)
    with aclnn.FAULTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        assert row["shows"]
        result = listed[row["folder"], row["file"]]
        assert result.outcome == REFUSED
        assert result.reason.startswith(aclnn.FAULT + row["fault"])
