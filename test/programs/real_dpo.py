"""DPO of a 2-layer Llama with TRL, on the CPU and then on the NPU: what the trainer logs at every step, as JSON."""

import copy
import json
import random
import sys
import tempfile

import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

VOCABULARY = 100
STEPS = 8
LOGGED = ("loss", "rewards/margins", "rewards/chosen", "rewards/rejected", "logps/chosen", "grad_norm")

words = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3} | {f"w{index}": index for index in range(4, VOCABULARY)}
vocabulary = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
vocabulary.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=vocabulary, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
)
chance = random.Random(0)


def made_words(shortest: int, longest: int) -> str:
    return " ".join(f"w{chance.randrange(4, VOCABULARY)}" for _ in range(chance.randint(shortest, longest)))


pairs = Dataset.from_list(
    [
        {"prompt": made_words(3, 8) + " ", "chosen": made_words(2, 12), "rejected": made_words(2, 12)}
        for _ in range(4 * STEPS)
    ]
)
torch.manual_seed(0)
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=3,
    )
)


def train(device: str) -> list[dict[str, float]]:
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()  # the device of a process is chosen once
    with tempfile.TemporaryDirectory() as output:
        trainer = DPOTrainer(
            model=copy.deepcopy(llama),
            ref_model=copy.deepcopy(llama),
            args=DPOConfig(
                output_dir=output,
                per_device_train_batch_size=4,
                max_steps=STEPS,
                learning_rate=1e-3,
                beta=0.1,
                bf16=False,
                gradient_checkpointing=False,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                seed=1,
                use_cpu=device == "cpu",
                dataloader_pin_memory=False,
                disable_tqdm=True,
            ),
            train_dataset=pairs,
            processing_class=tokenizer,
        )
        trainer.train()
        if next(trainer.model.parameters()).device.type != device:
            sys.exit(f"trained on another device than {device}")
    return [{name: entry[name] for name in LOGGED} for entry in trainer.state.log_history if "loss" in entry]


print(json.dumps({device: train(device) for device in ("cpu", "npu")}))
