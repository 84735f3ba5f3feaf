#!/usr/bin/env python3
"""Compares GGUF files that `plimsoll export` writes with the packages gguf, peft, tokenizers and transformers.

    python3 tests/gguf/export.py BINARY [--only PART]...

Needs gguf, numpy, peft, safetensors, tokenizers, torch and transformers, so it is no part of the test suite. Parts:
  models      small random models of all families: every tensor has the bits that the gguf package makes of the folder's, in each
              type; logits of transformers' reader are the model's, and Plimsoll's own have the bits of the folder's
  tokenizers  trained as tests/tokenizers/compare.py does: the keys of the file, ids and chat template are those of the folder
  adapters    of PEFT, with rsLoRA and ranks of their own: W + alpha / rank B A of the files is PEFT's merged matrix
  refused     what GGUF cannot hold ends in an error with a code, and writes nothing
"""
import argparse
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "BF16": 32}
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\u00e9\n{% endfor %}"
SPECIALS = {"<s>": "bos_token", "<|begin_of_text|>": "bos_token", "</s>": "eos_token", "<unk>": "unk_token"}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem + "_of_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


families = load(HERE / "families.py")
lines = load(HERE.parent / "tokenizers" / "compare.py")
SIZES = families.SIZES
MODELS = {
    **families.MODELS,
    "llama": ("llama", "Llama", {**SIZES, "tie_word_embeddings": True}),
    "mistral": ("llama", "Mistral", {**SIZES, "sliding_window": 8}),
    "rows of 48": ("qwen2", "Qwen2", {**SIZES, "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1}),
}
# That transformers' reader of GGUF files computes as its models do.
READ_BY_TRANSFORMERS = ("gpt2", "qwen2", "qwen3", "llama", "rows of 48")


def run(binary, *arguments, code=0):
    result = subprocess.run([binary, *map(str, arguments)], capture_output=True)
    if result.returncode != code:
        raise SystemExit(f"{arguments}: exit {result.returncode}\n{result.stdout.decode()}\n{result.stderr.decode()}")
    return result.stdout


def stored(name, tensor, kind):
    """The bytes that the file has to have, and their type."""
    if tensor.ndim == 1 or name == "position_embd.weight":
        kind = "F32"
    if kind == "Q8_0" and tensor.shape[-1] % 32:
        kind = "F16"
    kind = gguf.GGMLQuantizationType[kind]
    return kind, gguf.quants.quantize(tensor.astype(np.float32), kind).tobytes()


def forward(binary, scratch, weights, ids):
    save_file({"input_ids": ids}, scratch / "inputs")
    run(binary, "forward", "--weights", weights, "--inputs", scratch / "inputs", "--out", scratch / "out", "--memory", "1GiB")
    return load_file(scratch / "out")["logits"]


def models(binary, scratch, that):
    for name, (architecture, family, sizes) in MODELS.items():
        config, model = families.random_model(family, sizes)
        folder, ids = scratch / name.replace(" ", "_"), np.random.default_rng(0).integers(0, config.vocab_size, (1, 40))
        model.save_pretrained(folder)
        tensors = dict(families.in_gguf(architecture, config, load_file(folder / "model.safetensors")))
        for kind, number in TYPES.items():
            file = scratch / f"model.{kind}.gguf"
            run(binary, "export", "--weights", folder, "--gguf", file, "--type", kind)
            reader = gguf.GGUFReader(file)
            got = {t.name: (t.tensor_type, t.data.tobytes(), t.shape.tolist()) for t in reader.tensors}
            got.pop("rope_freqs.weight", None)
            want = {n: (*stored(n, t, kind), list(t.shape[::-1])) for n, t in tensors.items()}
            different = [n for n in got.keys() | want.keys() if got.get(n) != want.get(n)]
            keys = {n: f.contents() for n, f in reader.fields.items()}
            that(not different and keys["general.file_type"] == number and keys["general.architecture"] == architecture,
                 f"{name} in {kind}: {len(want)} tensors {different[:3]}")  # fmt: skip
        file = scratch / "model.F32.gguf"
        ours, theirs = (forward(binary, scratch, weights, ids) for weights in (file, folder))
        that(ours.tobytes() == theirs.tobytes(), f"{name}: logits of file and folder have equal bits")
        run(binary, "export", "--weights", file, "--gguf", scratch / "again.gguf", "--type", "F32")
        that(file.read_bytes() == (scratch / "again.gguf").read_bytes(), f"{name}: the file of the file is the same")
        if name not in READ_BY_TRANSFORMERS:
            continue
        # transformers does not read the rows of GPT-2's tables, nor the size of Qwen3's heads.
        words = {"dtype": torch.float32, **({"config": config} if name in ("gpt2", "qwen3") else {})}
        back = transformers.AutoModelForCausalLM.from_pretrained(scratch, gguf_file=file.name, **words).eval()
        with torch.no_grad():
            logits, want = (m(torch.tensor(ids)).logits.numpy() for m in (back, model))
        distance = np.linalg.norm(logits - want) / np.linalg.norm(want)
        that(distance < 1e-6, f"{name}: logits of transformers' reader, relative L2 {distance:.1e}")


def folder_of(scratch, tokenizer, rows):
    """A model for the tokenizer: two rows of its table are no tokens."""
    sizes = {**SIZES, "vocab_size": rows, "tie_word_embeddings": True}
    _, model = families.random_model("Llama", sizes)
    folder = scratch / "with_tokenizer"
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {SPECIALS[t.content]: t.content for t in tokenizer.get_added_tokens_decoder().values() if t.content in SPECIALS}
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "chat_template": TEMPLATE}))
    return folder


