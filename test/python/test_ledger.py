"""Real programs on the virtual device, and what their ledgers say. Each starts torch_npu, which takes seconds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest_plugins = ["isolated_command"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch_npu") is None, reason="torch_npu is not installed"),
]

MIB = 1 << 20


class Run:
    """A finished run of a program."""

    def __init__(self, drydock: str, folder: Path, result: subprocess.CompletedProcess[str]):
        self.folder = folder
        self.code = result.returncode
        self.output = result.stdout
        self.errors = result.stderr
        ledger = subprocess.run([drydock, "ledger", "--json", folder], capture_output=True, text=True, check=True)
        self.ledger = json.loads(ledger.stdout)

    @property
    def page(self) -> str:
        return self.errors[self.errors.index("drydock: ") :]


@pytest.fixture
def run(tmp_path, drydock_command, clean_environment):

    def start(source: str, *options: str, env: dict[str, str] | None = None) -> Run:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        result = subprocess.run(
            [drydock_command, "run", "--out", folder, *options, "--", sys.executable, script.name],
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(drydock_command, folder, result)

    return start


def test_memory_is_what_torch_npu_itself_counts(run):
    done = run(
        """
        import torch, torch_npu
        keep = []
        for size in (1000, 3_000_000, 30_000_000, 700_000_000):
            keep.append(torch.empty(size, dtype=torch.uint8, device="npu"))
            passing = torch.empty(2 * size, dtype=torch.uint8, device="npu")
            del passing
        keep.pop()
        print(torch.npu.max_memory_allocated(), torch.npu.max_memory_reserved(), torch.npu.memory_allocated())
        """
    )
    assert done.code == 0, done.errors
    allocated, reserved, _ = map(int, done.output.split())
    memory = done.ledger["memory"]
    assert memory["peak_allocated_bytes"] == allocated
    assert memory["peak_reserved_bytes"] == reserved
    assert memory["peak_workspace_bytes"] == 0
    assert memory["blocks"] == 8
    assert sum(holder["bytes"] for holder in memory["peak_holders"]) == allocated
    assert {holder["line"] for holder in memory["peak_holders"]} == {"program.py:5", "program.py:6"}
    assert done.ledger["trace"]["lost"] == 0
    assert done.ledger["run"]["processes"] == 1


OUT_OF_MEMORY = """
    import torch, torch_npu
    keep = []
    def fill():
        while True:
            keep.append(torch.empty(48 << 20, dtype=torch.uint8, device="npu"))
            torch.empty(100 << 20, dtype=torch.uint8, device="npu")
    fill()
    """


def told_by_torch(errors: str, label: str) -> float:
    return float(re.search(rf"([0-9.]+) GiB {label}", errors).group(1))


def test_fragmentation_is_recognised_and_the_advice_helps(run):
    done = run(OUT_OF_MEMORY)
    verdict = done.ledger["verdict"]
    assert done.code == 1
    assert "torch.OutOfMemoryError" in done.errors
    assert (verdict["kind"], verdict["class"]) == ("oom", "fragmentation")
    assert verdict["line"] == "program.py:7"
    assert verdict["device"] == 0
    assert verdict["requested_bytes"] == 102 * MIB  # the allocator rounds what it asks of the driver
    assert round(verdict["allocated_bytes"] / 2**30, 2) == told_by_torch(done.errors, "already allocated")
    assert round(verdict["reserved_bytes"] / 2**30, 2) == told_by_torch(done.errors, "reserved in total")
    assert round(verdict["capacity_bytes"] / 2**30, 2) == told_by_torch(done.errors, "total capacity")
    assert verdict["exception"]["type"] == "torch.OutOfMemoryError"
    assert verdict["holders"][0]["line"] == "program.py:6"
    assert verdict["holders"][0]["bytes"] == verdict["allocated_bytes"]
    setting = verdict["advice"][0]["env"]
    assert setting == {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    assert "OUT OF MEMORY (fragmentation)" in done.page

    again = run(OUT_OF_MEMORY, env=setting)
    better = again.ledger["verdict"]
    assert better["class"] == "capacity"
    assert better["allocated_bytes"] > verdict["allocated_bytes"] + 3 * 1024 * MIB
    assert round(better["allocated_bytes"] / 2**30, 2) == told_by_torch(again.errors, "already allocated")
    assert round(better["reserved_bytes"] / 2**30, 2) == told_by_torch(again.errors, "reserved in total")
    assert all(not advice["env"] for advice in better["advice"])


def test_steps_fallbacks_assumptions_and_the_programs_own_exception(run):
    done = run(
        """
        import torch, torch_npu
        layer = torch.nn.Linear(64, 64).npu()
        optimizer = torch.optim.AdamW(layer.parameters())
        for _ in range(5):
            loss = layer(torch.randn(8, 64, device="npu")).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(loss.item())
        x = torch.ones(4, device="npu")
        for _ in range(3):
            torch.special.bessel_j0(x)
        def broken():
            raise ValueError("my own problem")
        broken()
        """,
        "--values", "ghost",
    )  # fmt: skip
    ledger = done.ledger
    assert done.code == 1
    assert 'raise ValueError("my own problem")' in done.errors, "Python shows it as it is"
    assert ledger["verdict"]["kind"] == "failed"
    assert ledger["verdict"]["line"] == "program.py:15"
    assert ledger["verdict"]["exception"] == {"type": "ValueError", "text": "my own problem"}
    assert ledger["verdict"]["step"] == 6
    assert ledger["run"]["steps"] == 5
    assert ledger["run"]["values"] == "ghost"
    fallbacks = [row for row in ledger["operators"]["host_fallback"] if row["name"] == "aten::special_bessel_j0"]
    assert fallbacks == [{"name": "aten::special_bessel_j0", "calls": 3, "line": "program.py:13"}]
    assert ledger["operators"]["calls"] >= 50
    assert ledger["operators"]["calls"] == sum(
        ledger["operators"][outcome] for outcome in ("computed", "ghost", "assumed", "refused_calls")
    )
    assert any(row["line"] == "program.py:10" and row["kind"] == "host-read" for row in ledger["assumptions"])
    assert "FAILED with ValueError at program.py:15" in done.page


def test_an_exception_hook_of_the_programs_own_does_not_hide_the_exception(run):
    done = run(
        """
        import sys
        import torch, torch_npu
        x = torch.ones(4, device="npu")
        sys.excepthook = lambda *_: print("mine")
        raise KeyError("lost?")
        """
    )
    assert done.output == "mine\n"
    assert done.ledger["verdict"]["exception"]["type"] == "KeyError"
    assert done.ledger["verdict"]["line"] == "program.py:6"


def test_steps_marked_by_hand_replace_the_found_ones(run):
    done = run(
        """
        import drydock
        import torch, torch_npu
        parameter = torch.nn.Parameter(torch.ones(4, device="npu"))
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        for _ in range(3):
            parameter.sum().backward()
            drydock.step()
            optimizer.step()
        print(drydock.run_dir())
        print(drydock.verdict()["run"]["running"])
        """
    )
    assert done.code == 0, done.errors
    assert done.ledger["run"]["steps"] == 3
    assert done.output.splitlines() == [str(done.folder), "True"]
    assert "recorded in" not in done.errors, "a run within a run is one run"


def python(source: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_import_drydock_first_records_a_notebook(tmp_path, clean_environment):
    done = python(
        """
        import drydock
        import torch, torch_npu
        x = torch.ones(4, device="npu") + 1
        torch.special.bessel_j0(x)
        print(x.cpu().tolist())
        """,
        tmp_path,
        DRYDOCK_DEVICES="2",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0]\n"
    assert "drydock: ran to its end" in done.stderr
    assert "aten::special_bessel_j0 has no NPU kernel: 1 call" in done.stderr
    (run,) = (tmp_path / "drydock-runs").iterdir()
    info = json.loads((run / "run.json").read_text())
    assert info["devices"] == 2
    assert info["command"][0] == sys.executable


def test_import_drydock_after_torch_says_why_nothing_is_recorded(tmp_path, clean_environment):
    done = python(
        """
        import sys, types
        sys.modules["torch"] = types.ModuleType("torch")
        import drydock
        drydock.step()
        try:
            drydock.verdict()
        except RuntimeError as error:
            print(error)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("drydock: nothing is recorded: torch is imported already")
    assert "is not recorded" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["drydock._hooks", "drydock._command", "drydock.pytest_plugin", "drydock._layout"])
