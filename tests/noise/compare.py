#!/usr/bin/env python3
"""The sums of the gradient noise beside PyTorch: python3 tests/noise/compare.py path/to/plimsoll [CASE ...]

Needs torch, transformers, peft and safetensors, and is no part of the test suite. Each case trains a few windows with a rate so
small that no weight changes. Both sums of each window are compared with PyTorch's gradients in fp64, taken over the samples of
the first round and of the window. Kish's numbers of samples are compared with those of the trained tokens. Exit status 1 above
2e-5.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers

LIMIT, WINDOWS, BATCH, MICRO, LENGTH = 2e-5, 3, 12, 2, 48
GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
LLAMA = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
# Vocabulary, LoRA, packed conversations, further keys. Rows of a large vocabulary have slots; those of a small one have none.
CASES = {
    "gpt2": ("gpt2", 211, False, False, {}),
    "gpt2-slots": ("gpt2", 20011, False, False, {}),
    "gpt2-groups": ("gpt2", 211, False, False, {"plan.group": 2}),
    "gpt2-clip": ("gpt2", 211, False, False, {"train.gradient_clip": 0.01}),
    "gpt2-fp16": ("gpt2", 211, False, False, {"precision.compute": "fp16"}),
    "llama-lora": ("llama", 211, True, False, {}),
    "llama-packed": ("llama", None, False, True, {}),
    "llama-packed-lora": ("llama", None, True, True, {}),
}
CHAT = pathlib.Path(__file__).resolve().parent.parent / "chat" / "tokenizer.json"
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% generation %}{{ m.content + '<|im_end|>' }}"
            "{% endgeneration %}{{ '\n' }}{% endfor %}")


def run(binary, *arguments):
    process = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} exits {process.returncode}: {(process.stdout + process.stderr)[-900:]}")
    return process.stdout


def make(kind, vocab, lora, folder):
    torch.manual_seed(5)
    config = (transformers.GPT2Config(vocab_size=vocab, **GPT2, **SIZES) if kind == "gpt2" else
              transformers.LlamaConfig(vocab_size=vocab, max_position_embeddings=256, **LLAMA, **SIZES))  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    for p in model.parameters():
        p.data.mul_(3 if p.dim() > 1 else 1).add_(0.1 * torch.randn_like(p) if p.dim() == 1 else 0)
    model.save_pretrained(folder / "base")
    if lora:
        settings = peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules="all-linear")
        model = peft.get_peft_model(model, settings)
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.data.copy_(0.05 * torch.randn_like(p))
        model.save_pretrained(folder / "start")
    return model.double().eval()


def rows_of(folder, vocab):
    """Samples of a stream as (tokens, targets that count), and the keys of the data."""
    count = WINDOWS * BATCH
    tokens = torch.randint(0, vocab, (count * LENGTH + 1,))
    (folder / "t.bin").write_bytes(tokens.numpy().astype(np.uint16).tobytes())
    samples = [(tokens[i * LENGTH : (i + 1) * LENGTH + 1], torch.ones(LENGTH, dtype=torch.bool)) for i in range(count)]
    return samples, f'[data]\ntrain = "{folder}/t.bin"\nformat = "u16"\norder = "sequential"\n'


def write_chats(folder):
    """Conversations of lognormal lengths, with a tokenizer; returns the keys of the data."""
    random, words = np.random.default_rng(3), "river stone ship house green seven walk read".split()
    (folder / "tokenizer.json").write_bytes(CHAT.read_bytes())
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    lines = []
    for _ in range(WINDOWS * BATCH):
        text = [" ".join(random.choice(words, max(1, min(24, int(random.lognormal(1.5, 0.8)))))) for _ in range(2)]
        lines.append({"messages": [{"role": "user", "content": text[0]}, {"role": "assistant", "content": text[1]}]})
    (folder / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return (f'[data]\ntrain = "{folder}/c.jsonl"\nformat = "chat"\nvocabulary = "{folder}"\norder = "sequential"\n'
            "[batch]\npacking = true\n")


def shown(binary, config):
    said = json.loads(run(binary, "data", "show", config, "--samples", WINDOWS * BATCH, "--json"))["samples"]
    return [(torch.tensor(s["ids"]), torch.tensor(s["trained"][1:], dtype=torch.bool)) for s in said]


def first_fit(samples, room):
    """The row of each sample: longest first, ties in order, into the first row with room."""
    free, rows = [], [0] * len(samples)
    for i in sorted(range(len(samples)), key=lambda i: -(len(samples[i][0]) - 1)):
        size = len(samples[i][0]) - 1
        row = next((r for r, left in enumerate(free) if left >= size), len(free))
        if row == len(free):
            free.append(room)
        free[row] -= size
        rows[i] = row
    return rows


def mean_gradient(model, samples):
    """The squared norm of the mean gradient over the trained tokens of samples, and Kish's number of samples."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.zero_grad()
    counts = []
    for tokens, counted in samples:
        logits = model(tokens[None, :-1]).logits[0]
        torch.nn.functional.cross_entropy(logits[counted], tokens[1:][counted], reduction="sum").backward()
        counts.append(int(counted.sum()))
    units = sum(counts)
    square = sum(float((p.grad / units).square().sum()) for p in parameters if p.grad is not None)
    return square, units**2 / sum(n * n for n in counts)


