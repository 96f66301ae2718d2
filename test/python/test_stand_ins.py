"""Modules that programs for NPUs import beside torch_npu: pyACL, and torchair as far as it goes."""

from __future__ import annotations

from collections.abc import Callable

PYACL = """
import acl
assert acl.init() == 0
print(acl.get_soc_name())
print(acl.rt.get_device_count())
assert acl.rt.set_device(1) == 0
print(acl.rt.get_device())
print(acl.rt.get_mem_info(1))
assert acl.rt.synchronize_device() == 0
for owner, name in ((acl, "mdl"), (acl.rt, "malloc")):
    try:
        getattr(owner, name)
    except AttributeError as error:
        print(error)
assert acl.rt.get_mem_info(999)[2] != 0
assert acl.rt.set_device(7) != 0
assert acl.rt.reset_device(1) == 0
assert acl.finalize() == 0
"""

TORCHAIR = """
import torch
import torch_npu
import torchair
from torchair import ge, register_fx_node_ge_converter
from torchair.ge import DataType, Tensor, TensorSpec
from typing import Optional

@register_fx_node_ge_converter(torch.ops.aten.add.Tensor)
def convert(left: Tensor, right: Optional[Tensor] = None, *, meta: TensorSpec = None) -> Tensor:
    return ge.Add(left, right)

for made in (lambda: convert(1, 2), torchair.get_npu_backend, torchair.CompilerConfig):
    try:
        made()
    except NotImplementedError as error:
        print(error)
import acl
torch.npu.set_device(0)
free, total, code = acl.rt.get_mem_info(1)
assert (free, total) == torch.npu.mem_get_info() and code == 0, (free, total)
"""


def test_pyacl_is_where_cann_has_it(run_program: Callable) -> None:
    done = run_program(PYACL, options=("--devices", "2"))
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["Ascend910_9392", "(2, 0)", "(1, 0)"]
    free, total, code = map(int, lines[3].strip("()").split(","))
    assert 0 < free <= total == 65_796_046_848  # the second die of a 910C
    assert code == 0
    assert lines[4].startswith("acl.mdl is not in Drydock's pyACL: it has init,")
    assert lines[5].startswith("acl.rt.malloc is not in Drydock's pyACL")


def test_torchair_takes_registrations_and_makes_no_graph(run_program: Callable) -> None:
    done = run_program(TORCHAIR)
    assert done.exit_code == 0, done.stderr
    called = [line.split()[0] for line in done.stdout.splitlines()]
    assert called == ["torchair.ge.Add", "torchair.get_npu_backend", "torchair.CompilerConfig"]
    assert all("graphs of GE, which Drydock does not model" in line for line in done.stdout.splitlines())
