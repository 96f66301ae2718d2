"""Supervised fine-tuning of a small causal LM with the transformers Trainer, evaluation and a checkpoint included."""

import random
import tempfile

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

chance = random.Random(0)
config = LlamaConfig(
    vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0
)
model = LlamaForCausalLM(config)
rows = [[chance.randrange(1, 1000) for _ in range(chance.randint(8, 40))] for _ in range(64)]
data = Dataset.from_dict({"input_ids": rows})


def collate(batch: list[dict]) -> dict[str, torch.Tensor]:
    """Pad a batch to its longest row."""
    longest = max(len(row["input_ids"]) for row in batch)
    ids = torch.tensor([row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in batch])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


with tempfile.TemporaryDirectory() as output:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=output,
            per_device_train_batch_size=8,
            max_steps=6,
            bf16=True,
            report_to=[],
            save_steps=3,
            logging_steps=2,
            eval_strategy="steps",
            eval_steps=3,
        ),
        train_dataset=data,
        eval_dataset=data.select(range(16)),
        data_collator=collate,
    )
    result = trainer.train()
if result.training_loss != result.training_loss:
    raise SystemExit("the loss is no number")
print("done", trainer.state.global_step)
