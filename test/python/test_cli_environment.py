"""What the command of `drydock run` and the shell of `drydock env` find in their environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

pytest_plugins = ["isolated_command"]


def environment_of(drydock, *options, env=None):
    result = drydock(
        "run", *options, "--", sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))", env=env
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_command_finds_the_virtual_device(drydock):
    seen = environment_of(drydock)
    home = Path(seen["ASCEND_HOME_PATH"])
    for folder in ("runtime", "compiler", "lib64"):
        assert (home / folder).is_dir()
    assert Path(seen["ASCEND_OPP_PATH"]).is_dir()
    assert seen["LD_LIBRARY_PATH"].split(":")[0] == str(home / "lib64")
    assert seen["LD_PRELOAD"].endswith("/libascend_kernel_hook.so")
    assert Path(seen["LD_PRELOAD"]).is_file()
    assert seen["TASK_QUEUE_ENABLE"] == "0"
    assert Path(seen["DRYDOCK_RUN_DIR"]).is_absolute()


def test_settings_reach_the_command(drydock):
    seen = environment_of(
        drydock, "--values", "full", "--value-budget", "4MiB", "--devices", "4", "--cann", "8.5.0", "--guard",
        "--record", "null", "--profile", "ascend910b4", "--threads", "3",
    )  # fmt: skip
    assert seen["DRYDOCK_VALUES"] == "full"
    assert seen["DRYDOCK_VALUE_BUDGET"] == str(4 << 20)
    assert seen["DRYDOCK_DEVICES"] == "4"
    assert seen["DRYDOCK_THREADS"] == "3"
    assert seen["DRYDOCK_CANN"] == "8.5.0"
    assert seen["DRYDOCK_GUARD"] == "1"
    assert seen["DRYDOCK_RECORD"] == "null"
    assert seen["DRYDOCK_PROFILE"] == "ascend910b4"


def test_the_callers_own_choices_stay(drydock):
    env = {"TASK_QUEUE_ENABLE": "1", "LD_LIBRARY_PATH": "/opt/x", "DRYDOCK_DEVICES": "3"}
    seen = environment_of(drydock, env=env)
    assert seen["TASK_QUEUE_ENABLE"] == "1"
    assert seen["LD_LIBRARY_PATH"].endswith("/lib64:/opt/x")
    assert seen["DRYDOCK_DEVICES"] == "3"
    assert environment_of(drydock, "--devices", "5", env=env)["DRYDOCK_DEVICES"] == "5"


def test_a_profile_file_is_found_from_any_folder(drydock):
    (drydock.work / "mine.toml").write_text('base = "ascend910c"\nname = "mine"\n')
    seen = environment_of(drydock, "--profile", "mine.toml")
    assert seen["DRYDOCK_PROFILE"] == str(drydock.work / "mine.toml")


def test_env_prints_exports_for_a_shell(drydock, tmp_path):
    run = tmp_path / "it's here"
    result = drydock("env", "--out", run, "--values", "ghost")
    assert result.returncode == 0
    assert str(run) in result.stderr
    (tmp_path / "exports").write_text(result.stdout)
    shell = subprocess.run(
        ["sh", "-c", '. "$1"; printf "%s\n" "$DRYDOCK_RUN_DIR" "$DRYDOCK_VALUES" "$TASK_QUEUE_ENABLE"', "sh",
         str(tmp_path / "exports")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shell.stdout.splitlines() == [str(run), "ghost", "0"]
    ledger = drydock.ledger(run)
    assert ledger["run"]["exit_code"] is None
    assert drydock("env", "--out", run).returncode == 2, "a run is not written over"
