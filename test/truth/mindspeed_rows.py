"""Memory that MindSpeed-LLM's own tests report from real NPUs, beside the virtual device's for the same scripts.

    python test/truth mindspeed --checkout DIR             all rows of mindspeed.csv
    python test/truth mindspeed --checkout DIR M17 M22     some

DIR has a folder for each row, named by it, with checkouts MindSpeed-LLM and MindSpeed at the row's commits
(mindspeed.csv) and, inside MindSpeed-LLM, the folder `megatron` of Megatron-LM's tag core_v0.12.1. The Python that runs
this must have what they need and Drydock's wheel: README.md in this folder says which versions. The launch scripts run
as they are; what stands for `torchrun` (mindspeed_launch.py) leaves out the checkpoint and puts a made-up tokenizer and
random words in the place of those of the measured machine. Not part of CI.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MEBIBYTE = 1 << 20
SAMPLES = 64
WORDS = 520  # in a sample, more than the longest length

_REPORT = re.compile(
    r"\[Rank (\d+)\] \(after 1 iterations\) memory \(MB\) \| allocated: ([\d.]+) \| max allocated: ([\d.]+)"
)
_REMAINDERS = re.compile(r"drydock-truth: (\{.*\})")


@dataclass(frozen=True)
class Row:
    """What some ranks of one launch script reported after the first iteration, in bytes."""

    name: str
    script: str
    folder: str
    processes: int
    ranks: list[int]
    allocated: int
    peak: int
    allocated_tolerance: int
    peak_tolerance: int
    vocabulary: int
    data: str
    lengths: str
    explanation: str


@dataclass
class Rank:
    """What one rank says now: bytes, and the remainders that its blocks hold beyond what they were asked for."""

    allocated: int = 0
    peak: int = 0
    remainders: tuple[int, ...] = ()


def rows() -> list[Row]:
    """Return the rows of mindspeed.csv."""
    with (HERE / "mindspeed.csv").open(newline="", encoding="utf-8") as file:
        return [
            Row(
                row["id"],
                row["script"],
                row["folder"],
                int(row["processes"]),
                [int(rank) for rank in row["ranks"].split()],
                round(float(row["allocated_mib"]) * MEBIBYTE),
                round(float(row["max_mib"]) * MEBIBYTE),
                int(row["allocated_tolerance_bytes"]),
                int(row["max_tolerance_bytes"]),
                int(row["vocabulary"]),
                row["data"],
                row["lengths"],
                row["explanation"],
            )
            for row in csv.DictReader(file)
        ]


def write_tokenizer(folder: Path, size: int) -> None:
    """Write a tokenizer of whole words with exactly `size` ids."""
    vocabulary = {word: number for number, word in enumerate(("<unk>", "<s>", "</s>", "<pad>"))}
    for number in range(size - len(vocabulary)):
        vocabulary[f"w{number}"] = len(vocabulary)
    folder.mkdir()
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def write_documents(prefix: Path, documents: list[list[int]]) -> None:
    """Write token ids as Megatron reads them: `prefix`.bin and its index `prefix`.idx."""
    int32 = 4  # the format's code, and the bytes of an id
    sizes = [len(document) for document in documents]
    begins = [sum(sizes[:number]) * int32 for number in range(len(sizes))]
    prefix.with_name(prefix.name + ".bin").write_bytes(
        b"".join(struct.pack(f"<{len(document)}i", *document) for document in documents)
    )
    prefix.with_name(prefix.name + ".idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, int32, len(sizes), len(sizes) + 1)
        + struct.pack(f"<{len(sizes)}i", *sizes)
        + struct.pack(f"<{len(sizes)}q", *begins)
        + struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1))
    )


def write_data(folder: Path, kind: str, vocabulary: int) -> Path:
    """Write random words, as instructions or as plain text; return what --data-path says."""
    draw = random.Random(0)
    samples = [[draw.randrange(4, vocabulary) for _ in range(WORDS)] for _ in range(SAMPLES)]
    if kind == "text":
        write_documents(folder / "words_text_document", samples * 16)
        return folder / "words_text_document"
    write_documents(folder / "words_packed_input_ids_document", samples)
    write_documents(folder / "words_packed_labels_document", samples)
    write_documents(folder / "words_packed_attention_mask_document", [[1] * WORDS] * SAMPLES)
    return folder / "words"


def run(row: Row, checkout: Path, drydock: str, folder: Path) -> dict[int, Rank]:
    """Run the row's launch script on the virtual device, as a ghost.

    Raises RuntimeError with the end of what it wrote, if it fails.
    """
    repository = checkout / row.folder / "MindSpeed-LLM"
    write_tokenizer(folder / "tokenizer", row.vocabulary)
    data = write_data(folder, row.data, row.vocabulary)
    launcher = folder / "bin" / "torchrun"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "mindspeed_launch.py"}" "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    paths = [str(checkout / row.folder / "MindSpeed"), str(repository), os.environ.get("PYTHONPATH", "")]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_NPU")},
        "PATH": f"{launcher.parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(filter(None, paths)),
        "TRUTH_TOKENIZER": str(folder / "tokenizer"),
        "TRUTH_DATA": str(data),
        "TRUTH_LENGTHS": row.lengths,
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [
            *[drydock, "run", "--profile", "ascend910c", "--devices", str(row.processes), "--out", str(folder / "run")],
            *["--", "bash", str(repository / row.script)],
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=1800,
        check=False,
        cwd=repository,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{row.name}: exit code {done.returncode}:\n{done.stderr.strip()[-4000:]}")
    return read_reports(done.stdout)


def read_reports(text: str) -> dict[int, Rank]:
    """Return what the ranks printed, by rank."""
    ranks: dict[int, Rank] = {}
    for rank, allocated, peak in _REPORT.findall(text):
        found = ranks.setdefault(int(rank), Rank())
        found.allocated, found.peak = round(float(allocated) * MEBIBYTE), round(float(peak) * MEBIBYTE)
    for line in _REMAINDERS.findall(text):
        told = json.loads(line)
        ranks.setdefault(told["rank"], Rank()).remainders = tuple(told["remainders"])
    return ranks


def show(row: Row, ranks: dict[int, Rank], say: Callable[[str], None]) -> bool:
    """Print the row's lines; return whether every number is within the row's tolerance."""
    is_met = True
    for number in row.ranks:
        found = ranks.get(number)
        if found is None or found.allocated == 0:
            say(f"{row.name} rank {number}: it reported nothing")
            is_met = False
            continue
        for what, predicted, measured, tolerance in (
            ("allocated", found.allocated, row.allocated, row.allocated_tolerance),
            ("max", found.peak, row.peak, row.peak_tolerance),
        ):
            is_within = abs(predicted - measured) <= tolerance
            is_met = is_met and is_within
            say(
                f"{row.name + ' rank ' + str(number):<12} {what:<10} {predicted:>16,} {measured:>16,} "
                f"{predicted - measured:>+12,} B{'' if is_within else '   more than the row allows'}"
            )
        if found.remainders:
            each = " + ".join(f"{size:,}" for size in sorted(found.remainders))
            say(f"    of which too small to be split off: {sum(found.remainders):,} B ({each})")
    say(textwrap.fill(row.explanation, 96, initial_indent="    ", subsequent_indent="    "))
    return is_met


def missing_from(checkout: Path, row: Row) -> str | None:
    """Return the first thing of a row that is not there."""
    repository = checkout / row.folder / "MindSpeed-LLM"
    for needed in (repository / row.script, repository / "megatron", checkout / row.folder / "MindSpeed" / "mindspeed"):
        if not needed.exists():
            return str(needed)
    return None


def main(arguments: list[str]) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python test/truth mindspeed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", type=Path, required=True, metavar="DIR")
    parser.add_argument("row", nargs="*")
    asked = parser.parse_args(arguments)
    known = rows()
    if unknown := [name for name in asked.row if name not in {row.name for row in known}]:
        parser.error(f"there is no row {', '.join(unknown)}: they are {', '.join({row.name: 0 for row in known})}")
    beside = Path(sys.executable).parent / "drydock"
    drydock = os.environ.get("DRYDOCK_BINARY") or (str(beside) if beside.exists() else shutil.which("drydock"))
    if drydock is None:
        parser.error("there is no drydock command: install the wheel, or set DRYDOCK_BINARY")
    checkout = asked.checkout.resolve()
    print(f"{'row':<12} {'':<10} {'predicted':>16} {'measured':>16} {'error':>14}")
    are_met = True
    reports: dict[str, dict[int, Rank]] = {}
    for row in known:
        if asked.row and row.name not in asked.row:
            continue
        if row.name not in reports:
            if missing := missing_from(checkout, row):
                parser.error(f"row {row.name} needs {missing}")
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                reports[row.name] = run(row, checkout, drydock, Path(folder))
            print(f"{row.name}: {row.processes} process(es), {time.monotonic() - began:.0f} s", flush=True)
        are_met = show(row, reports[row.name], lambda line: print(line, flush=True)) and are_met
    return 0 if are_met else 1
