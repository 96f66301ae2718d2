"""Optimizers of PyTorch and of torch_npu: the parameters after some steps, against the CPU."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch_npu

OPTIMIZERS = {
    "SGD": {"lr": 0.05},
    "SGD momentum": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"lr": 0.01, "weight_decay": 0.02},
    "Adam amsgrad": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1},
    "AdamW maximize": {"lr": 0.01, "maximize": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.05},
    "NAdam": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
}


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """Train on the batches; the parameters afterwards."""
    for batch in batches:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


class Network(torch.nn.Module):
    """Two small parameters and a norm, without operators of other families."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(9, 6))
        self.norm = torch.nn.LayerNorm(6)
        self.bias = torch.nn.Parameter(torch.randn(6))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch multiplied, normalised and squashed."""
        return torch.tanh(self.norm(batch * self.scale) + self.bias)


def network() -> torch.nn.Module:
    """The same network each time."""
    torch.manual_seed(0)
    return Network()


def compare(name: str, forms: dict[str, bool], reference: dict[str, bool], make=None) -> None:
    """Train on both devices and compare the parameters."""
    model, batches = network(), [torch.randn(9, 6) for _ in range(4)]
    on_npu = copy.deepcopy(model).npu()
    settings, kind = OPTIMIZERS[name], getattr(torch.optim, name.split()[0])
    expected = train(model, kind(model.parameters(), **settings, **reference), batches)
    optimizer = (make or kind)(on_npu.parameters(), **settings, **forms)
    got = train(on_npu, optimizer, [batch.npu() for batch in batches])
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_foreach_forms(name, foreach):
    compare(name, {"foreach": foreach}, {"foreach": False})


@pytest.mark.parametrize("name", ["SGD momentum", "AdamW", "AdamW maximize"])
def test_fused_forms(name):
    compare(name, {"fused": True}, {"foreach": False})


@pytest.mark.parametrize("name", ["SGD momentum", "Adam", "AdamW", "RMSprop"])
def test_fused_optimizers_of_torch_npu(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"RMSprop": {"lr": 0.01}}.get(name, OPTIMIZERS[name])
        model, batches = network(), [torch.randn(9, 6) for _ in range(4)]
        on_npu = copy.deepcopy(model).npu()
        kind = name.split()[0]
        expected = train(model, getattr(torch.optim, kind)(model.parameters(), **settings), batches)
        fused = {"SGD": "NpuFusedSGD", "Adam": "NpuFusedAdam", "AdamW": "NpuFusedAdamW"}.get(kind, "NpuFusedRMSprop")
        optimizer = getattr(torch_npu.optim, fused)(on_npu.parameters(), **settings)
        got = train(on_npu, optimizer, [batch.npu() for batch in batches])
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