def tokenizers(binary, scratch, that):
    source = lines.Lines(1)
    corpus = [source.line() for _ in range(3000)]
    kinds = [(kind, cutting, begin, lines.KINDS[kind](corpus)) for kind, cutting, begin in families.CUTTINGS]
    scratch_file = scratch / "scored.gguf"
    made = json.loads(lines.KINDS["llama-legacy"](corpus).to_str())
    kinds.append(("llama", "default", "<s>", families.scored(scratch_file, made, equal=1)))
    for kind, cutting, begin, tokenizer in kinds:
        size = max(tokenizer.get_vocab().values()) + 1
        folder, file = folder_of(scratch, tokenizer, size + 2), scratch / "tokenizer.gguf"
        run(binary, "export", "--weights", folder, "--gguf", file, "--type", "BF16")
        keys = {n: f.contents() for n, f in gguf.GGUFReader(file).fields.items()}
        saved = json.loads((folder / "tokenizer.json").read_text())
        vocab = {**saved["model"]["vocab"], **{t["content"]: t["id"] for t in saved["added_tokens"]}}
        tokens = [f"[PAD{i}]" for i in range(size + 2)]
        for text, i in vocab.items():
            tokens[i] = text
        good = keys["tokenizer.ggml.tokens"] == tokens and len(set(tokens)) == size + 2
        that(good, f"{cutting}: {size} tokens and 2 of padding")
        types = keys["tokenizer.ggml.token_type"]
        special = {t["id"] for t in saved["added_tokens"] if t["special"]}
        control = {i for i, t in enumerate(types) if t in (2, 3)}
        that(control == special and types[-2:] == [5, 5], f"{cutting}: {len(control)} special tokens")
        that(keys["tokenizer.ggml.pre"] == cutting, f"{cutting}: its name is {keys['tokenizer.ggml.pre']}")
        that(keys["tokenizer.ggml.add_bos_token"] == (begin is not None), f"{cutting}: a token before the text")
        that(keys["tokenizer.chat_template"] == TEMPLATE, f"{cutting}: chat template")
        if kind != "llama":
            merges = [m if isinstance(m, str) else " ".join(m) for m in saved["model"]["merges"]]
            that(keys["tokenizer.ggml.merges"] == merges, f"{cutting}: {len(merges)} merges")
        that(families.same_ids(binary, scratch, file, Tokenizer.from_file(str(folder / "tokenizer.json")), lines.Lines(5)),
             f"{cutting}: ids of {kind} are those of tokenizers")  # fmt: skip


