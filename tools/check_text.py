"""What files say and how they are called and how long they are."""

from __future__ import annotations

import re

from check_files import ROOT, cpp_files, python_files, relative, text_files

VAGUE = re.compile(r"(?<![a-z])(utils?|commons?|helpers?|managers?|misc|miscellaneous)(?![a-z])", re.IGNORECASE)
DECLARED = re.compile(
    r"^\s*(?:namespace|class|struct|enum class)\s+(?:\[\[.*?\]\]\s*|[A-Z_]+\s+)?([A-Za-z_][\w:]*)", re.MULTILINE
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# A path that only one machine has: a home folder (examples take /home/user), a mount, a folder beside the repository.
LOCAL_PATH = re.compile(
    r"(?<![\w.~$}-])/(?:root|home(?!/user\b)|mnt|srv|work|scratch|data)/[\w.]+|(?<![\w/.])\.\./[A-Za-z]\w*"
)
SOFT_LINES = 400
HARD_LINES = 1000
SIZES = ROOT / "tools" / "file_sizes.txt"


def vague_names(_fix: bool) -> list[str]:
    """No file, folder, namespace or type is called by a word that says nothing."""
    complaints = []
    for path in text_files():
        name = relative(path)
        if name.startswith("include/"):  # the vendor's names, by which programs include these
            continue
        if VAGUE.search(name.replace("_", " ").replace("-", " ")):
            complaints.append(f"{name}: the name says nothing; name the thing that is in it")
    for path in cpp_files("src", "test", "bench"):
        for declared in DECLARED.findall(path.read_text()):
            if VAGUE.search(CAMEL.sub(" ", declared).replace("_", " ")):
                complaints.append(f"{relative(path)}: {declared} says nothing; name what it does")
    return complaints


def local_paths(_fix: bool) -> list[str]:
    """The repository stands alone: no file of it names a path that another machine does not have."""
    complaints = []
    for path in text_files():
        if path.name == "check_text.py":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = LOCAL_PATH.search(line)
            if found:
                complaints.append(f"{relative(path)}:{number}: names the path {found.group(0)}")
    return complaints


def file_sizes(fix: bool) -> list[str]:
    """No source over 1,000 lines; those over 400 are listed with a size that may only shrink."""
    listed: dict[str, int] = {}
    for line in SIZES.read_text().splitlines():
        if line and not line.startswith("#"):
            lines, name = line.split()
            listed[name] = int(lines)
    sources = cpp_files("src", "test", "bench") + python_files()
    actual = {relative(p): len(p.read_bytes().splitlines()) for p in sources}
    complaints = []
    for name, lines in actual.items():
        if lines > HARD_LINES:
            complaints.append(f"{name} has {lines} lines; {HARD_LINES} is the most: split it")
        elif lines > listed.get(name, SOFT_LINES):
            limit = listed.get(name, SOFT_LINES)
            complaints.append(
                f"{name} has {lines} lines, more than its {limit}: split it (or list it in {relative(SIZES)})"
            )
    kept = {name: min(lines, actual.get(name, 0)) for name, lines in listed.items() if actual.get(name, 0) > SOFT_LINES}
    if fix:
        head = [line for line in SIZES.read_text().splitlines() if line.startswith("#")]
        SIZES.write_text("\n".join(head + [f"{lines} {name}" for name, lines in sorted(kept.items())]) + "\n")
    elif kept != listed:
        stale = sorted(name for name in listed if kept.get(name) != listed[name])
        complaints.append(f"{relative(SIZES)} is higher than need be for {', '.join(stale)}: tools/check --fix sizes")
    return complaints