def test_entry_points_begin_no_run(tmp_path, clean_environment, module):
    done = python(f"import {module}, os; print('DRYDOCK_RUN_DIR' in os.environ)", tmp_path)
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert list(tmp_path.iterdir()) == []


def test_torchs_hook_does_nothing_outside_a_run(tmp_path, clean_environment):
    done = python(
        """
        import importlib, sys
        importlib.import_module("drydock._hooks").autoload()
        print([name for name in sys.modules if name.startswith("drydock")], "ctypes" in sys.modules)
        """,
        tmp_path,
    )
    assert done.stdout == "[] False\n"


def test_pytest_plugin(tmp_path, clean_environment):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            def test_it(drydock_run):
                import torch, torch_npu
                assert (torch.ones(4, device="npu") + 1).cpu().tolist() == [2, 2, 2, 2]
                drydock_run.step()
                assert drydock_run.verdict()["run"]["steps"] == 1
            """
        )
    )
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        [*pytest_command, "--drydock-out", "r"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "drydock: runs so far (1 step)" in done.stdout
    assert (tmp_path / "r" / "ledger.sqlite").exists()
    without = subprocess.run(pytest_command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert without.returncode == 1
    assert "needs pytest --drydock" in without.stdout
    taken = subprocess.run(
        [*pytest_command, "--drydock-out", "r"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert taken.returncode == 4
    assert "holds something already" in taken.stderr


def test_a_killed_program_leaves_its_ledger(run):
    done = run(
        """
        import os, torch, torch_npu
        keep = [torch.empty(1 << 20, dtype=torch.uint8, device="npu") for _ in range(100)]
        os.kill(os.getpid(), 9)
        """
    )
    assert done.code == 137
    assert done.ledger["verdict"]["kind"] == "failed"
    assert done.ledger["memory"]["blocks"] == 100
    assert "SIGKILL" in done.page


def test_a_null_run_records_nothing(run):
    done = run("import torch, torch_npu; print((torch.ones(4, device='npu') + 1).shape)", "--record", "null")
    assert done.code == 0, done.errors
    assert done.ledger["trace"]["records"] == 0
    assert "nothing was recorded" in done.page


def test_children_have_traces_of_their_own(run):
    started = time.time()
    done = run(
        """
        import subprocess, sys
        code = "import torch, torch_npu; print(torch.ones(4, device='npu').shape)"
        children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
        sys.exit(max(child.wait() for child in children))
        """
    )
    assert done.code == 0, done.errors
    assert done.ledger["run"]["processes"] == 2
    assert len(list((done.folder / "traces").iterdir())) == 2
    assert done.ledger["memory"]["blocks"] == 2
    assert done.ledger["run"]["wall_s"] <= time.time() - started


def test_what_the_devices_own_cpu_computes_is_marked(run):
    done = run(
        """
        import torch, torch_npu
        x = torch.rand(8).npu()
        for _ in range(3):
            x.cumprod(0)
        x.cumsum(0)
        (x.double() + 1).cpu()
        """
    )
    assert done.code == 0, done.errors
    operators = done.ledger["operators"]
    rows = {row["name"]: row for row in operators["on_aicpu"]}
    assert rows["aclnnCumprod"]["calls"] == 3
    assert "aclnnCumsum" not in rows
    assert operators["aicpu_calls"] == sum(row["calls"] for row in operators["on_aicpu"])
    assert "aclnnCumprod: 3 calls on the device's own CPU" in " ".join(done.page.split())
