"""Rows U1, U3 and U5 of the measured numbers: figures that torch_npu's own tests demand of real devices.

Source: the tests of Ascend/pytorch (test_allocator_envs.py, test_custom_segment_size.py,
test_expandable_host_allocator.py), from which the numbers alone are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("allocator_figures.py")
MEBIBYTE = 1 << 20
PAD = 512  # what 32 bytes of padding take of a size that is a multiple of 512


@pytest.mark.parametrize(
    ("what", "settings", "expected"),
    [
        # Of the tensor's 160 MiB plus 32, rounded up to 512.
        ("padding", "", [167_772_672, 40 * MEBIBYTE]),
        ("segment_size", "expandable_segments:True,segment_size_mb:128", [134_217_728, 2 * MEBIBYTE]),
        # In use and held: with 64 MiB, without them, with 4 + 8 + 16 MiB, emptied, after twice 40 MiB, with 64 MiB in
        # their place, emptied; the peaks.
        (
            "pinned_pages",
            "pin_memory_expandable_segments:True",
            [
                *[64 * MEBIBYTE + PAD, 80 * MEBIBYTE],
                *[0, 80 * MEBIBYTE],
                *[28 * MEBIBYTE + 3 * PAD, 80 * MEBIBYTE],
                *[0, 0],
                *[0, 100 * MEBIBYTE],
                *[64 * MEBIBYTE + PAD, 80 * MEBIBYTE],
                *[0, 0],
                *[80 * MEBIBYTE + 2 * PAD, 100 * MEBIBYTE],
            ],
        ),
    ],
    ids=["U1", "U3", "U5"],
)
def test_figures_are_those_of_real_devices(
    run_program: Callable, what: str, settings: str, expected: list[int]
) -> None:
    environment = {"PYTORCH_NPU_ALLOC_CONF": settings} if settings else {}
    done = run_program(PROGRAM, what, options=("--values", "full"), **environment)
    assert done.exit_code == 0, done.stderr
    measured = [int(line) for line in done.stdout.split()]
    for predicted, row in zip(measured, expected, strict=True):
        print(f"{what}: predicted {predicted}, measured on a device {row}, error {predicted - row:+}")
    assert measured == expected
