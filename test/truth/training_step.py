"""Peak memory of one training step of a small model, as a public script measured it on an Ascend910B2C.

Prints the largest peak of three steps, after five, in bytes. The models of the measurement, in fp32 with random weights
and the mean square of the outputs as loss: `bert`, transformers' BertForSequenceClassification of width 64 (4 sequences
of 32 tokens, AdamW); `resnet50`, with 10 classes (4 images of 224 x 224, SGD), written here because torchvision's wheel
needs libraries of another vendor's device.
"""

import sys

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

BATCH = 4


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut; the middle one is narrow and takes the stride."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.relu(self.norm1(self.conv1(images)))
        hidden = self.relu(self.norm2(self.conv2(hidden)))
        hidden = self.norm3(self.conv3(hidden))
        hidden += images if self.shortcut is None else self.shortcut(images)
        return self.relu(hidden)


def resnet50(classes: int) -> nn.Module:
    """Return ResNet-50: 3, 4, 6 and 3 bottlenecks of width 64, 128, 256 and 512."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, stride=2 if stage > 0 and block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, classes))


def bert() -> nn.Module:
    """Return the small BERT of the measurement, without dropout."""
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=30522,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=256,
            num_labels=2,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout=0.0,
        )
    )


def peaks(name: str, warm_up: int = 5, steps: int = 3) -> list[int]:
    """Return the peak of allocated bytes in each measured step."""
    torch.npu.set_device(0)
    torch.manual_seed(0)
    model = (bert() if name == "bert" else resnet50(10)).to("npu").train()
    if name == "bert":
        inputs = torch.randint(0, 30522, (BATCH, 32), device="npu")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        inputs = torch.randn(BATCH, 3, 224, 224, device="npu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    found = []
    for step in range(warm_up + steps):
        if step >= warm_up:
            torch.npu.reset_peak_memory_stats()
        optimizer.zero_grad(set_to_none=True)
        outputs = model(inputs)
        logits = outputs if isinstance(outputs, torch.Tensor) else outputs.logits
        logits.float().pow(2).mean().backward()
        optimizer.step()
        torch.npu.synchronize()
        if step >= warm_up:
            found.append(torch.npu.max_memory_allocated())
    return found


if __name__ == "__main__":
    print(max(peaks(sys.argv[1])))