def case(binary, name, folder):
    kind, vocab, lora, chats, keys = CASES[name]
    data = write_chats(folder) if chats else ""
    if chats:
        vocab = len(transformers.AutoTokenizer.from_pretrained(folder))
    model = make(kind, vocab, lora, folder)
    samples = None
    if not chats:
        samples, data = rows_of(folder, vocab)
    context = 128 if chats else LENGTH
    start = f'[adapter]\ninit = "{folder}/start"\n' if lora else ""
    config = folder / "c.toml"
    config.write_text(f'[model]\ninit = "{folder}/base"\ncontext = {context}\n{start}{data}'
                      f"[train]\neffective_batch = {BATCH}\nmicro_batch = {MICRO}\nupdates = {WINDOWS}\nnoise_every = 1\n"
                      '[optimizer]\nname = "sgd"\nlearning_rate = 1e-12\nweight_decay = 0.0\n[precision]\ncompute = "fp32"\n')
    settings = {"plan.group": 1, "train.micro_batch": 1 if chats else MICRO, **keys}
    more = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    run(binary, "train", config, *more, "--memory", "1GiB", "--run", folder / "run")
    samples = samples or shown(binary, config)
    round_rows = settings["train.micro_batch"] * settings["plan.group"]
    worst = counts = 0
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    for window, line in enumerate(lines):
        placed = samples[window * BATCH : (window + 1) * BATCH]
        rows = first_fit(placed, context) if chats else list(range(BATCH))
        first = mean_gradient(model, [s for s, row in zip(placed, rows) if row < round_rows])
        whole = mean_gradient(model, placed)
        noise = line["noise"]
        off = [abs(noise[key] / want - 1) for key, want in (("first", first[0]), ("window", whole[0]))]
        worst = max(worst, *off)
        counts = max(counts, abs(noise["samples_first"] - first[1]), abs(noise["samples_window"] - whole[1]))
    limit = LIMIT if settings.get("precision.compute") != "fp16" else 1e-2
    good = worst <= limit and counts < 1e-9 and len(lines) == WINDOWS
    print(f"{'ok  ' if good else 'FAIL'} {name:20} sums {worst:.1e} (limit {limit:.0e}), samples {counts:.1e}", flush=True)
    return good


def main():
    binary, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or list(CASES)
    good = True
    for name in names:
        with tempfile.TemporaryDirectory(prefix="plimsoll_noise_") as folder:
            good = case(binary, name, pathlib.Path(folder)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
