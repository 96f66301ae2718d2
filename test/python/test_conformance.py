"""tools/conformance: lists, comparison, rotation, verdicts about exceptions, bad input."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import test_totals  # noqa: E402
from conformance_suites import document, outcomes, refusals, rotation, traces  # noqa: E402
from conformance_suites.outcomes import CRASH, FAIL, FALLBACK, PASS, REFUSED, Result  # noqa: E402


def conformance(*arguments):
    command = [sys.executable, str(ROOT / "tools" / "conformance"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_list_is_read_as_it_was_written(tmp_path):
    results = {
        ("add", "float32"): Result(PASS),
        ("add", "float16"): Result(PASS),
        ("add", "bool"): Result(REFUSED, 'says "no", twice'),
        ("abs", "float32"): Result(FALLBACK, "aten::abs"),
    }
    path = tmp_path / "list.csv"
    path.write_text(outcomes.list_text(results, "entry", {"float32": 0, "float16": 1}))
    assert outcomes.read_list(path) == results
    assert path.read_text().splitlines()[:3] == [
        "entry,cases,outcome,reason",
        "abs,float32,FALLBACK,aten::abs",
        'add,bool,REFUSED,"says ""no"", twice"',
    ]


def test_a_damaged_list_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("entry,cases,outcome,reason\nadd,float32,SPLENDID,\n")
    with pytest.raises(ValueError, match="SPLENDID"):
        outcomes.read_list(path)


def test_regressions_and_unexpected_passes_are_told_apart():
    expected = {
        ("a", "x"): Result(PASS),
        ("b", "x"): Result(FAIL),
        ("c", "x"): Result(PASS),
        ("d", "x"): Result(REFUSED),
    }
    got = {
        ("a", "x"): Result(CRASH, "SIGSEGV"),
        ("b", "x"): Result(PASS),
        ("d", "x"): Result(PASS),
        ("e", "x"): Result(FAIL),
    }
    worse, better = outcomes.differences(expected, got)
    assert list(worse.values()) == ["a x was PASS, is CRASH: SIGSEGV", "e x is FAIL and not in the list"]
    assert list(better.values()) == ["b x was FAIL, is PASS", "d x was REFUSED, is PASS"]
    worse, better = outcomes.differences(expected, {("c", "x"): Result(FALLBACK)})
    assert list(worse.values()) == ["c x was PASS, is FALLBACK"]
    assert not better


def test_a_junit_file_says_what_differs(tmp_path):
    results = {("add", "bool"): Result(PASS), ("abs", "bool"): Result(FAIL, "1 != 2")}
    outcomes.write_junit(tmp_path / "opinfo.xml", "opinfo", results, {("abs", "bool")})
    assert test_totals.count(tmp_path / "opinfo.xml") == (1, 1, 0)
    outcomes.write_junit(tmp_path / "opinfo.xml", "opinfo", results, {("abs", "bool")}, judged=False)
    assert test_totals.count(tmp_path / "opinfo.xml") == (1, 0, 1)


def test_rotation_covers_everything_and_keeps_to_its_budget():
    names = [f"entry{number}" for number in range(200)]
    seconds = {name: 0.1 + number % 7 for number, name in enumerate(names)}
    parts = [rotation.sample(names, seconds, 60, number) for number in range(40)]
    assert set().union(*parts) == set(names)
    assert all(sum(seconds[name] for name in part) <= 60 for part in parts)
    assert rotation.sample(names, seconds, 60, 3) == parts[3]


def test_evidence_is_read_case_by_case():
    text = (
        "thread 0 operator npu:0 stream 1 ghost aclnnFoo(self=fp32[3]) at x.py:1 (f)\n"
        "thread 0 step 1 ends at x.py:2 (f)\n"
        "thread 0 host-fallback aten::bar at x.py:3 (f)\n"
    )
    first, second = traces.read_evidence(text)
    assert (first.ghosts, first.fallbacks) == ({"aclnnFoo"}, set())
    assert (second.ghosts, second.fallbacks) == (set(), {"aten::bar"})


def test_who_refused_is_told_from_the_exception():
    assert refusals.judge(RuntimeError("Input data type should not be float64"))[0] == REFUSED
    assert refusals.judge(RuntimeError("aclnnFoo: error code is 161002, the device has no float64"))[0] == REFUSED
    assert refusals.judge(RuntimeError("aclnnFoo: error code is 561003 (no kernel)"))[0] == FAIL
    assert refusals.judge(RuntimeError("error code is 507035"))[0] == FAIL
    assert refusals.judge(AssertionError("3 != 4"))[0] == FAIL
    assert refusals.ends_the_process(refusals.judge(RuntimeError("error code is 507035\naclnnFoo: no"))[1])


def test_reasons_have_nothing_that_changes_from_run_to_run():
    reason = refusals.one_line(
        "went wrong\n[ERROR] 2026-01-01-10:00:00 (PID:123, Device:0) ERR01100 OPS call acl api failed"
    )
    assert reason == "went wrong"


def test_the_reason_is_the_operators_sentence():
    text = (
        "ones:OnesKernel.cpp:42 NPU function error: call aclnnInplaceOne failed, error code is 161002\n"
        "[ERROR] 2026-11-30-18:01:03 (PID:23603, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n"
        "aclnnInplaceOne: argument selfRef is complex64, which the table does not list: it takes fp32, bool."
    )
    sentence = "aclnnInplaceOne: argument selfRef is complex64, which the table does not list"
    assert refusals.judge(RuntimeError(text)) == (REFUSED, sentence)
    text = text.partition("aclnnInplaceOne: ")[0].replace("161002", "561003")
    text += "aclnnFoo has no kernel on the virtual device. The call was made at /a/b.py:2 (f). With --values auto ..."
    assert refusals.judge(RuntimeError(text)) == (FAIL, "aclnnFoo has no kernel on the virtual device")


def test_the_page_is_what_the_lists_give():
    assert document.main(["--check"]) == 0


def test_the_page_counts_and_gives_reasons(tmp_path):
    results = {
        ("add", "bool"): Result(PASS),
        ("add", "int8"): Result(REFUSED, "no int8"),
        ("abs", "int8"): Result(FAIL, "1 != 2"),
    }
    (tmp_path / "opinfo.csv").write_text(outcomes.list_text(results, "entry"))
    text = document.document_text(tmp_path)
    assert "| dtype | PASS | REFUSED | FAIL | all |" in text
    assert "| no int8 | 1 | add int8 |" in text
    assert "| 1 != 2 | 1 | abs int8 |" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "there is no verb nonsense"),
        (["opinfo", "--outcome", "GREAT"], "there is no outcome GREAT"),
        (["opinfo", "--jobs", "0"], "--jobs is 1 or more"),
        (["suite", "--checkout", "no/such/folder"], "is no folder"),
        (["suite", "--checkout", str(ROOT / "test" / "python"), "nothing.py"], "has no file nothing.py"),
        (["suite", "--checkout", str(ROOT / "test" / "python"), "/etc/passwd"], "not below the checkout"),
    ],
)
def test_bad_input_gives_a_sentence(arguments, sentence):
    done = conformance(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_row_about_the_client_without_a_reason_is_refused(tmp_path):
    path = tmp_path / "client.csv"
    path.write_text("entry,what,reason\nadd,result,because\n")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path; from conformance_suites import client_differences\n"
            "try: client_differences.read(Path(sys.argv[2]))\n"
            "except ValueError as error: print(error)\n",
            str(ROOT / "tools"),
            str(path),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": "/usr/bin"},
    )
    assert "the row of add makes no sense" in done.stdout, done.stderr


@pytest.mark.slow
def test_an_unknown_entry_gives_its_neighbours():
    done = conformance("opinfo", "--entry", "nn.functional.rellu")
    assert done.returncode == 2
    assert "no entry nn.functional.rellu; near it: nn.functional.relu" in done.stderr
    assert conformance("opinfo", "--entry", "add", "--dtype", "float31").returncode == 2


@pytest.mark.slow
def test_entries_are_run_and_written_down(tmp_path):
    out = tmp_path / "out.jsonl"
    done = conformance(
        "opinfo", "--entry", "add", "--dtype", "float32", "--dtype", "int32", "--jobs", "1", "--out", str(out)
    )
    assert "2 of 2 pairs" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
    assert out.read_text().count('"outcome": "PASS"') == 2


@pytest.mark.slow
def test_a_suite_outlives_the_crash_of_a_test(tmp_path):
    (tmp_path / "test_three.py").write_text(
        "import os, unittest, torch\n"
        "class Three(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual((torch.ones(2, device='npu') + 1).tolist(), [2, 2])\n"
        "    def test_b(self): os.abort()\n"
        "    def test_c(self): self.assertEqual(1, 2)\n"
        "    def test_d(self): self.skipTest('not here')\n"
    )
    done = conformance("suite", "--checkout", str(tmp_path), "--name", "of-a-test")
    assert "suite of-a-test: 4 tests of 1 files" in done.stdout, done.stdout + done.stderr
    assert "1 PASS" in done.stdout and "1 SKIPPED" in done.stdout
    assert "test_three.py Three::test_b: CRASH: SIGABRT" in done.stdout
    assert "test_three.py Three::test_c: FAIL: " in done.stdout
    assert "there is no test/conformance/suite-of-a-test.csv" in done.stdout
