"""Runs the samples of one OpInfo entry and dtype on the NPU and on the CPU, forward and backward."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.testing._internal import common_methods_invocations

from conformance_suites import client_differences, opinfo_entries, opinfo_values, refusals
from conformance_suites.outcomes import FAIL, PASS, REFUSED, Result

_SEED = 20260
# What a 16-bit result may be away from the wide one, in errors of the CPU's 16-bit result.
_TIMES_THE_ERROR_OF_THE_CPU = 4.0


@dataclass
class Computed:
    """What one device made of a sample."""

    result: Any
    gradients: list[Any]
    backward_error: BaseException | None = None


class Mismatch(Exception):
    """The NPU gave something else than the CPU."""


def set_seed(offset: int = 0) -> None:
    """The same samples and the same random numbers every time; others for another offset."""
    random.seed(_SEED)
    numpy.random.seed(_SEED)
    torch.default_generator.manual_seed(_SEED + offset)
    _own_seed[0] = _SEED + offset


# Many random entries set a seed of their own before each call: this one.
_own_seed = [_SEED]


def call_with_seed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What entries do to be reproducible, with a seed that can be changed."""
    torch.default_generator.manual_seed(_own_seed[0])
    return function(*args, **kwargs)


def take_over_seeds() -> None:
    """Make the entries that set a seed of their own use `call_with_seed`."""
    common_methods_invocations.wrapper_set_seed = call_with_seed
    # The database seeds before each sample. torch.manual_seed notes a stack trace for each backend that is not there,
    # and that takes a millisecond.
    torch.manual_seed = torch.default_generator.manual_seed


def compute(entry: Any, sample: Any, arguments: tuple[Any, Any, Any], backward: bool) -> Computed:
    """Call the operator with (input, args, kwargs) and take gradients for random weights."""
    first, args, kwargs = arguments
    leaves = [t for t in opinfo_values.tensors_of([first, args, kwargs]) if t.requires_grad]
    result = entry.op(first, *args, **kwargs)
    result = sample.output_process_fn_grad(result)
    if not backward or not leaves:
        return Computed(result, [])
    ends = [t for t in opinfo_values.tensors_of(result) if t.requires_grad]
    if not ends:
        return Computed(result, [])
    try:
        generator = torch.Generator().manual_seed(_SEED)
        weights = []
        for end in ends:
            drawn = torch.randn(end.shape, generator=generator, dtype=_weight_dtype(end.dtype))
            weights.append(drawn.to(end.dtype).to(end.device))
        found = torch.autograd.grad(ends, leaves, weights, allow_unused=True)
    except Exception as error:
        return Computed(result, [], error)
    return Computed(result, list(found))


def _weight_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.complex64 if dtype.is_complex else torch.float32


