#!/usr/bin/env python3
"""Decoders beside transformers: logits, first losses, folders in and out. Not part of the test suite: it needs PyTorch.

  PYTHON tests/decoders/compare.py path/to/plimsoll [CASE ...]        PYTHON has torch, transformers and safetensors

Each case is a folder of random weights that make attention sharp. Logits are compared with those of the same model in fp64, and
the distance of transformers' own fp32 stands beside; masked positions are left out. Ten updates with AdamW are compared with
PyTorch's in fp64, the first four of them within a bound: sharp attention makes the later ones depend on rounding. Prints a line
for each comparison and exits 1 if one is out of bounds.
"""
import argparse
import array
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers as T
from safetensors.torch import load_file, save_file

VOCAB = 509
BASE = dict(hidden_size=64, intermediate_size=168, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=VOCAB, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=None)


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


LONG = dict(short_factor=[1 + 0.1 * i for i in range(8)], long_factor=[1.5 + 0.5 * i for i in range(8)], factor=4.0,
            original_max_position_embeddings=64)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
# Class, keys, tokens of a sample.
CASES = {
    "llama": (T.LlamaConfig, {}, 60),
    "llama-2048": (T.LlamaConfig, dict(max_position_embeddings=4096), 2048),
    "llama-beyond": (T.LlamaConfig, dict(max_position_embeddings=64), 150),
    "llama-biases": (T.LlamaConfig, dict(num_key_value_heads=1, head_dim=24, attention_bias=True, mlp_bias=True), 60),
    "llama-tied": (T.LlamaConfig, dict(num_key_value_heads=4, tie_word_embeddings=True), 60),
    "llama-padding": (T.LlamaConfig, dict(pad_token_id=3), 60),
    "llama-gelu": (T.LlamaConfig, dict(hidden_act="gelu"), 40),
    "llama-gelu-new": (T.LlamaConfig, dict(hidden_act="gelu_new"), 40),
    "linear": (T.LlamaConfig, rope("linear", factor=3.0), 60),
    "dynamic-short": (T.LlamaConfig, dict(max_position_embeddings=48, **rope("dynamic", factor=4.0)), 40),
    "dynamic-long": (T.LlamaConfig, dict(max_position_embeddings=48, **rope("dynamic", factor=4.0)), 90),
    "llama3": (T.LlamaConfig, rope("llama3", **LLAMA3), 150),
    "yarn": (T.LlamaConfig, rope("yarn", factor=4.0, original_max_position_embeddings=64), 90),
    "yarn-mscale": (T.LlamaConfig, rope("yarn", factor=4.0, original_max_position_embeddings=64, mscale=0.7, mscale_all_dim=0.9,
                                        truncate=False), 90),
    "longrope-short": (T.LlamaConfig, rope("longrope", **LONG), 40),
    "longrope-long": (T.LlamaConfig, rope("longrope", **LONG), 100),
    "mistral": (T.MistralConfig, dict(sliding_window=None), 60),
    "mistral-window": (T.MistralConfig, dict(sliding_window=20), 130),
    "mistral-one-key": (T.MistralConfig, dict(sliding_window=1), 30),
    "qwen2": (T.Qwen2Config, dict(tie_word_embeddings=True), 60),
    "qwen2-windows": (T.Qwen2Config, dict(use_sliding_window=True, sliding_window=15, max_window_layers=1), 70),
    "qwen3": (T.Qwen3Config, dict(head_dim=32, tie_word_embeddings=True), 60),
    "qwen3-windows": (T.Qwen3Config, dict(head_dim=32, use_sliding_window=True, sliding_window=15,
                                          layer_types=["sliding_attention", "full_attention", "sliding_attention"]), 70),
}  # fmt: skip


def make(kind, keys):
    torch.manual_seed(11)
    model = T.AutoModelForCausalLM.from_config(kind(**{**BASE, **keys}), attn_implementation="eager").float()
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and "embed" not in name:
            parameter.data.mul_(14 if "q_proj" in name or "k_proj" in name else 2)
        parameter.data.add_((0.2 if parameter.dim() == 1 else 0.01) * torch.randn_like(parameter))
    return model.eval()


