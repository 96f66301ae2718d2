"""Greedy tokens of a tiny Llama on the CPU and on the NPU, by every way that attention is computed, as JSON."""

import copy
import json

import torch
from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM
from transformers.masking_utils import eager_mask

NEW_TOKENS = 24


def fused_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    **_options: object,
) -> tuple[torch.Tensor, None]:
    """torch_npu's fused operator; keys and values keep their own number of heads."""
    import torch_npu

    hidden = attention_mask[:, :, :, : key.shape[-2]] < 0
    attended = torch_npu.npu_fusion_attention(
        query, key, value, query.shape[1], "BNSD", atten_mask=hidden, scale=scaling
    )[0]
    return attended.transpose(1, 2), None


AttentionInterface.register("npu_fused", fused_attention)
AttentionMaskInterface.register("npu_fused", eager_mask)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=200,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.2,  # scores that differ, so that rounding decides no token
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=None,
)
llama = LlamaForCausalLM(config).eval()
prompts = torch.randint(2, 200, (3, 9))
mask = torch.ones_like(prompts)
mask[1, :4] = 0  # padded on the left
prompts[1, :4] = 0


def generate(device: str, attention: str, cached: bool) -> dict[str, list]:
    model = copy.deepcopy(llama).to(device)
    model.set_attn_implementation(attention)
    with torch.no_grad():
        made = model.generate(
            prompts.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            use_cache=cached,
            output_scores=True,
            return_dict_in_generate=True,
        )
    return {"tokens": made.sequences.tolist(), "scores": torch.stack(made.scores).flatten().tolist()}


results = {"cpu": generate("cpu", "eager", True)}
for name in ("eager", "sdpa", "npu_fused"):
    results[f"npu {name}"] = generate("npu", name, True)
results["npu sdpa without cache"] = generate("npu", "sdpa", False)
print(json.dumps(results))
