"""What the runner of MindSpeed-LLM's rows does without their checkouts: arguments, data, reports, judgement."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import mindspeed_launch
import mindspeed_rows
import pytest

REPORT = """\
[Rank 1] (after 1 iterations) memory (MB) | allocated: 2.0 | max allocated: 3.50048828125 | reserved: 8.0
drydock-truth: {"rank": 1, "remainders": [512, 1048064]}
 [Rank 0] (after 2 iterations) memory (MB) | allocated: 9.0 | max allocated: 9.0 | reserved: 8.0
"""


def test_rows_have_whole_bytes() -> None:
    rows = mindspeed_rows.rows()
    assert {row.name for row in rows} == {"M13", "M17", "M22"}
    for row in rows:
        assert row.allocated % 512 == 0
        assert row.peak % 512 == 0
        assert row.explanation


def test_what_only_the_measured_machine_had_is_left_out_or_replaced() -> None:
    given = ["--nproc_per_node", "2", "pretrain.py", "--load", "model.py", "--bf16", "--data-path", "own"]
    given += ["--tokenizer-not-use-fast", "--spec", "layers.py"]
    replaced = {"--data-path": "words", "--train-iters": "1"}
    assert mindspeed_launch.rewritten(given, replaced, "program.py") == [
        *["--nproc_per_node", "2", "program.py", "pretrain.py", "--bf16", "--data-path", "words"],
        *["--spec", "layers.py"],
    ]


def test_documents_are_written_as_megatron_reads_them(tmp_path: Path) -> None:
    mindspeed_rows.write_documents(tmp_path / "words", [[7, 8, 9], [10]])
    index = (tmp_path / "words.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    assert struct.unpack("<QBQQ2i2q3q", index[9:]) == (1, 4, 2, 3, 3, 1, 0, 12, 0, 1, 2)
    assert struct.unpack("<4i", (tmp_path / "words.bin").read_bytes()) == (7, 8, 9, 10)


def test_the_tokenizer_has_as_many_ids_as_the_row_says(tmp_path: Path) -> None:
    mindspeed_rows.write_tokenizer(tmp_path / "tokenizer", 100)
    vocabulary = json.loads((tmp_path / "tokenizer" / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(100))


def test_reports_are_read_to_the_byte() -> None:
    ranks = mindspeed_rows.read_reports(REPORT)
    assert ranks == {1: mindspeed_rows.Rank(2 << 20, (7 << 19) + 512, (512, 1048064))}


@pytest.mark.parametrize(("off", "tolerance", "is_met"), [(0, 0, True), (512, 0, False), (512, 512, True)])
def test_a_row_is_met_within_its_tolerance(off: int, tolerance: int, is_met: bool) -> None:
    row = mindspeed_rows.Row(
        name="M0", script="", folder="", processes=1, ranks=[0], allocated=1024, peak=2048,
        allocated_tolerance=tolerance, peak_tolerance=0, vocabulary=8, data="text", lengths="", explanation="why",
    )  # fmt: skip
    said: list[str] = []
    assert mindspeed_rows.show(row, {0: mindspeed_rows.Rank(1024 + off, 2048, (512,))}, said.append) == is_met
    assert any("too small to be split off: 512 B" in line for line in said)
    assert mindspeed_rows.show(row, {}, said.append) is False
