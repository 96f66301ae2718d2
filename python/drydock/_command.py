"""Entry point of the `drydock` console script: hands over to the binary."""

from __future__ import annotations

import os
import sys

from drydock._layout import binary


def main() -> int:
    path = binary()
    try:
        os.execv(path, ["drydock", *sys.argv[1:]])
    except OSError as error:
        print(f"drydock: {path} can't be executed: {error.strerror}. Install drydock again.", file=sys.stderr)
        return 2
