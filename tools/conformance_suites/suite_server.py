"""Runs test files with pytest, each in a fork of a process that has imported torch and torch_npu and used no device.

Started by `tools/conformance suite`. A request is a JSON line on standard input, two on standard output answer it:
the process's number when it has been started, its wait status when it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import pytest
import torch
import torch_npu
import torch_npu.testing.testcase  # noqa: F401


def child(request: dict[str, Any]) -> int:
    """Run the file in this process; its exit code."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[:0] = request["paths"]
    sys.argv = ["pytest", *request["arguments"]]
    # The plugin imports nothing of the device, but reads the variables that were just set.
    return int(pytest.main(request["arguments"]))


def main() -> int:
    assert not torch.npu.is_initialized()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    # What a library prints while it is imported, or a child before it has its log, is no answer.
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = child(request)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps({"pid": pid}), file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": status}), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
