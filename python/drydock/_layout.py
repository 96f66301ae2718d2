"""Where the parts of an installed Drydock lie. Imports nothing heavy: every `import torch` of a run comes by."""

from __future__ import annotations

from pathlib import Path


def package_dir() -> Path:
    return Path(__file__).resolve().parent


def _root() -> Path:
    # In a build tree the modules are links into the sources, while the staged folder holds the binaries.
    here = Path(__file__).parent
    return here if (here / "cann").is_dir() else package_dir()


def library_dir() -> Path:
    """The folder with libascendcl.so and the other libraries of the virtual device."""
    return _root() / "cann" / "lib64"


def binary() -> Path:
    """The `drydock` command itself."""
    return _root() / "bin" / "drydock"
