"""Rows U1 and U3 of the measured numbers: figures that torch_npu's own tests demand of real devices.

Source: the tests of Ascend/pytorch (test_allocator_envs.py, test_custom_segment_size.py), from which the numbers alone
are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("allocator_figures.py")
MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("what", "settings", "expected"),
    [
        # Of the tensor's 160 MiB plus 32, rounded up to 512.
        ("padding", "", [167_772_672, 40 * MEBIBYTE]),
        ("segment_size", "expandable_segments:True,segment_size_mb:128", [134_217_728, 2 * MEBIBYTE]),
    ],
    ids=["U1", "U3"],
)
def test_figures_are_those_of_real_devices(
    run_program: Callable, what: str, settings: str, expected: list[int]
) -> None:
    environment = {"PYTORCH_NPU_ALLOC_CONF": settings} if settings else {}
    done = run_program(PROGRAM, what, options=("--values", "ghost"), **environment)
    assert done.exit_code == 0, done.stderr
    measured = [int(line) for line in done.stdout.split()]
    for predicted, row in zip(measured, expected, strict=True):
        print(f"{what}: predicted {predicted}, measured on a device {row}, error {predicted - row:+}")
    assert measured == expected
