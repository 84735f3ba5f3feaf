#!/usr/bin/env python3
"""Adapters against PEFT, run by hand: python3 compare_peft.py path/to/plimsoll

Needs torch, transformers, peft and safetensors. For each case: logits with an adapter that PEFT made, ten updates of SGD, the
adapter that comes out opened by PEFT, and the merged model opened by transformers. Where the base is quantised, bitsandbytes has
done it, Plimsoll keeps its blocks (quantize.base = "file"), and PEFT adapts the model of the numbers that they mean; this needs
bitsandbytes, too.
"""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

LENGTH, UPDATES, BATCH, VOCAB = 32, 10, 4, 211
SIZES = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
GPT2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, **SIZES}
LLAMA = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         **SIZES}  # fmt: skip
CASES = {
    "gpt2": (transformers.GPT2Config, {**GPT2}, {"r": 4, "target_modules": "all-linear"}),
    "gpt2-dora": (transformers.GPT2Config, {**GPT2}, {"r": 3, "use_dora": True, "target_modules": ["c_attn", "mlp.c_proj"]}),
    "gpt2-wide-dora": (transformers.GPT2Config, {**GPT2}, {"r": 80, "use_dora": True, "target_modules": ["attn.c_proj"]}),
    "gpt2-saved": (transformers.GPT2Config, {**GPT2}, {"r": 2, "target_modules": ["c_fc"], "modules_to_save": ["ln_f"]}),
    "llama-patterns": (transformers.LlamaConfig, {**LLAMA, "tie_word_embeddings": False},
                       {"r": 4, "target_modules": "all-linear", "rank_pattern": {"down_proj": 2, "layers.1.self_attn.*": 6},
                        "alpha_pattern": {"q_proj": 20}}),
    "llama-wide": (transformers.LlamaConfig, {**LLAMA, "tie_word_embeddings": False},
                   {"r": 48, "target_modules": ["q_proj", "k_proj"], "rank_pattern": {"k_proj": 96}}),
    "llama-expression": (transformers.LlamaConfig, {**LLAMA, "tie_word_embeddings": False},
                         {"r": 4, "use_rslora": True, "target_modules": r".*\.1\.(mlp|self_attn)\.[gqv].*",
                          "modules_to_save": ["norm", "lm_head", "embed_tokens"]}),
    "qwen3-dora": (transformers.Qwen3Config, {**LLAMA, "head_dim": 16, "tie_word_embeddings": True},
                   {"r": 4, "use_dora": True, "target_modules": "all-linear", "exclude_modules": ["layers.0.mlp.up_proj"]}),
    "llama-nf4": (transformers.LlamaConfig, {**LLAMA, "tie_word_embeddings": False}, {"r": 4, "target_modules": "all-linear"}),
    "llama-dora-nf4": (transformers.LlamaConfig, {**LLAMA, "hidden_size": 200, "head_dim": 50, "tie_word_embeddings": True},
                       {"r": 3, "use_dora": True, "target_modules": "all-linear"}),
    "qwen2-dora-nf4-plain": (transformers.Qwen2Config, {**LLAMA, "tie_word_embeddings": False},
                             {"r": 4, "use_dora": True, "target_modules": "all-linear"}),
    "qwen2-dora-int8": (transformers.Qwen2Config, {**LLAMA, "tie_word_embeddings": True},
                        {"r": 4, "use_dora": True, "target_modules": ["q_proj", "v_proj", "down_proj"]}),
}  # fmt: skip
QUANTIZATION = {
    "-nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
    "-nf4-plain": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "-int8": {"load_in_8bit": True},
}


def off(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


def run(binary, *arguments):
    process = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} exits {process.returncode}: {(process.stdout + process.stderr)[-600:]}")


def opened(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").float()


def quantise(folder, settings):
    """Replaces folder/base by one of bitsandbytes; returns the numbers that it means."""
    import bitsandbytes.functional as bnb

    config = transformers.BitsAndBytesConfig(**settings)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "base", quantization_config=config, device_map="cpu",
                                                              dtype=torch.float32)  # fmt: skip
    shutil.rmtree(folder / "base")
    model.save_pretrained(folder / "base")
    tensors, means = load_file(folder / "base" / "model.safetensors"), {}
    for name, value in tensors.items():
        if not name.endswith((".weight", ".bias")):
            continue
        if value.dtype == torch.int8:
            value = value.float() * tensors[name.removesuffix("weight") + "SCB"][:, None] / 127
        elif value.dtype == torch.uint8:
            parts = {key: part for key, part in tensors.items() if key.startswith(name + ".")}
            state = bnb.QuantState.from_dict(parts, device=torch.device("cpu"))
            # By hand: on a CPU dequantize_4bit is wrong where rows are no whole number of blocks (bitsandbytes 0.50, rows of 96).
            scales = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
            codes = torch.stack([value.flatten() >> 4, value.flatten() & 15], 1).flatten().long()[: state.shape.numel()]
            value = (state.code[codes] * scales.repeat_interleave(64)[: codes.numel()]).reshape(state.shape)
        means[name] = value.float()
    return means


