"""Include layers: a folder of src/ includes only the folders that tools/layers.toml allows it."""

from __future__ import annotations

import tomllib
from check_files import INCLUDE, ROOT, cpp_files, relative


def layers(_fix: bool) -> list[str]:
    rules = tomllib.loads((ROOT / "tools" / "layers.toml").read_text())
    allowed: dict[str, list[str]] = rules["folders"]
    narrow: dict[str, list[str]] = rules.get("only", {})
    complaints = []
    for path in cpp_files("src", generated=True):
        parts = path.relative_to(ROOT / "src").parts
        if len(parts) < 2:
            complaints.append(f"{relative(path)} lies in no folder of src/")
            continue
        folder = parts[0]
        if folder not in allowed:
            complaints.append(f"{relative(path)}: the folder {folder} is not in tools/layers.toml")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in INCLUDE.findall(line):
                complaint = judge(folder, name, allowed, narrow)
                if complaint:
                    complaints.append(f"{relative(path)}:{number}: {complaint}")
    return complaints


def judge(folder: str, name: str, allowed: dict[str, list[str]], narrow: dict[str, list[str]]) -> str | None:
    if not (ROOT / "src" / name).is_file():
        return f'"{name}" is no file of src/ (includes are relative to src/; third parties take <>)'
    target = name.split("/")[0]
    if target == folder:
        return None
    if target in allowed[folder]:
        return None
    if name in narrow.get(folder, []):
        return None
    return f"{folder} may not include {name}: {folder} may use {', '.join(allowed[folder]) or 'nothing else'}"
