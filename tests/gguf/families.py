#!/usr/bin/env python3
"""Compares small models and tokenizers of all families, written as GGUF files, with transformers and tokenizers.

    python3 tests/gguf/families.py BINARY

Needs gguf, numpy, safetensors, tokenizers, torch and transformers, so it is no part of the test suite. Models with random numbers
are saved as a folder and as a GGUF file with tensors as llama.cpp keeps them: logits of both have equal bits, and are those of
transformers. Vocabularies are trained as tests/tokenizers/compare.py does; ids of generated lines are those of tokenizers.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file
from tokenizers import AddedToken, Tokenizer, models, normalizers, processors
from transformers.tokenization_utils_base import generate_merges

DECODER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
GPT2 = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}  # fmt: skip
GLOBAL = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "model.embed_tokens": "token_embd",
    "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
    "vocab_size": 100, "max_position_embeddings": 128,
}  # fmt: skip
ROPES = {
    "llama3": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
}  # fmt: skip
MODELS = {
    "gpt2": ("gpt2", "GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}),
    "qwen2": ("qwen2", "Qwen2", {**SIZES, "tie_word_embeddings": False}),
    "qwen3": ("qwen3", "Qwen3", {**SIZES, "head_dim": 32, "tie_word_embeddings": True}),
    "llama with biases": ("llama", "Llama", {**SIZES, "attention_bias": True, "mlp_bias": True}),
    "llama3 angles": ("llama", "Llama", {**SIZES, "head_dim": 32, "rope_parameters": ROPES["llama3"]}),
    "yarn angles": ("qwen2", "Qwen2", {**SIZES, "rope_parameters": ROPES["yarn"]}),
    "linear angles": ("llama", "Llama", {**SIZES, "rope_parameters": ROPES["linear"]}),
}
# A kind of tests/tokenizers/compare.py, its name in a GGUF file, the token before a text.
CUTTINGS = [
    ("gpt2", "gpt-2", None), ("neox", "olmo", None), ("llama3", "llama-bpe", "<|begin_of_text|>"), ("qwen2", "qwen2", None),
    ("smollm2", "smollm", None), ("tekken", "tekken", "<s>"), ("o200k", "gpt-4o", None),
]  # fmt: skip


def divisors(size, rope):
    """The divisors of the angles of Llama 3."""
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    for pair in range(size // 2):
        turns = original / (2 * math.pi * rope["rope_theta"] ** (2 * pair / size))
        smooth = min(max((turns - low) / (high - low), 0), 1)
        yield 1 / ((1 - smooth) / rope["factor"] + smooth)


def write_keys(writer, architecture, config, sizes):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    rope, size = sizes.get("rope_parameters", {}), sizes.get("head_dim", config.hidden_size // config.num_attention_heads)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope.get("rope_theta", 10000.0))
    writer.add_key_length(size)
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", np.array(list(divisors(size, rope)), np.float32))
    elif rope:
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
        if "original_max_position_embeddings" in rope:
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def in_gguf(architecture, config, tensors):
    """Names and tensors as llama.cpp keeps them."""
    for name, tensor in tensors.items():
        stem, ending = re.sub(r"^transformer\.", "", name).rsplit(".", 1)
        block = re.match(r"(?:model\.layers|h)\.(\d+)\.(.*)", stem)
        part = (GPT2 if architecture == "gpt2" else DECODER)[block[2]] if block else GLOBAL[stem]
        if architecture == "gpt2" and block and tensor.ndim == 2:
            tensor = tensor.T
        if architecture == "llama" and part in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
            tensor = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(tensor.shape)
        yield f"blk.{block[1]}.{part}.{ending}" if block else f"{part}.{ending}", np.ascontiguousarray(tensor)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_model(family, sizes):
    torch.manual_seed(0)
    config = getattr(transformers, family + "Config")(**sizes)
    model = getattr(transformers, "GPT2LMHeadModel" if family == "GPT2" else family + "ForCausalLM")(config).eval()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return config, model


def compare_model(binary, scratch, name, architecture, family, sizes):
    config, model = random_model(family, sizes)
    folder, file = scratch / name.replace(" ", "_"), scratch / (name.replace(" ", "_") + ".gguf")
    model.save_pretrained(folder)
    writer = gguf.GGUFWriter(str(file), architecture)
    write_keys(writer, architecture, config, sizes)
    for tensor in in_gguf(architecture, config, load_file(folder / "model.safetensors")):
        writer.add_tensor(*tensor)
    write(writer)
    ids = np.random.default_rng(0).integers(0, config.vocab_size, (1, 40)).astype(np.int64)
    save_file({"input_ids": ids}, scratch / "inputs")
    logits = []
    for weights in (file, folder):
        out = scratch / "logits"
        command = [binary, "forward", "--weights", weights, "--inputs", scratch / "inputs", "--out", out, "--memory", "1GiB"]
        subprocess.run(command, check=True, capture_output=True)
        logits.append(load_file(out)["logits"])
    with torch.no_grad():
        want = model(torch.tensor(ids)).logits.numpy()
    distance = np.linalg.norm(logits[0] - want) / np.linalg.norm(want)
    return logits[0].tobytes() == logits[1].tobytes() and distance < 3e-6, f"{name}: relative L2 {distance:.1e}"


def write_vocabulary(file, tokens, types, kind):
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    return writer


def byte_level(file, tokenizer, cutting, begin):
    vocab, added = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    size = max([*vocab.values(), *(token["id"] for token in added)]) + 1
    tokens, types = [f"[PAD{i}]" for i in range(size)], [5] * size
    for text, i in vocab.items():
        tokens[i], types[i] = text, 1
    for token in added:
        tokens[token["id"]], types[token["id"]] = token["content"], 3 if token["special"] else 4
    writer = write_vocabulary(file, tokens, types, "gpt2")
    writer.add_tokenizer_pre(cutting)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_add_bos_token(begin is not None)
    if begin:
        writer.add_bos_token_id(tokens.index(begin))
    write(writer)


def scored(file, tokenizer, equal=3):
    """Writes a vocabulary with scores, `equal` tokens of each; returns what transformers makes of it."""
    # A byte that is written as a text comes of no merge in SentencePiece, of one in transformers.
    vocab = [text for text in sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get) if "0x41>" not in text[1:]]
    special = ("<unk>", "<s>", "</s>")
    types = [2 if t == "<unk>" else 3 if t in special else 6 if re.fullmatch("<0x..>", t) else 1 for t in vocab]
    scores = [float(-(i // equal)) if kind == 1 else 0.0 for i, kind in enumerate(types)]
    writer = write_vocabulary(file, vocab, types, "llama")
    writer.add_token_scores(scores)
    writer.add_bos_token_id(vocab.index("<s>"))
    writer.add_unk_token_id(vocab.index("<unk>"))
    write(writer)
    ids = {text: i for i, text in enumerate(vocab)}
    merges = generate_merges(ids, dict(zip(vocab, scores)))
    result = Tokenizer(models.BPE(vocab=ids, merges=merges, fuse_unk=True, byte_fallback=True, unk_token="<unk>"))
    result.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    result.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    result.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", ids["<s>"])])
    return result


def same_ids(binary, scratch, file, tokenizer, lines):
    different = 0
    for _ in range(10):
        text = "\n".join(lines.line() for _ in range(300))
        (scratch / "text").write_bytes(text.encode())
        command = [binary, "tokenize", "--tokenizer", file, "--file", scratch / "text", "--json"]
        out = subprocess.run(command, check=True, capture_output=True).stdout
        different += json.loads(out)["ids"] != tokenizer.encode(text).ids
    return different == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    binary = parser.parse_args().binary.resolve()
    scratch, failures = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_gguf_")), 0

    def that(good, text):
        nonlocal failures
        failures += not good
        print(("ok   " if good else "FAIL ") + text, flush=True)

    for name, (architecture, family, sizes) in MODELS.items():
        that(*compare_model(binary, scratch, name, architecture, family, sizes))
    path = pathlib.Path(__file__).resolve().parent.parent / "tokenizers" / "compare.py"
    spec = importlib.util.spec_from_file_location("lines", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    source = made.Lines(1)
    corpus = [source.line() for _ in range(3000)]
    file, saved = scratch / "tokenizer.gguf", scratch / "tokenizer.json"
    for kind, cutting, begin in CUTTINGS:
        made.KINDS[kind](corpus).save(str(saved))
        byte_level(file, json.loads(saved.read_text()), cutting, begin)
        that(same_ids(binary, scratch, file, Tokenizer.from_file(str(saved)), made.Lines(5)), f"ids of {cutting}")
    made.KINDS["llama-legacy"](corpus).save(str(saved))
    tokenizer = scored(file, json.loads(saved.read_text()))
    that(same_ids(binary, scratch, file, tokenizer, made.Lines(5)), "ids of a vocabulary with scores")
    print(f"{failures} failures; files in {scratch}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
