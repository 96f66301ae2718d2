"""What MindSpeed-LLM's launch scripts find as `torchrun`: the same, on made-up data, for one iteration.

Options that name what only the measured machine had are left out or replaced; the entry program runs inside
mindspeed_program.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Options, and how many values each has.
LEFT_OUT = {
    "--load": 1,
    "--tokenizer-not-use-fast": 0,
    "--prompt-type": 1,
    "--handler-name": 1,
    "--output-prefix": 1,
    "--enable-hf2mg-convert": 0,
    "--model-type-hf": 1,
    "--mg-save-dir": 1,
}


def rewritten(arguments: list[str], replaced: dict[str, str], program: str) -> list[str]:
    """Return the arguments of torchrun: without what is left out, with what is replaced, the entry behind `program`."""
    result: list[str] = []
    rest = iter(arguments)
    has_entry = False
    for argument in rest:
        if argument in LEFT_OUT:
            for _ in range(LEFT_OUT[argument]):
                next(rest, None)
        elif argument in replaced:
            next(rest, None)
            result += [argument, replaced[argument]]
        elif argument.endswith(".py") and not has_entry:
            has_entry = True
            result += [program, argument]
        else:
            result.append(argument)
    return result


def main() -> None:
    """Become torchrun."""
    replaced = {
        "--data-path": os.environ["TRUTH_DATA"],
        "--tokenizer-name-or-path": os.environ["TRUTH_TOKENIZER"],
        "--train-iters": "1",
    }
    program = str(Path(__file__).with_name("mindspeed_program.py"))
    arguments = rewritten(sys.argv[1:], replaced, program)
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *arguments])


if __name__ == "__main__":
    main()
