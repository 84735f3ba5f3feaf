#!/usr/bin/env python3
"""Compares frozen bases with bitsandbytes and transformers, by hand: needs torch, transformers and bitsandbytes.

compare.py PLIMSOLL. A small Llama is saved in bf16, and once more as bitsandbytes quantises it (nf4 with nested scales, nf4
without, int8). Logits of `plimsoll forward` are compared:
- of the bf16 folder with quantize.base and of the folder of bitsandbytes: both hold the same codes and scales in memory;
- with those of transformers over the dequantised weights.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

PLIMSOLL = sys.argv[1]
KINDS = {
    "nf4": ("nf4", BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                      bnb_4bit_compute_dtype=torch.float32)),
    "nf4 without nested scales": ("nf4", BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                                            bnb_4bit_compute_dtype=torch.float32)),
    "int8": ("int8", BitsAndBytesConfig(load_in_8bit=True)),
}
failures = []


def check(name, ok, detail=""):
    print(f"{'ok  ' if ok else 'FAIL'} {name} {detail}")
    if not ok:
        failures.append(name)


def logits(folder, scratch, *sets):
    out = scratch / "out.safetensors"
    command = [PLIMSOLL, "forward", "--weights", folder, "--inputs", scratch / "inputs.safetensors", "--out", out]
    for each in sets:
        command += ["--set", each]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return load_file(out)["logits"]


def difference(a, b):
    return ((a - b).norm() / b.norm()).item()


def dequantised(name, tensors):
    """The fp32 numbers that the tensors of one matrix mean."""
    weight = tensors[name]
    if weight.dtype == torch.int8:
        return weight.float() * tensors[name.removesuffix("weight") + "SCB"][:, None] / 127
    state = bnb.QuantState.from_dict({key: value for key, value in tensors.items() if key.startswith(name + ".")},
                                     device=torch.device("cpu"))
    state.dtype = torch.float32
    return bnb.dequantize_4bit(weight, state)


def main(scratch):
    torch.manual_seed(3)
    # Rows of 200: blocks of 64 straddle them.
    config = LlamaConfig(hidden_size=200, intermediate_size=328, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2,
                         head_dim=50, vocab_size=300, max_position_embeddings=64, tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(scratch / "bf16")
    ids = torch.randint(0, 300, (2, 40))
    save_file({"input_ids": ids}, scratch / "inputs.safetensors")
    for kind, (base, quantization) in KINDS.items():
        folder = scratch / kind.replace(" ", "-")
        model = AutoModelForCausalLM.from_pretrained(scratch / "bf16", quantization_config=quantization, dtype=torch.bfloat16,
                                                     device_map="cpu")
        model.save_pretrained(folder)
        tensors = load_file(folder / "model.safetensors")
        plain = {name: dequantised(name, tensors) if value.dtype in (torch.uint8, torch.int8) else value.float()
                 for name, value in tensors.items()
                 if name.endswith("weight") and "absmax" not in name}
        reference = LlamaForCausalLM(config).float()
        reference.load_state_dict(plain)
        with torch.no_grad():
            expected = reference(ids).logits
        stored = logits(folder, scratch, f"quantize.base={base}")
        check(f"{kind}: logits of the folder", difference(stored, expected) < 1e-5, f"{difference(stored, expected):.1e}")
        widened = logits(folder, scratch)
        check(f"{kind}: as fp32", difference(widened, expected) < 1e-5, f"{difference(widened, expected):.1e}")
        made = logits(scratch / "bf16", scratch, f"quantize.base={base}")
        if kind == "nf4":  # the offset is a mean, whose order of additions is bitsandbytes' own
            check(f"{kind}: made while loading", difference(made, stored) < 1e-6, f"{difference(made, stored):.1e}")
        elif base == "int8":  # transformers rounds the weights to fp16 first
            exact = folder.with_name("int8-exact")
            shutil.copytree(folder, exact)
            for name, value in load_file(scratch / "bf16" / "model.safetensors").items():
                if name in tensors and tensors[name].dtype == torch.int8:
                    tensors[name], tensors[name.removesuffix("weight") + "SCB"], _ = bnb.int8_vectorwise_quant(value.float())
            save_file(tensors, exact / "model.safetensors")
            check(f"{kind}: made while loading, the same bits", torch.equal(made, logits(exact, scratch, "quantize.base=int8")))
        print(f"     {kind}: {difference(made, logits(scratch / 'bf16', scratch)):.1e} from bf16")
    print(json.dumps({"failures": failures}))
    return 1 if failures else 0


with tempfile.TemporaryDirectory() as folder:
    sys.exit(main(Path(folder)))
