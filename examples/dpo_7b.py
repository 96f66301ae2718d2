"""DPO fine-tune of a LLaMA-7B-sized model with LoRA on one Ascend device: TRL, peft and transformers as they come.

The weights are random and made on the device, the preference pairs are made on the spot (or read from a JSONL file
with the fields prompt, chosen and rejected), and nothing is fetched from a network. Nothing here knows of Drydock:
the program runs on a real NPU as it is.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

VOCABULARY = 32000
MADE_UP_PAIRS = 400


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer of LLaMA's vocabulary size: one word is one token."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3}
    words |= {f"w{index}": index for index in range(len(words), VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def make_pairs(count: int, shortest: int, longest: int, seed: int) -> Dataset:
    """Return preference pairs whose texts have between `shortest` and `longest` tokens in all."""
    chance = random.Random(seed)

    def words(length: int) -> str:
        return " ".join(f"w{chance.randrange(4, VOCABULARY)}" for _ in range(length))

    pairs: dict[str, list[str]] = {"prompt": [], "chosen": [], "rejected": []}
    for _ in range(count):
        total = chance.randint(shortest, longest)
        prompt = max(1, total // 3)
        pairs["prompt"].append(words(prompt) + " ")
        pairs["chosen"].append(words(total - prompt))
        pairs["rejected"].append(words(max(1, chance.randint(shortest, longest) - prompt)))
    return Dataset.from_dict(pairs)


def read_pairs(path: Path) -> Dataset:
    """Return the preference pairs of a JSONL file; each line has prompt, chosen and rejected."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return Dataset.from_list([{key: row[key] for key in ("prompt", "chosen", "rejected")} for row in rows])


def make_model(layers: int) -> LlamaForCausalLM:
    """Return LLaMA-7B's geometry with random bf16 weights that never exist on the host."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=layers,
        num_attention_heads=32,
        max_position_embeddings=4096,
        pad_token_id=3,
        use_cache=False,
    )
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("npu"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model


def main() -> None:
    """Train and say how many steps were done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="optimizer updates (default: 100)")
    parser.add_argument("--batch", type=int, default=4, help="pairs in a batch (default: 4)")
    parser.add_argument("--layers", type=int, default=32, help="decoder layers; 32 make a 7B model (default: 32)")
    parser.add_argument("--rank", type=int, default=16, help="LoRA rank (default: 16)")
    parser.add_argument("--shortest", type=int, default=50, help="tokens of the shortest text (default: 50)")
    parser.add_argument("--longest", type=int, default=740, help="tokens of the longest text (default: 740)")
    parser.add_argument("--pairs", type=Path, help="JSONL file with prompt, chosen and rejected (default: made up)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the made-up pairs and of training (default: 1)")
    options = parser.parse_args()

    if options.pairs:
        pairs = read_pairs(options.pairs)
    else:
        pairs = make_pairs(MADE_UP_PAIRS, options.shortest, options.longest, options.seed)
    with tempfile.TemporaryDirectory() as output:
        trainer = DPOTrainer(
            model=make_model(options.layers),
            args=DPOConfig(
                output_dir=output,
                per_device_train_batch_size=options.batch,
                max_steps=options.steps,
                max_length=2048,
                bf16=True,
                gradient_checkpointing=False,
                logging_steps=10,
                save_strategy="no",
                report_to=[],
                seed=options.seed,
                dataloader_pin_memory=False,
            ),
            train_dataset=pairs,
            processing_class=make_tokenizer(),
            peft_config=LoraConfig(
                r=options.rank,
                lora_alpha=2 * options.rank,
                target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
                task_type="CAUSAL_LM",
            ),
        )
        trainer.train()
    print(f"{trainer.state.global_step} steps done")


if __name__ == "__main__":
    main()
