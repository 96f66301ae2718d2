"""generate() of a causal LM: greedy and sampled decoding with a key-value cache, and stopping at a token."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=1000,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
    eos_token_id=999,
)
model = LlamaForCausalLM(config).to(torch.bfloat16).npu().eval()
prompt = torch.randint(1, 998, (2, 12)).npu()
mask = torch.ones_like(prompt)
greedy = model.generate(prompt, attention_mask=mask, max_new_tokens=8, do_sample=False)
sampled = model.generate(prompt, attention_mask=mask, max_new_tokens=8, do_sample=True, top_k=20, temperature=0.7)
for tokens in (greedy.cpu(), sampled.cpu()):
    if not ((tokens >= 0) & (tokens < 1000)).all():
        raise SystemExit("a token id is out of range")
print("done", tuple(greedy.shape), tuple(sampled.shape))
