"""Recurrent networks against the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_npu  # noqa: F401 (its operators)

# torch_npu takes aclnnLSTM for one layer of one direction with biases in fp32 or fp16, aclnnGRU for all in these types,
# and the legacy DynamicRNN, DynamicRNNV2 (cells) and DynamicGRUV2 for the rest.


def compare_module(module: torch.nn.Module, *inputs: torch.Tensor, tolerance: float = 2e-5) -> None:
    """Run a module on both devices and compare outputs and all gradients."""
    sides = []
    for device in ("cpu", "npu"):
        own = copy.deepcopy(module).to(device)
        args = [value.detach().to(device).requires_grad_() for value in inputs]
        output, state = own(args[0], *([tuple(args[1:])] if len(args) == 3 else args[1:]))
        states = list(state) if isinstance(state, tuple) else [state]
        loss = sum((value * (1 + number)).sin().sum() for number, value in enumerate([output, *states]))
        loss.backward()
        sides.append([output, *states, *(value.grad for value in args), *(value.grad for value in own.parameters())])
    for number, (expected, got) in enumerate(zip(*sides, strict=True)):
        torch.testing.assert_close(
            got.cpu(), expected, rtol=tolerance, atol=tolerance, msg=lambda text, n=number: f"result {n}: {text}"
        )


@pytest.mark.parametrize("batch_first", [False, True])
def test_lstm(batch_first):
    torch.manual_seed(1)
    module = torch.nn.LSTM(5, 6, batch_first=batch_first)
    inputs = torch.randn(3, 7, 5) if batch_first else torch.randn(7, 3, 5)
    compare_module(module, inputs, torch.randn(1, 3, 6), torch.randn(1, 3, 6))
    compare_module(module, inputs)


def test_lstm_in_16_bits():
    torch.manual_seed(2)
    module = torch.nn.LSTM(4, 8)
    inputs = torch.randn(5, 2, 4)
    expected = module(inputs)[0]
    got = copy.deepcopy(module).half().npu()(inputs.half().npu())[0]
    torch.testing.assert_close(got.float().cpu(), expected, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_lstm_by_the_legacy_operator(layers, bidirectional, bias):
    torch.manual_seed(7)
    module = torch.nn.LSTM(5, 6, layers, bidirectional=bidirectional, bias=bias)
    runs = layers * (2 if bidirectional else 1)
    compare_module(module, torch.randn(4, 3, 5), torch.randn(runs, 3, 6), torch.randn(runs, 3, 6))


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_bfloat16_by_the_legacy_operator(name):
    torch.manual_seed(8)
    module = getattr(torch.nn, name)(4, 8)
    inputs = torch.randn(5, 2, 4)
    expected = module(inputs)[0]
    got = copy.deepcopy(module).bfloat16().npu()(inputs.bfloat16().npu())[0]
    torch.testing.assert_close(got.float().cpu(), expected, rtol=5e-2, atol=2e-2)


@pytest.mark.parametrize("bias", [False, True])
def test_lstm_cell(bias):
    torch.manual_seed(5)
    cell = torch.nn.LSTMCell(5, 6, bias=bias)
    inputs = [torch.randn(3, 5), torch.randn(3, 6), torch.randn(3, 6)]
    sides = []
    for device in ("cpu", "npu"):
        own = copy.deepcopy(cell).to(device)
        args = [value.detach().to(device).requires_grad_() for value in inputs]
        h, c = own(args[0], (args[1], args[2]))
        (h.sin().sum() + 2 * c.cos().sum()).backward()
        sides.append([h, c, *(value.grad for value in args), *(value.grad for value in own.parameters())])
    for expected, got in zip(*sides, strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_and_directions_of_lstm(layers, bidirectional):
    """Through the operator itself: torch_npu's module takes another route for these."""
    torch.manual_seed(3)
    module = torch.nn.LSTM(5, 6, layers, bidirectional=bidirectional, batch_first=True)
    runs = layers * (2 if bidirectional else 1)
    inputs, h, c = torch.randn(3, 4, 5), torch.randn(runs, 3, 6), torch.randn(runs, 3, 6)
    own = [value.detach().npu() for value in module.parameters()]
    result = torch.ops.npu._lstm_npu(
        inputs.npu(), [h.npu(), c.npu()], own, True, layers, 0.0, True, bidirectional, batch_first=True
    )
    expected, (expected_h, expected_c) = module(inputs, (h, c))
    for one, other in zip(result[:3], (expected, expected_h, expected_c), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_gru(layers, bidirectional, bias):
    torch.manual_seed(4)
    module = torch.nn.GRU(5, 6, layers, bidirectional=bidirectional, bias=bias, batch_first=layers == 2)
    runs = layers * (2 if bidirectional else 1)
    inputs = torch.randn(3, 4, 5) if layers == 2 else torch.randn(4, 3, 5)
    compare_module(module, inputs, torch.randn(runs, 3, 6))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_fused_step_of_an_lstm(dtype, bias):
    """The operators themselves: torch.nn.LSTMCell takes a legacy one."""
    torch.manual_seed(5)
    gates = [torch.randn(3, 24).to(dtype) for _ in range(2)]
    before = torch.randn(3, 6).to(dtype)
    biases = [torch.randn(24).to(dtype) if bias else None for _ in range(2)]
    leaves = [value.float().requires_grad_() for value in (*gates, before)]
    shift = sum(value.float() for value in biases) if bias else 0
    i, f, g, o = (leaves[0] + leaves[1] + shift).chunk(4, 1)
    c = f.sigmoid() * leaves[2] + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    own = [None if value is None else value.npu() for value in (*gates, before, *biases)]
    got_h, got_c, storage = torch.ops.aten._thnn_fused_lstm_cell(*own)
    tolerance = 2e-5 if dtype is torch.float32 else 2e-3
    for one, other in ((got_h, h), (got_c, c)):
        torch.testing.assert_close(one.float().cpu(), other.detach(), rtol=tolerance, atol=tolerance)
    grads = [torch.randn(3, 6).to(dtype) for _ in range(2)]
    expected = torch.autograd.grad([h, c], [leaves[0], leaves[2]], [value.float() for value in grads])
    own_grads = [value.npu() for value in grads]
    got = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(*own_grads, own[2], got_c, storage, bias)
    for one, other in zip(got[:2], expected, strict=True):
        torch.testing.assert_close(one.float().cpu(), other, rtol=10 * tolerance, atol=3 * tolerance)
    if bias:
        torch.testing.assert_close(got[2].float().cpu(), expected[0].sum(0), rtol=10 * tolerance, atol=5 * tolerance)