def distance(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


class Comparison:
    def __init__(self, binary):
        self.binary, self.faults = binary, 0

    def run(self, *arguments):
        result = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{arguments}: exit {result.returncode}\n{result.stderr[-1000:]}")

    def say(self, what, value, limit, beside):
        good = value <= limit
        self.faults += not good
        print(f"{'ok  ' if good else 'FAIL'} {what:32} {value:9.1e}  limit {limit:.1e}  {beside}", flush=True)

    def logits(self, name, folder, model, tokens, mask):
        """`mask`: 1 where a token counts. Of those that do not, some come last and some lie between others."""
        ids = torch.randint(0, VOCAB, mask.shape, generator=torch.Generator().manual_seed(5))
        save_file(dict(input_ids=ids.to(torch.int32), attention_mask=mask), folder / "in.safetensors")
        self.run("forward", "--weights", folder / "model", "--inputs", folder / "in.safetensors", "--out",
                 folder / "out.safetensors", "--memory", "2GiB")
        given = dict(attention_mask=mask) if not bool(mask.all()) else {}
        with torch.no_grad():
            own = model(ids, **given).logits
            exact = model.double()(ids, **given).logits
            model.float()
        kept = mask.bool() & ~exact.isnan().any(-1)
        ours, beside = load_file(folder / "out.safetensors")["logits"], distance(own[kept], exact[kept])
        limit = max(1e-5 if tokens < 2048 else 3e-5, 2 * beside)
        self.say(f"{name} logits", distance(ours[kept], exact[kept]), limit, f"transformers {beside:.1e}")

    def training(self, name, folder, kind, keys, tokens, updates=10, batch=4):
        data = torch.randint(0, VOCAB, (updates * batch * tokens + 1,), generator=torch.Generator().manual_seed(7))
        (folder / "t.bin").write_bytes(array.array("H", data.tolist()).tobytes())
        (folder / "c.toml").write_text(
            f'[model]\ninit = "{folder / "model"}"\ncontext = {tokens}\n[data]\ntrain = "t.bin"\nformat = "u16"\n'
            f'order = "sequential"\n[train]\neffective_batch = {batch}\nmicro_batch = 2\nupdates = {updates}\n'
            "[optimizer]\nlearning_rate = 1e-3\nbetas = [0.9, 0.95]\nweight_decay = 0.1\n[machine]\nthreads = 2\n")
        self.run("train", folder / "c.toml", "--memory", "2GiB", "--run", folder / "run")
        ours = [json.loads(line)["loss"] for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
        losses = {dtype: self.torch_losses(kind, keys, dtype, data, tokens, updates, batch) for dtype in
                  (torch.float32, torch.float64)}  # fmt: skip
        exact = losses[torch.float64]
        off = lambda some: [abs(a - b) / b for a, b in zip(some, exact)]
        own, beside = off(ours), off(losses[torch.float32])
        all_ten = f"all ten {max(own):.1e}, {max(beside):.1e}"
        self.say(f"{name} losses", max(own[:4]), 1e-5, f"PyTorch {max(beside[:4]):.1e}; {all_ten}")
        T.AutoModelForCausalLM.from_pretrained(folder / "run" / "weights")

    @staticmethod
    def torch_losses(kind, keys, dtype, data, tokens, updates, batch):
        model = make(kind, keys).to(dtype).train()
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        optimizer = torch.optim.AdamW([dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)],
                                      lr=1e-3, betas=(0.9, 0.95), eps=1e-8)  # fmt: skip
        losses = []
        for update in range(updates):
            rows = [data[i * tokens : (i + 1) * tokens + 1] for i in range(update * batch, (update + 1) * batch)]
            text = torch.stack(rows)
            loss = torch.nn.functional.cross_entropy(model(text[:, :-1]).logits.flatten(0, 1), text[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(float(loss))
        return losses

    def case(self, name):
        kind, keys, tokens = CASES[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            model = make(kind, keys)
            model.save_pretrained(folder / "model", max_shard_size="200KB" if name in ("llama", "qwen3") else "5GB")
            mask = torch.ones(2, tokens, dtype=torch.int64)
            self.logits(name, folder, model, tokens, mask)
            mask[0, tokens - tokens // 3 :] = 0
            mask[1, tokens // 4 : tokens // 3] = 0
            if keys.get("sliding_window") != 1:  # a masked token would see nothing, and transformers computes no number
                self.logits(f"{name} masked", folder, model, tokens, mask)
            if tokens <= 200:
                self.training(name, folder, kind, keys, tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    arguments = parser.parse_args()
    comparison = Comparison(arguments.binary.resolve())
    for name in arguments.cases or CASES:
        comparison.case(name)
    sys.exit(comparison.faults > 0)


if __name__ == "__main__":
    main()