def case(binary, name, folder):
    kind, sizes, settings = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    model = transformers.AutoModelForCausalLM.from_config(kind(vocab_size=VOCAB, **sizes), attn_implementation="eager").float()
    for p in model.parameters():
        p.data.mul_(3 if p.dim() > 1 else 1).add_(0.1 * torch.randn_like(p) if p.dim() == 1 else 0)
    model.save_pretrained(folder / "base")
    model = opened(folder / "base")
    quantised = next((settings for ending, settings in QUANTIZATION.items() if name.endswith(ending)), None)
    if quantised:
        model.load_state_dict(quantise(folder, quantised), strict=False)
    before, stored = copy.deepcopy(model), ("--set", "quantize.base=file") if quantised else ()
    with_adapter = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", lora_alpha=8, lora_dropout=0.0, **settings))
    for key, p in with_adapter.named_parameters():
        if "lora_B" in key:
            p.data.copy_(0.05 * torch.randn_like(p))
    with_adapter.save_pretrained(folder / "start")
    ids = torch.randint(0, VOCAB, (2, LENGTH))
    rows = torch.randint(0, VOCAB, (UPDATES * BATCH * LENGTH + 1,))
    (folder / "t.bin").write_bytes(rows.numpy().astype(np.uint16).tobytes())
    with_adapter.eval()
    with torch.no_grad():
        first = with_adapter(ids).logits
    trained = [p for p in with_adapter.parameters() if p.requires_grad]
    sgd, losses = torch.optim.SGD(trained, lr=0.05), []
    for update in range(UPDATES):
        windows = torch.stack([rows[i * LENGTH : i * LENGTH + LENGTH + 1] for i in range(update * BATCH, (update + 1) * BATCH)])
        logits = with_adapter(windows[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(float(loss))
    with torch.no_grad():
        last = with_adapter(ids).logits

    save_file({"input_ids": ids.to(torch.int32)}, folder / "ids.safetensors")
    forward = ("forward", "--inputs", folder / "ids.safetensors", "--out", folder / "o.safetensors", "--memory", "1GiB", *stored)
    run(binary, *forward, "--adapter", folder / "start")
    result = {"first": off(load_file(folder / "o.safetensors")["logits"], first), "moved": off(last, first)}
    (folder / "c.toml").write_text(
        f'[model]\ninit = "{folder}/base"\ncontext = {LENGTH}\n[adapter]\ninit = "{folder}/start"\n'
        f'[data]\ntrain = "{folder}/t.bin"\n'
        f'format = "u16"\norder = "sequential"\n[train]\neffective_batch = {BATCH}\nmicro_batch = 2\nupdates = {UPDATES}\n'
        'gradient_clip = 0.0\n[optimizer]\nname = "sgd"\nlearning_rate = 0.05\nweight_decay = 0.0\n'
    )
    run(binary, "train", folder / "c.toml", "--memory", "1GiB", "--run", folder / "run", *stored)
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    pairs = zip(lines, losses, strict=True)
    result["loss"] = max(abs(line["loss"] - loss) / loss / u for u, (line, loss) in enumerate(pairs, 1))
    run(binary, *forward, "--adapter", folder / "run")
    result["last"] = off(load_file(folder / "o.safetensors")["logits"], last)
    with torch.no_grad():
        saved = peft.PeftModel.from_pretrained(before, folder / "run" / "weights")
        result["saved"] = off(saved(ids).logits, last)
        run(binary, "merge", "--adapter", folder / "run", "--out", folder / "merged", "--type", "fp32")
        result["merged"] = off(opened(folder / "merged")(ids).logits, last)
        run(binary, "merge", "--adapter", folder / "run", "--out", folder / "narrow", "--type", "bf16")
        result["narrow"] = off(opened(folder / "narrow")(ids).logits, last)
    return result


def main():
    binary, worst = str(pathlib.Path(sys.argv[1]).resolve()), 0
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            result = case(binary, name, pathlib.Path(folder))
        print(name, " ".join(f"{key} {value:.1e}" for key, value in result.items()), flush=True)
        limits = {"first": 2e-5, "loss": 1e-5, "last": 1e-4, "saved": 1e-4, "merged": 1e-4, "narrow": 3e-2}
        worst = max(worst, *(result[key] / limit for key, limit in limits.items()))
    raise SystemExit(worst > 1)


if __name__ == "__main__":
    main()