class Pair:
    """One entry with one dtype."""

    def __init__(self, entry: Any, dtype: torch.dtype, table: client_differences.Table, device: str = "npu") -> None:
        self.entry = entry
        self.dtype = dtype
        self.device = device
        self.backward = opinfo_entries.has_backward(entry, dtype)
        self.random = opinfo_entries.may_be_random(entry)
        self.undefined = opinfo_entries.has_undefined_values(entry)
        self.differences = [*table.get(entry.full_name, []), *table.get("*", [])]
        self.remarks: list[str] = []

    def tolerance(self, dtype: torch.dtype) -> tuple[float, float]:
        return opinfo_entries.tolerance(self.entry, dtype)

    def remark(self, text: str) -> None:
        """Note something about what is compared, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def run(self, progress: Callable[[int], None] = lambda number: None) -> Result:
        """Run all samples; the worst of them decides."""
        began = time.process_time()
        troubles: dict[str, tuple[int, str]] = {}
        samples = compared = refused_by_cpu = 0
        set_seed()
        for number, sample in enumerate(self.entry.sample_inputs("cpu", self.dtype, requires_grad=self.backward)):
            progress(number)
            samples += 1
            try:
                outcome, reason = self.run_sample(sample)
            except Mismatch as mismatch:
                outcome, reason = FAIL, str(mismatch)
            if outcome == "":
                refused_by_cpu += 1
                continue
            compared += 1
            if outcome != PASS:
                count, first = troubles.get(outcome, (0, reason))
                troubles[outcome] = (count + 1, first)
            if outcome == FAIL and refusals.ends_the_process(reason):
                break
        seconds = time.process_time() - began
        for outcome in (FAIL, REFUSED):
            if outcome in troubles:
                count, reason = troubles[outcome]
                some = "" if count == compared else "some samples: "
                return Result(outcome, some + reason, seconds)
        if compared == 0:
            why = "the CPU refuses every sample too" if refused_by_cpu else "the entry has no samples"
            return Result(REFUSED, why, seconds)
        return Result(PASS, "; ".join(self.remarks), seconds)

    def run_sample(self, sample: Any) -> tuple[str, str]:
        """Outcome and reason; no outcome if the CPU itself refuses."""
        arguments = (sample.input, sample.args, sample.kwargs)
        device_arguments = opinfo_values.moved(arguments, self.device)
        if self.entry.name in opinfo_entries.HOST_ARGUMENTS:
            device_arguments = (device_arguments[0], sample.args, sample.kwargs)
        set_seed()
        try:
            expected = compute(self.entry, sample, opinfo_values.moved(arguments, "cpu"), self.backward)
        except Exception:
            return "", ""
        set_seed()
        if self.random:
            torch.npu.manual_seed(_SEED)
        try:
            got = compute(self.entry, sample, device_arguments, self.backward)
        except Exception as error:
            return refusals.judge(error)
        try:
            self._compare(sample, arguments, got, expected)
        except Mismatch:
            raise
        except Exception as error:
            outcome, reason = refusals.judge(error)
            return outcome, f"reading the results: {reason}"
        if got.backward_error is not None and expected.backward_error is None:
            outcome, reason = refusals.judge(got.backward_error)
            return outcome, f"backward: {reason}"
        return PASS, ""

    def _compare(self, sample: Any, arguments: Any, got: Computed, expected: Computed) -> None:
        pairs = [self._without_differences("", got.result, expected.result)]
        if got.backward_error is None and expected.backward_error is None:
            pairs.append(self._without_differences("backward: ", got.gradients, expected.gradients))
        for phase, one, other in pairs:
            wrong = opinfo_values.differs_in_form(one, other)
            if wrong:
                raise Mismatch(phase + wrong)
        if opinfo_entries.is_uninitialised(self.entry):
            self.remark("uninitialised: shapes and dtypes compared")
        elif self.random and self._is_random(sample, arguments, expected):
            self.remark("random: shapes, dtypes and distribution compared")
            elements = opinfo_entries.elements_of_a_draw(self.entry, sample.input)
            wrong = opinfo_values.differs_in_distribution(got.result, expected.result, elements)
            if wrong:
                raise Mismatch(wrong)
        else:
            for phase, one, other in pairs:
                whole = got.gradients if phase else got.result
                self._compare_values(sample, arguments, phase, one, other, whole)

    def _without_differences(self, phase: str, got: Any, expected: Any) -> tuple[str, Any, Any]:
        for difference in self.differences:
            ours, theirs = client_differences.applied(difference, phase, got, expected)
            if theirs is not expected:
                self.remark(difference.reason)
            got, expected = ours, theirs
        return phase, got, expected

    def _compare_values(self, sample: Any, arguments: Any, phase: str, got: Any, expected: Any, whole: Any) -> None:
        wrong = opinfo_values.differs_in_values(got, expected, self.tolerance)
        if not wrong or self._same_but_for_ties(sample, phase, got, expected):
            return
        if self.undefined:
            self.remark("some values are undefined, torch says, and differ")
            return
        if self._as_good_as_the_cpu(sample, arguments, phase, got, expected, whole):
            return
        for difference in self.differences:
            limits = client_differences.tolerance(difference, self.dtype)
            if limits is None:
                continue
            if not opinfo_values.differs_in_values(
                got, expected, lambda dtype, limits=limits: self._at_least(dtype, *limits)
            ):
                self.remark(difference.reason)
                return
        raise Mismatch(phase + wrong)

    def _at_least(self, dtype: torch.dtype, relative: float, absolute: float) -> tuple[float, float]:
        own = self.tolerance(dtype)
        return max(own[0], relative), max(own[1], absolute)

    def _is_random(self, sample: Any, arguments: Any, expected: Computed) -> bool:
        """Whether the CPU gives something else for other seeds."""
        for other in range(1, 9):
            set_seed(other)
            again = compute(self.entry, sample, opinfo_values.moved(arguments, "cpu"), False)
            if opinfo_values.differs_in_values(again.result, expected.result, lambda dtype: (0.0, 0.0)):
                return True
        return False

    def _same_but_for_ties(self, sample: Any, phase: str, got: Any, expected: Any) -> bool:
        """Whether indices name equal elements where no order among equals is promised."""
        if self.entry.name not in opinfo_entries.INDICES_OF_TIES or sample.kwargs.get("stable") is True:
            return False
        if phase:
            return opinfo_values.same_sorted(got, expected, self.tolerance)
        return opinfo_values.same_elements(sample.input, got, expected)

    def _as_good_as_the_cpu(self, sample: Any, arguments: Any, phase: str, got: Any, expected: Any, whole: Any) -> bool:
        """Whether the NPU is within tolerance of the CPU's result in a wider dtype, or no further from it than the CPU.

        The CPU rounds between the steps of some narrow operators where a device does not, and the other way round.
        """
        if self.dtype not in opinfo_values.WIDER:
            return False
        set_seed()
        try:
            wide = compute(self.entry, sample, opinfo_values.widened(arguments), self.backward)
        except Exception:
            return False
        _, _, reference = self._without_differences(phase, whole, wide.gradients if phase else wide.result)
        # Functions of several operators round to 16 bits in between, and each rounding goes either way. Gradients are
        # sums of rounded terms in some order: a small one among large ones has no digits of its own.
        narrow = self.dtype.itemsize == 2
        by_largest = phase != ""
        errors = opinfo_values.scaled_errors(got, reference, self.tolerance, by_largest)
        errors_of_cpu = opinfo_values.scaled_errors(expected, reference, self.tolerance, by_largest)
        if errors is None or errors_of_cpu is None:
            return False
        times = _TIMES_THE_ERROR_OF_THE_CPU if narrow else 1.0
        return all(one <= max(1.0, times * other) for one, other in zip(errors, errors_of_cpu, strict=True))
