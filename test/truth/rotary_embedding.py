"""Peak memory of Llama 4's rotary embedding, forward and backward, as a public benchmark measured it on an Ascend910B4.

Prints the median peak of ten iterations in bytes for one hidden size. The geometry of the benchmark: 2,048 positions,
32 query and 8 key-value heads, bf16; transformers' own apply_rotary_emb.
"""

import statistics
import sys
import time

import torch
from transformers.models.llama4.configuration_llama4 import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4TextRotaryEmbedding, apply_rotary_emb

POSITIONS = 2048
QUERY_HEADS = 32
KEY_VALUE_HEADS = 8


def peaks(hidden_size: int, iterations: int = 10) -> list[int]:
    """Return the peak of allocated bytes in each iteration."""
    head_size = hidden_size // QUERY_HEADS
    config = Llama4TextConfig(
        hidden_size=hidden_size,
        num_attention_heads=QUERY_HEADS,
        num_key_value_heads=KEY_VALUE_HEADS,
        head_dim=head_size,
        max_position_embeddings=POSITIONS,
    )
    embedding = Llama4TextRotaryEmbedding(config).npu()
    tensor = {"device": "npu", "dtype": torch.bfloat16}
    query = torch.randn((1, POSITIONS, QUERY_HEADS, head_size), requires_grad=True, **tensor)
    key = torch.randn((1, POSITIONS, KEY_VALUE_HEADS, head_size), requires_grad=True, **tensor)
    query_gradient, key_gradient = torch.randn_like(query), torch.randn_like(key)
    positions = torch.arange(POSITIONS, device="npu").unsqueeze(0)  # stays alive, as in the benchmark
    frequencies = embedding(query, positions)

    def forward_and_backward() -> None:
        outputs = apply_rotary_emb(query, key, frequencies)
        torch.autograd.grad(outputs, (query, key), (query_gradient, key_gradient), allow_unused=True, retain_graph=True)

    found = []
    for _ in range(iterations):
        # On a busy host autograd's thread may still hold what the last iteration's end freed: no work of a device's is
        # there that the next iteration would have to wait for.
        time.sleep(0.05)
        torch.npu.reset_peak_memory_stats()
        forward_and_backward()
        found.append(torch.npu.max_memory_allocated())
    return found


if __name__ == "__main__":
    print(int(statistics.median(peaks(int(sys.argv[1])))))
