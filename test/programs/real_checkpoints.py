"""Tensors, models and optimizers go to files on one device and come back on the other, bit for bit."""

import copy
import sys
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

folder = Path(sys.argv[1])
torch.manual_seed(0)
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
tensors = {str(dtype): (torch.randn(5, 7) * 50).to(dtype) for dtype in DTYPES}
tensors |= {"empty": torch.empty(0, 3), "scalar": torch.tensor(2.5), "nan": torch.tensor([float("nan"), float("-inf")])}


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left.cpu().nan_to_num(7), right.cpu().nan_to_num(7))


def on(device: str, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in values.items()}


def check(what: str, found: dict[str, torch.Tensor], device: str) -> None:
    for name, tensor in tensors.items():
        if found[name].device.type != device or not same(found[name], tensor):
            sys.exit(f"{what}: {name} is not what was saved")


for source in ("cpu", "npu"):
    saved = on(source, tensors)
    torch.save(saved, folder / "tensors.pt")
    safetensors.torch.save_file(saved, folder / "tensors.safetensors")
    check(f"torch.load of {source}", torch.load(folder / "tensors.pt"), source)
    for target in ("cpu", "npu"):
        check(f"torch.load {source} to {target}", torch.load(folder / "tensors.pt", map_location=target), target)
        loaded = safetensors.torch.load_file(folder / "tensors.safetensors", device=target)
        check(f"safetensors {source} to {target}", loaded, target)

# Views share their storage in the file as on the device.
base = torch.arange(12.0, device="npu").view(3, 4)
torch.save({"base": base, "column": base[:, 1], "turned": base.t()}, folder / "views.pt")
views = torch.load(folder / "views.pt", map_location="cpu")
views["base"][1, 1] = -1
if views["column"][1] != -1 or views["turned"].stride() != (1, 4):
    sys.exit("views do not share what they shared")


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, device: str, count: int) -> None:
    chance = torch.Generator().manual_seed(count)
    for _ in range(count):
        loss = model(torch.randn(4, 8, generator=chance).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# Training on one device goes on from the other's checkpoint, and ends where training on one device ends.
start = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
final = {}
for first, second in (("cpu", "cpu"), ("cpu", "npu"), ("npu", "cpu"), ("npu", "npu")):
    model = copy.deepcopy(start).to(first)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    steps(model, optimizer, first, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "checkpoint.pt")
    checkpoint = torch.load(folder / "checkpoint.pt", map_location=second)
    model = copy.deepcopy(start).to(second)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    steps(model, optimizer, second, 5)
    final[first, second] = nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
for route, parameters in final.items():
    torch.testing.assert_close(parameters, final["cpu", "cpu"], msg=lambda text, route=route: f"{route}: {text}")
print("done")