def adapters(binary, scratch, that):
    settings = {"r": 8, "lora_alpha": 24, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    cases = {
        "gpt2": ("gpt2", settings),
        "qwen3": ("qwen3", {**settings, "use_rslora": True}),
        "llama": ("llama with biases", {**settings, "rank_pattern": {"q_proj": 4}, "alpha_pattern": {"k_proj": 5}}),
    }
    for name, (of, words) in cases.items():
        architecture, family, sizes = MODELS[of]
        config, model = families.random_model(family, sizes)
        base, folder = scratch / f"{name}_base", scratch / f"{name}_adapter"
        model.save_pretrained(base)
        before = dict(families.in_gguf(architecture, config, load_file(base / "model.safetensors")))
        adapted = peft.get_peft_model(model, peft.LoraConfig(**words))
        for part, value in adapted.named_parameters():
            if "lora_B" in part:
                value.data.copy_(0.05 * torch.randn_like(value))
        adapted.save_pretrained(folder)
        merged = adapted.merge_and_unload()
        merged.save_pretrained(scratch / f"{name}_merged")
        file = scratch / f"{name}.adapter.gguf"
        run(binary, "export", "--weights", base, "--adapter", folder, "--gguf", file, "--type", "F32")
        reader = gguf.GGUFReader(file)
        keys = {n: f.contents() for n, f in reader.fields.items()}
        that((keys["general.type"], keys["adapter.type"], keys["adapter.lora.alpha"], keys["general.architecture"])
             == ("adapter", "lora", 8.0, architecture), f"{name}: keys of an adapter")  # fmt: skip
        parts = {t.name: t.data.astype(np.float64) for t in reader.tensors}
        worst, count = 0.0, 0
        saved = load_file(scratch / f"{name}_merged" / "model.safetensors")
        for tensor, after in families.in_gguf(architecture, config, saved):
            want = after.astype(np.float64) - before[tensor].astype(np.float64)
            a, b = parts.pop(tensor + ".lora_a", None), parts.pop(tensor + ".lora_b", None)
            if a is None:
                worst = max(worst, float(np.abs(want).max()))
                continue
            count += 1
            worst = max(worst, float(np.abs(8.0 / a.shape[0] * b @ a - want).max() / np.abs(want).max()))
        good = not parts and count > 0 and worst < 1e-5
        that(good, f"{name}: {count} matrices, {worst:.1e} off PEFT's merged ones {list(parts)[:2]}")


def refused(binary, scratch, that):
    out = scratch / "refused.gguf"

    def fails(code, *arguments):
        result = subprocess.run([binary, "export", "--gguf", out, "--type", "F16", "--json", *map(str, arguments)],
                                capture_output=True, text=True)  # fmt: skip
        said = re.sub(r"\s+", " ", result.stdout + result.stderr)
        that(result.returncode in (2, 5) and code in said and not out.exists(), f"{code}: {said[:160]}")

    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    _, model = families.random_model("Llama", {**SIZES, "rope_parameters": dynamic})
    model.save_pretrained(scratch / "dynamic")
    fails("E-EXPORT-MODEL", "--weights", scratch / "dynamic")
    _, model = families.random_model("Llama", SIZES)
    model.save_pretrained(scratch / "plain")
    for kind, words in (("dora", {"use_dora": True}), ("saved", {"modules_to_save": ["lm_head"]})):
        _, model = families.random_model("Llama", {**SIZES, "tie_word_embeddings": False})
        words = {"r": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **words}
        peft.get_peft_model(model, peft.LoraConfig(**words)).save_pretrained(scratch / kind)
        fails("E-EXPORT-ADAPTER", "--weights", scratch / "plain", "--adapter", scratch / kind)
    source = lines.Lines(1)
    tokenizer = lines.KINDS["neox"]([source.line() for _ in range(300)])
    folder = folder_of(scratch, tokenizer, max(tokenizer.get_vocab().values()) + 1)
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["normalizer"] = {"type": "Lowercase"}
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    fails("E-EXPORT-TOKENIZER", "--weights", folder)
    folder = folder_of(scratch, tokenizer, max(tokenizer.get_vocab().values()) - 3)
    fails("E-EXPORT-TOKENIZER", "--weights", folder)
    tensors = load_file(scratch / "plain" / "model.safetensors")
    tensors["model.embed_tokens.weight"][3, 5] = 1e5
    save_file(tensors, scratch / "plain" / "model.safetensors", metadata={"format": "pt"})
    fails("E-EXPORT-RANGE", "--weights", scratch / "plain")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parts = {part.__name__: part for part in (models, tokenizers, adapters, refused)}
    parser.add_argument("--only", action="append", choices=parts)
    arguments = parser.parse_args()
    scratch, failures = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_export_")), 0

    def that(good, text):
        nonlocal failures
        failures += not good
        print(("ok   " if good else "FAIL ") + text, flush=True)

    for part in arguments.only or parts:
        parts[part](arguments.binary.resolve(), scratch, that)
    print(f"{failures} failures; files in {scratch}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
