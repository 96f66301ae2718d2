"""The `drydock` command: exit codes, sentences, run folders, signals. No test here needs torch."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["isolated_command"]

ROOT = Path(__file__).resolve().parents[2]


# Exit codes and where output goes


def test_a_command_without_device_gets_a_verdict_that_says_so(drydock, tmp_path):
    result = drydock("run", "--out", tmp_path / "r", "--", "true")
    assert result.returncode == 0
    assert result.stdout == ""
    assert result.stderr.startswith("drydock: ran to its end (exit code 0")
    assert "not used: no process of this run called it" in result.stderr
    ledger = drydock.ledger(tmp_path / "r")
    assert ledger["run"]["command"] == ["true"]
    assert ledger["run"]["exit_code"] == 0
    assert ledger["run"]["processes"] == 0
    assert ledger["verdict"]["kind"] == "ran"
    assert ledger["trace"] == {"records": 0, "bytes": 0, "lost": 0, "truncated": 0, "unreadable": 0}


@pytest.mark.parametrize("code", [1, 3, 42, 255])
def test_the_commands_exit_code_is_returned(drydock, code):
    result = drydock("run", "--", "sh", "-c", f"exit {code}")
    assert result.returncode == code
    assert f"FAILED (exit code {code}" in result.stderr


def test_standard_output_and_input_are_the_commands(drydock):
    result = subprocess.run(
        [str(drydock.binary), "run", "--", "sh", "-c", "read word; echo got $word; echo oops >&2"],
        input="fish\n",
        capture_output=True,
        text=True,
        cwd=drydock.work,
        timeout=60,
        check=False,
    )
    assert result.stdout == "got fish\n"
    assert result.stderr.startswith("oops\ndrydock: ")


def test_arguments_behind_the_separator_are_left_alone(drydock):
    result = drydock("run", "--", "printf", "%s|", "--values", "--", "--help", "a b")
    assert result.stdout == "--values|--|--help|a b|"


def test_no_such_command(drydock):
    result = drydock("run", "--", "no-such-command-here")
    assert result.returncode == 127
    assert result.stderr == 'drydock: There is no command "no-such-command-here".\n'
    assert list(drydock.work.rglob("run.json")) == []


def test_a_file_that_cannot_be_executed(drydock):
    (drydock.work / "notes").write_text("no program\n")
    result = drydock("run", "--", "./notes")
    assert result.returncode == 126
    assert "can't be executed" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "A subcommand is required"),
        (["frobnicate"], "there is no subcommand"),
        (["run"], "run needs a command behind --"),
        (["run", "--"], "run needs a command behind --"),
        (["run", "true"], "The command to run stands behind --"),
        (["run", "--frobnicate", "--", "true"], "--frobnicate"),
        (["run", "--values", "some", "--", "true"], "one of auto, full, ghost"),
        (["run", "--record", "some", "--", "true"], "one of full, null"),
        (["run", "--devices", "0", "--", "true"], "1 to 16"),
        (["run", "--devices", "17", "--", "true"], "1 to 16"),
        (["run", "--devices", "two", "--", "true"], "1 to 16"),
        (["run", "--devices", "2x", "--", "true"], "1 to 16"),
        (["run", "--value-budget", "lots", "--", "true"], "--value-budget"),
        (["run", "--value-budget", "-1", "--", "true"], "--value-budget"),
        (["run", "--value-budget", "99999999999GiB", "--", "true"], "--value-budget"),
        (["run", "--threads", "0", "--", "true"], "1 to 256"),
        (["run", "--threads", "257", "--", "true"], "1 to 256"),
        (["run", "--threads", "2x", "--", "true"], "1 to 256"),
        (["run", "--profile", "ascend42", "--", "true"], "there is no profile 'ascend42'"),
        (["run", "--profile", "./none.toml", "--", "true"], "none.toml"),
        (["run", "--cann", "newest", "--", "true"], "newest"),
        (["run", "--driver", "newest", "--", "true"], "newest"),
        (["run", "--out", "", "--", "true"], "--out"),
        (["run", "--driver", "", "--", "true"], "--driver"),
        (["run", "--profile=", "--", "true"], "--profile"),
        (["env", "--values", ""], "--values"),
        (["ledger", ""], "RUN"),
        (["ledger"], "RUN is required"),
        (["ledger", "nowhere"], "There is no run"),
        (["trace", "nowhere"], "nowhere"),
        (["ledger", "x", "--", "true"], "only run, plan and tune --program take a command"),
        (["env", "--values", "some"], "one of auto, full, ghost"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_code_2(drydock, arguments, words):
    result = drydock(*arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert result.stderr.startswith("drydock: ")
    assert result.stdout == ""
    assert list(drydock.work.iterdir()) == [], "nothing is made before everything is checked"


def test_a_profile_with_nonsense(drydock):
    (drydock.work / "mine.toml").write_text('base = "ascend910c"\n[memory]\nhbm_bytes = "many"\n')
    result = drydock("run", "--profile", "mine.toml", "--", "true")
    assert result.returncode == 2
    assert "mine.toml" in result.stderr
    (drydock.work / "mine.toml").write_text("\x00\x01 no toml")
    assert drydock("run", "--profile", "mine.toml", "--", "true").returncode == 2


def test_version_and_help(drydock):
    version = drydock("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("drydock ")
    for arguments in (["--help"], ["run", "--help"], ["env", "--help"], ["ledger", "--help"], ["support", "--help"]):
        result = drydock(*arguments)
        assert result.returncode == 0
        assert "xample" in result.stdout or arguments[0] in ("ledger", "support")


def test_help_names_the_options_of_the_table(drydock):
    with (ROOT / "spec" / "options.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    pages = {
        verb: drydock(verb, "--help").stdout for verb in ("run", "env", "ledger", "trace", "support", "plan", "tune")
    }
    options = [row for row in rows if row["option"]]
    assert options
    for row in options:
        for verb in row["verbs"].split(";"):
            assert row["option"] in pages[verb], row
    for verb, page in pages.items():
        known = {row["option"] for row in options if verb in row["verbs"].split(";")} | {"--help"}
        listed = {word.strip(",") for line in page.splitlines() for word in line.split()[:1] if word.startswith("--")}
        assert listed <= known, verb


# Run folders


def test_a_run_folder_of_its_own_is_made(drydock):
    for _ in range(3):  # within one second
        assert drydock("run", "--", "true").returncode == 0
    runs = sorted((drydock.work / "drydock-runs").iterdir())
    assert len(runs) == 3
    for run in runs:
        assert {entry.name for entry in run.iterdir()} == {"run.json", "traces", "ledger.sqlite"}


def test_an_existing_run_is_never_written_over(drydock, tmp_path):
    assert drydock("run", "--out", tmp_path / "r", "--", "true").returncode == 0
    before = (tmp_path / "r" / "run.json").read_bytes()
    result = drydock("run", "--out", tmp_path / "r", "--", "false")
    assert result.returncode == 2
    assert "holds something already" in result.stderr
    assert (tmp_path / "r" / "run.json").read_bytes() == before


def test_an_empty_folder_is_taken_and_a_file_is_not(drydock, tmp_path):
    (tmp_path / "empty").mkdir()
    assert drydock("run", "--out", tmp_path / "empty", "--", "true").returncode == 0
    (tmp_path / "file").write_text("")
    result = drydock("run", "--out", tmp_path / "file", "--", "true")
    assert result.returncode == 2
    assert "is a file" in result.stderr


def test_a_folder_that_cannot_be_made(drydock):
    result = drydock("run", "--out", "/proc/run", "--", "true")
    assert result.returncode == 2
    assert "can't be made" in result.stderr


def test_a_read_only_place_sends_the_run_elsewhere(drydock, tmp_path):
    result = drydock("run", "--", "true", cwd="/proc", env={"TMPDIR": str(tmp_path)})
    assert result.returncode == 0
    assert [run.name for run in (tmp_path / "drydock-runs").iterdir()]
    assert str(tmp_path) in result.stderr


def test_a_run_that_removes_its_own_folder_still_ends_with_its_code(drydock, tmp_path):
    result = drydock("run", "--out", tmp_path / "r", "--", "sh", "-c", f"rm -r {tmp_path}/r; exit 5")
    assert result.returncode == 5
    assert "drydock: " in result.stderr


def test_run_json_says_how_it_was_started(drydock, tmp_path):
    drydock("run", "--out", tmp_path / "r", "--devices", "2", "--values", "ghost", "--", "sh", "-c", "sleep 0.2")
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["command"] == ["sh", "-c", "sleep 0.2"]
    assert run["exit_code"] == 0
    assert 0.2 <= run["wall_s"] < 30
    assert run["devices"] == 2
    assert run["values"] == "ghost"
    assert run["profile"] == "ascend910c"
    assert run["working_directory"] == str(drydock.work)
    assert run["environment"]["DRYDOCK_DEVICES"] == "2"
    assert run["chosen"] == ["TASK_QUEUE_ENABLE"]


# Reading runs


def test_ledgers_that_cannot_be_read(drydock, tmp_path):
    drydock("run", "--out", tmp_path / "r", "--", "true")
    ledger = tmp_path / "r" / "ledger.sqlite"
    whole = ledger.read_bytes()
    for content in (b"", b"x" * 5000, whole[: len(whole) // 2], whole[:-1]):
        ledger.write_bytes(content)
        result = drydock("ledger", tmp_path / "r")
        assert result.returncode == 2
        assert result.stderr.startswith("drydock: ")
        assert result.stdout == ""
    ledger.write_bytes(whole[:63] + b"\x63" + whole[64:])
    assert "version 99" in drydock("ledger", ledger).stderr
    assert drydock("ledger", "--rebuild", tmp_path / "r").returncode == 0
    ledger.unlink()
    assert drydock("ledger", tmp_path / "r").returncode == 0, "a missing ledger is made"


def test_a_file_that_is_no_trace(drydock, tmp_path):
    (tmp_path / "x.ddtrace").write_text("something else")
    result = drydock("trace", tmp_path / "x.ddtrace")
    assert result.returncode == 2
    assert "is not a trace of Drydock" in result.stderr
    (tmp_path / "r" / "traces").mkdir(parents=True)
    result = drydock("trace", tmp_path / "r")
    assert result.returncode == 2
    assert "holds no trace" in result.stderr


def test_the_trace_names_entries(drydock, tmp_path):
    program = "import ctypes; print(ctypes.CDLL('libascendcl.so').aclrtSetDevice(99))"
    assert drydock("run", "--out", tmp_path / "r", "--", sys.executable, "-c", program).stdout == "107001\n"
    assert "failed aclrtSetDevice code 107001" in drydock("trace", tmp_path / "r").stdout
    ledger = drydock.ledger(tmp_path / "r")
    assert [error["entry"] for error in ledger["errors"]] == ["aclrtSetDevice"]


def test_a_folder_that_cannot_be_written_leaves_nothing_elsewhere(drydock, tmp_path):
    assert drydock("run", "--out", tmp_path / "r", "--", "true").returncode == 0
    (tmp_path / "r" / "ledger.sqlite").unlink()
    (tmp_path / "r" / "ledger.sqlite" / "in-the-way").mkdir(parents=True)
    (tmp_path / "temporary").mkdir()
    result = drydock("ledger", "--rebuild", "--json", tmp_path / "r", env={"TMPDIR": str(tmp_path / "temporary")})
    assert result.returncode == 0, result.stderr
    ledger = json.loads(result.stdout)
    assert ledger["ledger"] is None
    assert "No ledger could be kept" in ledger["problems"][0]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("DRYDOCK_VALUES", "zz"), ("DRYDOCK_VALUE_BUDGET", "-1"), ("DRYDOCK_RECORD", "zz"), ("DRYDOCK_THREADS", "no")],
)
def test_settings_without_sense_close_the_device(drydock, tmp_path, name, value):
    program = (
        f"import ctypes, os; os.environ[{name!r}] = {value!r}; acl = ctypes.CDLL('libascendcl.so')\n"
        "acl.aclGetRecentErrMsg.restype = ctypes.c_char_p; print(acl.aclInit(None), acl.aclGetRecentErrMsg().decode())"
    )
    said = drydock("run", "--out", tmp_path / "r", "--", sys.executable, "-c", program).stdout
    assert not said.startswith("0 ")
    assert f'{name}="{value}"' in said


def test_the_page_is_at_most_100_columns_wide(drydock, tmp_path):
    result = drydock("run", "--", "sh", "-c", "exit 9")
    lines = result.stderr.splitlines()
    assert all(len(line) <= 100 or " " not in line.strip()[10:] for line in lines), lines


def test_replay_takes_a_memory_snapshot(drydock):
    snapshots = Path(__file__).resolve().parents[1] / "data" / "snapshots"
    result = drydock("replay", snapshots / "whole.pickle")
    assert result.returncode == 0, result.stderr
    assert "the model did what the real allocator did" in result.stdout
    assert "56 of 56 at the same address" in result.stdout
    cut = drydock.work / "cut.pickle"
    cut.write_bytes((snapshots / "whole.pickle").read_bytes()[:5000])
    result = drydock("replay", cut)
    assert result.returncode == 2
    assert "cut.pickle" in result.stderr
