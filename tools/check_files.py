"""Which files the checks look at, and a memory of what passed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def cpp_files(*folders: str, suffixes: tuple[str, ...] = (".h", ".cpp"), generated: bool = False) -> list[Path]:
    """C++ files under the folders, sorted; those in a folder called generated only on request."""
    found = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in suffixes and p.is_file()]
    return sorted(p for p in found if generated or "generated" not in p.parts)


def python_files() -> list[Path]:
    """Python files of the project, programs in tools/ without a suffix included."""
    found = [
        p
        for folder in ("python", "test", "tools", "examples", "bench", "profiles")
        for p in (ROOT / folder).rglob("*.py")
    ]
    found += [p for p in (ROOT / "tools").iterdir() if p.is_file() and p.suffix == "" and is_python(p)]
    return sorted(p for p in found if "__pycache__" not in p.parts)


def is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return b"python" in file.readline()


def text_files() -> list[Path]:
    """Every text file of the project: what git tracks or would track."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT)
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:  # an unpacked archive
        outside = {".git", ".venv", "build", "__pycache__", "dist", "out", ".ruff_cache", ".pytest_cache"}
        paths = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in outside]
            paths += [Path(folder) / name for name in names]
    return sorted(p for p in paths if p.is_file() and b"\0" not in p.read_bytes()[:4096])


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run(command: list[str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def tool(name: str) -> str:
    """A program of .venv if it is there, else of the system."""
    inside = ROOT / ".venv" / "bin" / name
    return str(inside) if inside.exists() else name


def digest_with_includes(path: Path, seen: set[Path] | None = None) -> bytes:
    """Hash of a file and of all project headers it includes, directly or not."""
    seen = set() if seen is None else seen
    digest = hashlib.sha256()
    pending = [path]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        content = current.read_bytes()
        digest.update(str(current.relative_to(ROOT)).encode() + b"\0" + content)
        for name in sorted(INCLUDE.findall(content.decode(errors="replace"))):
            for folder in (ROOT / "src", current.parent):
                if (folder / name).is_file():
                    pending.append((folder / name).resolve())
                    break
    return digest.digest()


def folder_settings(path: Path) -> bytes:
    """What a folder says of its own on top of the settings at the root."""
    own = path.parent / ".clang-tidy"
    return own.read_bytes() if own.is_file() else b""


class Passed:
    """What passed a check in an earlier run, by content: build/check/<name>.json. Failures are not kept."""

    def __init__(self, name: str, salt: bytes) -> None:
        self._path = ROOT / "build" / "check" / f"{name}.json"
        self._salt = salt
        try:
            self._known: dict[str, str] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            self._known = {}

    def run(self, files: list[Path], check: Callable[[Path], list[str]]) -> list[str]:
        """Complaints about the files that have not passed as they are; on every core."""
        keys = {p: hashlib.sha256(self._salt + folder_settings(p) + digest_with_includes(p)).hexdigest() for p in files}
        pending = [p for p in files if self._known.get(relative(p)) != keys[p]]
        complaints: list[str] = []
        present = {relative(p) for p in files}
        self._known = {name: key for name, key in sorted(self._known.items()) if name in present}
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for path, found in zip(pending, pool.map(check, pending), strict=True):
                complaints += found
                if not found:
                    self._known[relative(path)] = keys[path]
                    self._save()  # at once: an interrupted run is not lost
        return complaints

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._known, indent=0))
