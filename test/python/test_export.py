"""`drydock export`: against torch_npu's snapshot of the same process, torch's viewer, the profiler's columns."""

from __future__ import annotations

import ast
import csv
import gzip
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest_plugins = ["isolated_command"]

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "memory_history.py"


@pytest.fixture(scope="module", params=["", "expandable_segments:True"], ids=["native", "expandable"])
def recorded(request, drydock_command, tmp_path_factory):
    """Run the program once for all tests: its figures, its own snapshot, its run folder."""
    work = tmp_path_factory.mktemp("memory")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DRYDOCK_", "PYTORCH_NPU"))}
    if request.param:
        clean["PYTORCH_NPU_ALLOC_CONF"] = request.param
    done = subprocess.run(
        [drydock_command, "run", "--out", "run", "--", sys.executable, PROGRAM],
        cwd=work,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "refused" in done.stderr

    def export(form, output, *arguments):
        made = subprocess.run(
            [drydock_command, "export", "run", "--format", form, "-o", output, *arguments],
            cwd=work,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert made.returncode == 0, made.stderr
        return work / output

    export.work = work
    export.figures = json.loads(done.stdout.splitlines()[-1])
    export.own = pickle.loads((work / "torch.pickle").read_bytes())
    export.settings = request.param
    return export


def shape_of(snapshot):
    """Return the segments with their blocks: all but what was asked for."""
    return [
        (
            *(segment[key] for key in ("device", "address", "total_size", "segment_type", "is_expandable")),
            *(segment[key] for key in ("allocated_size", "active_size")),
            [(block["address"], block["size"], block["state"]) for block in segment["blocks"]],
        )
        for segment in sorted(snapshot["segments"], key=lambda segment: segment["address"])
    ]


def test_the_snapshot_is_what_torch_npu_dumped(recorded):
    made = pickle.loads(recorded("torch-snapshot", "made.pickle").read_bytes())
    assert shape_of(made) == shape_of(recorded.own)
    assert made["allocator_settings"]["PYTORCH_NPU_ALLOC_CONF"] == recorded.settings
    assert sum(segment["total_size"] for segment in made["segments"]) == recorded.figures["reserved"]
    assert sum(segment["allocated_size"] for segment in made["segments"]) == recorded.figures["allocated"]
    for segment, own in zip(
        sorted(made["segments"], key=lambda segment: segment["address"]),
        sorted(recorded.own["segments"], key=lambda segment: segment["address"]),
        strict=True,
    ):
        for block, known in zip(segment["blocks"], own["blocks"], strict=True):
            if block["state"] == "inactive":
                continue
            # The largest request that gives this block, where no operator told the request.
            assert block["requested_size"] in (known["requested_size"], known["size"] - 32)
            assert block["frames"][0]["filename"] == str(PROGRAM)


def test_the_history_is_the_one_of_torch_npu(recorded):
    made = pickle.loads(recorded("torch-snapshot", "made.pickle").read_bytes())
    wanted = ("alloc", "free_requested", "free_completed")
    if not recorded.settings:
        wanted += ("segment_alloc", "segment_free")
    ours, own = (
        [(entry["action"], entry["addr"]) for entry in snapshot["device_traces"][0] if entry["action"] in wanted]
        for snapshot in (made, recorded.own)
    )
    assert len(own) > 200
    assert ours == own
    assert any(entry["action"] == "oom" for entry in made["device_traces"][0])
    times = [entry["time_us"] for entry in made["device_traces"][0]]
    assert times == sorted(times)


def test_torchs_own_viewer_opens_it(recorded):
    made = recorded("torch-snapshot", "made.pickle")
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    check = (
        "import pickle, sys, torch.cuda._memory_viz as viz\n"
        "data = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(viz.segsum(data)); print(viz.trace(data))\n"
        "print(viz.segments(data, format_flamegraph=lambda lines: lines))\n"
        "print(viz.memory(data, format_flamegraph=lambda lines: lines))\n"
        "for plot in (viz.trace_plot, viz.segment_plot): assert 'MemoryViz' in plot(data)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", check, made], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert "memory_history.py" in shown.stdout
    assert "total_reserved" in shown.stdout
    subprocess.run(
        [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", made, "-o", made.with_suffix(".html")],
        env=environment,
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert b"MemoryViz" in made.with_suffix(".html").read_bytes()


def test_the_head_of_a_long_history_is_left_out_and_said(recorded, drydock_command):
    made = subprocess.run(
        [drydock_command, "export", "run", "--format", "torch-snapshot", "-o", "short.pickle", "--entries", "100"],
        cwd=recorded.work,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "entries of the history are left out" in made.stderr
    short = pickle.loads((recorded.work / "short.pickle").read_bytes())
    assert 99 <= len(short["device_traces"][0]) <= 100


def test_at_the_peak_the_peak_is_allocated(recorded):
    made = pickle.loads(recorded("torch-snapshot", "peak.pickle", "--at", "peak").read_bytes())
    assert sum(segment["allocated_size"] for segment in made["segments"]) == recorded.figures["peak_allocated"]


def test_the_chrome_trace_has_counters_operators_and_steps(recorded, drydock_command):
    events = json.loads(recorded("chrome-trace", "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"npu:0 memory"}
    assert max(event["args"]["allocated"] for event in counters) == recorded.figures["peak_allocated"]
    times = [event["ts"] for event in counters]
    assert times == sorted(times)
    shown = subprocess.run(
        [drydock_command, "ledger", recorded.work / "run", "--json"], capture_output=True, text=True, check=True
    )
    ledger = json.loads(shown.stdout)
    operators = [event for event in events if event.get("cat") == "operator"]
    assert len(operators) == ledger["operators"]["calls"]
    assert all(event["dur"] >= 0 and event["name"].startswith("acl") for event in operators)
    assert any(str(PROGRAM) in event["args"]["line"] for event in operators)
    assert [event["name"] for event in events if event.get("cat") == "step"] == [
        f"step {step}" for step in (1, 2, 3, 4)
    ]
    assert any("out of memory" in event["name"] for event in events)
    packed = gzip.decompress(recorded("chrome-trace", "trace.json.gz").read_bytes())
    assert json.loads(packed)["traceEvents"] == events


def profiler_columns(name):
    """Return a list of column names as the installed torch_npu's profiler has them."""
    root = Path(importlib.util.find_spec("torch_npu").origin).parent
    source = root / "profiler" / "analysis" / "prof_view" / "_memory_view_parser.py"
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    raise AssertionError(name)


def test_the_tables_have_the_profilers_columns_and_the_same_peaks(recorded):
    folder = recorded("csv", "tables")
    records = list(csv.reader((folder / "memory_record.csv").open(encoding="utf-8")))
    assert records[0] == profiler_columns("HEADERS_RECORD")
    rows = [dict(zip(records[0], row, strict=True)) for row in records[1:]]
    own = Counter(entry["action"] for entry in recorded.own["device_traces"][0])
    pta = [row for row in rows if row["Component"] == "PTA"]
    assert len(pta) >= own["alloc"] + own["free_completed"]
    assert max(float(row["Total Allocated(MB)"]) for row in pta) * 2**20 == recorded.figures["peak_allocated"]
    assert max(float(row["Total Reserved(MB)"]) for row in pta) * 2**20 == recorded.figures["peak_reserved"]
    assert {row["Device Type"] for row in rows} == {"NPU:0"}

    blocks = list(csv.reader((folder / "operator_memory.csv").open(encoding="utf-8")))
    assert blocks[0] == profiler_columns("HEADERS_OPERATOR")
    table = [dict(zip(blocks[0], row, strict=True)) for row in blocks[1:]]
    assert len(table) == own["alloc"]
    released = [row for row in table if row["Release Time(us)"]]
    assert len(released) >= own["free_completed"]
    for row in released:
        lasted = float(row["Release Time(us)"]) - float(row["Allocation Time(us)"])
        assert float(row["Duration(us)"]) == pytest.approx(lasted, abs=1)
    assert sum(float(row["Size(KB)"]) * 1024 for row in table) >= recorded.figures["peak_allocated"]
    assert {"aclnnRelu", "aclnnAddmm"} <= {row["Name"] for row in table}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["r", "--format", "csv", "-o", "t"], "There is no run r"),
        (["empty", "--format", "csv", "-o", "t"], "holds no trace"),
        (["empty", "--format", "pprof", "-o", "t"], "pprof"),
        (["empty", "--format", "csv"], "--output"),
        (["notes.txt", "--format", "csv", "-o", "t"], "is not a trace of Drydock"),
        (["notes.txt", "--format", "torch-snapshot", "-o", "t", "--entries", "0"], "entries"),
    ],
)
def test_bad_input_is_told_in_a_sentence(drydock, arguments, words):
    (drydock.work / "empty").mkdir()
    (drydock.work / "notes.txt").write_text("no trace, but long enough to be one\n" * 200)
    done = drydock("export", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("drydock: ")
    assert not (drydock.work / "t").is_file()


def test_what_cannot_be_written_is_told_and_leaves_nothing(recorded, drydock_command):
    done = subprocess.run(
        [drydock_command, "export", recorded.work / "run", "--format", "chrome-trace", "-o", "/no/such/folder/t.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "/no/such/folder/t.json can't be written" in done.stderr
    unknown = subprocess.run(
        [drydock_command, "export", recorded.work / "run", "--format", "csv", "-o", "t", "--process", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unknown.returncode == 2
    assert "no trace of process 1" in unknown.stderr
