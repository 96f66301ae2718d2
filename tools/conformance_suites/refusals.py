"""Tells from the text of an exception who refused: the client, the device as the real one does, or we for now."""

from __future__ import annotations

import re

from conformance_suites.outcomes import FAIL, REFUSED

# What torch_npu wraps around an operator's failure, and what changes from run to run.
_NOISE = (
    (re.compile(r"\[(?:ERROR|Error)\][^\n]*|\[PID: \d+\][^\n]*"), " "),
    (re.compile(r"\(PID:\d+[^)]*\)"), " "),
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "0x..."),
    (re.compile(r"\b\d{4}-\d\d-\d\d[- ]\d\d:\d\d:\d\d(?:\.\d+)*"), " "),
    (re.compile(r"Exception raised from .*", re.DOTALL), " "),
    (re.compile(r" ?(?:The call was made )?at (?:/\S+?|unknown line)(?::\d+)?(?: \([^)]*\))?\.?(?=\s|$)"), " "),
    (re.compile(r"/\S+/(\S+\.(?:py|cpp|h))"), r"\1"),
    (re.compile(r"\s+"), " "),
)
_OF_AN_OPERATOR = re.compile(r"\baclnn\w+|\baclop\w*|\bacl[A-Z]\w+")
_NOT_YET = re.compile(
    r"no kernel|not computed|has no .* kernel|561003|does not compute|can't be computed|is not one of the doors", re.I
)
_DEVICE_FAULT = re.compile(r"507\d{3}|vector core exception|aicore exception", re.I)
# What the operator itself said, on a line of its own below the client's.
_SENTENCE = re.compile(r"failed, error code is \d+.*?^(acl\w+\b.*?)(?=^\[|\Z)", re.DOTALL | re.MULTILINE)
_REST = re.compile(r": it takes [\w, ]+\.?|\.? ?The call was made at .*|\. With --values auto .*", re.DOTALL)
MOST_CHARACTERS = 200


def one_line(text: str) -> str:
    """A reason for a list: one line, without what changes from run to run, cut to a readable length."""
    sentence = _SENTENCE.search(text)
    if sentence:
        text = _REST.sub("", sentence.group(1))
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3].rstrip() + "..."


def ends_the_process(text: str) -> bool:
    """Whether the device is out of order after this error, as a real one would be."""
    return _DEVICE_FAULT.search(text) is not None


def judge(error: BaseException) -> tuple[str, str]:
    """Outcome and reason of a call that the CPU carries out and the NPU does not."""
    text = str(error)
    reason = one_line(text)
    fault = _DEVICE_FAULT.search(text)
    if fault:
        return FAIL, f"device fault {fault.group(0)}: {reason}"
    if isinstance(error, (AssertionError, MemoryError)):
        return FAIL, f"{type(error).__name__}: {reason}"
    if _NOT_YET.search(text):
        return FAIL, reason
    if _OF_AN_OPERATOR.search(text) and "161002" not in text and "EZ1001" not in text:
        return FAIL, reason
    return REFUSED, reason
