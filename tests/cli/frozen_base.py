#!/usr/bin/env python3
"""Linear layers stored in bf16, int8 and nf4: python3 frozen_base.py path/to/plimsoll

Evaluation, generation and forward passes over each format keep every byte of their plan, take less memory, and give the same
numbers with a disk. Folders in the layout of bitsandbytes are read directly. Impossible combinations are refused.
"""

import json
import math
import os
import shutil
import struct

from _plimsoll import Test

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]  # fmt: skip
SIZES = {"kind": "llama", "layers": 3, "width": 48, "heads": 4, "kv_heads": 2, "mlp_width": 100, "context": 32, "vocab": 256}
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def read_tensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {
        name: (each["dtype"], each["shape"], data[begin + each["data_offsets"][0] : begin + each["data_offsets"][1]])
        for name, each in header.items()
    }


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def as_nf4(name, shape, numbers):
    """nf4 in the layout of bitsandbytes, without nested scales."""
    bounds = [(a + b) / 2 for a, b in zip(NF4, NF4[1:])]
    codes, scales = [], []
    for begin in range(0, len(numbers), 64):
        block = numbers[begin : begin + 64]
        absmax = max(abs(x) for x in block)
        scales.append(absmax)
        codes += [sum(x / absmax > bound for bound in bounds) for x in block]
    packed = bytes(high << 4 | low for high, low in zip(codes[::2], codes[1::2]))
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": shape}).encode()
    return {
        name: ("U8", [len(packed), 1], packed),
        f"{name}.absmax": ("F32", [len(scales)], struct.pack(f"<{len(scales)}f", *scales)),
        f"{name}.quant_map": ("F32", [16], struct.pack("<16f", *NF4)),
        f"{name}.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state),
    }


def as_int8(name, shape, numbers):
    columns = shape[1]
    rows = [numbers[i : i + columns] for i in range(0, len(numbers), columns)]
    scales = [max(abs(x) for x in row) for row in rows]
    # In fp32, as it is stored.
    codes = [round(f32(x * f32(127 / scale))) for row, scale in zip(rows, scales) for x in row]
    stem = name.removesuffix("weight")
    return {
        name: ("I8", shape, struct.pack(f"<{len(codes)}b", *codes)),
        f"{stem}SCB": ("F32", [len(scales)], struct.pack(f"<{len(scales)}f", *scales)),
        f"{stem}weight_format": ("U8", [], b"\0"),
    }


def quantised(test, folder, encode, config):
    """A copy of the weights in the layout of bitsandbytes."""
    target = test.path(folder)
    shutil.copytree(test.path("run/weights"), target)
    tensors = {}
    for name, (dtype, shape, data) in read_tensors(target / "model.safetensors").items():
        if any(f"{linear}.weight" in name for linear in LINEAR):
            tensors.update(encode(name, shape, struct.unpack(f"<{len(data) // 4}f", data)))
        else:
            tensors[name] = (dtype, shape, data)
    write_tensors(target / "model.safetensors", tensors)
    file = target / "config.json"
    quantization = {"quant_method": "bitsandbytes", **config}
    file.write_text(json.dumps({**json.loads(file.read_text()), "quantization_config": quantization}))
    return target


def evaluated(test, weights, base, *more):
    result = test.succeeds("eval", "config.toml", "--weights", weights, "--set", f"quantize.base={base}", "--json", *more)
    return result or {"loss": math.nan, "loss_bits": "", "predicted": {"arena_bytes": 0, "process_bytes": 0}}


def formats(test):
    os.environ["PLIMSOLL_MAX_ISA"] = "avx2"  # by which the size of what is decoded at a time is known
    plain = evaluated(test, "run", "none")
    matrices = 3 * (48 * 48 * 2 + 48 * 24 * 2 + 3 * 48 * 100)
    decoded = 2 * 48 * 256 * 4  # what two threads decode at a time
    for base, bytes_less in {"bf16": 2, "int8": 2.8, "nf4": 3.4}.items():
        result = evaluated(test, "run", base, "--audit")
        less = plain["predicted"]["arena_bytes"] - result["predicted"]["arena_bytes"]
        test.that(less >= bytes_less * matrices - decoded, f"{base} takes {less} bytes less for {matrices} elements")
        test.that(abs(result["loss"] - plain["loss"]) < 0.02, f"{base}: loss {result['loss']}, {plain['loss']} in fp32")
        test.that(result["loss_bits"] != plain["loss_bits"], f"{base} is not fp32")
        disk = ["--memory", result["predicted"]["process_bytes"] - 4096, "--disk", f"{test.path('disk')}:64MiB"]
        paged = evaluated(test, "run", base, *disk)
        test.equal(f"loss of {base} with a disk", paged["loss_bits"], result["loss_bits"])
    words = ("--prompt", "abc", "--tokens", 20, "--set", "quantize.base=nf4", "--audit")
    text = test.succeeds("generate", "--weights", "run", *words)
    test.that(text is not None and text.startswith("abc"), "generate takes a base")
    del os.environ["PLIMSOLL_MAX_ISA"]


def folders(test):
    plain = evaluated(test, "run", "none")["loss"]
    keys = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False}
    nf4 = quantised(test, "nf4", as_nf4, keys)
    int8 = quantised(test, "int8", as_int8, {"load_in_8bit": True})
    made, stored = (evaluated(test, folder, "int8")["loss_bits"] for folder in ("run", int8))
    test.equal("int8 made while loading", made, stored)
    for folder, base in ((nf4, "nf4"), (int8, "int8")):
        stored, widened = evaluated(test, folder, base, "--audit")["loss"], evaluated(test, folder, "none")["loss"]
        test.that(abs(stored - widened) < 1e-5, f"{base}: {stored} as it is stored, {widened} as fp32")
        test.that(abs(stored - plain) < 0.02, f"{base}: {stored}, {plain} before")
    # Trained weights are saved as numbers.
    report = test.succeeds("train", "config.toml", "--set", f"model.init={nf4}", "--updates", 1, "--run", "from-nf4", "--json")
    if report is not None:
        config = json.loads(test.path("from-nf4/weights/config.json").read_text())
        test.that("quantization_config" not in config, "saved weights are not quantised")
        evaluated(test, "from-nf4", "none")


def broken(test):
    nf4 = quantised(test, "broken", as_nf4, {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"})
    file = nf4 / "model.safetensors"
    tensors = read_tensors(file)
    name = "model.layers.1.mlp.up_proj.weight"
    state = f"{name}.quant_state.bitsandbytes__nf4"
    changes = {
        "no scales": {f"{name}.absmax": None},
        "few scales": {f"{name}.absmax": ("F32", [1], struct.pack("<f", 1))},
        "another map": {f"{name}.quant_map": ("F32", [16], struct.pack("<16f", *NF4[::-1]))},
        "no state": {state: ("U8", [3], b"{}}")},
        "another format": {state: ("U8", [21], b'{"quant_type": "fp4"}')},
        "another shape": {
            state: ("U8", [73], b'{"quant_type": "nf4", "blocksize": 64, "dtype": "x", "shape": [10, 480]}' + b" ")
        },
    }
    for what, change in changes.items():
        write_tensors(file, {key: value for key, value in {**tensors, **change}.items() if value is not None})
        result = test.run("eval", "config.toml", "--weights", nf4)
        test.equal(f"exit code of {what}", result.code, 5)
        code = "E-FORMAT-WEIGHTS" if what == "another shape" else "E-FORMAT-QUANT"
        test.that(code in result.text()[1], f"{what}: {result.text()[1]}")
    config = nf4 / "config.json"
    config.write_text(config.read_text().replace('"nf4"', '"fp4"'))
    result = test.run("eval", "config.toml", "--weights", nf4)
    test.that("E-FORMAT-CONFIG" in result.text()[1], f"fp4 is refused: {result.text()[1]}")


def refusals(test):
    cases = (
        (["train", "config.toml", "--set", "quantize.base=nf4", "--run", "none"], 2, "E-CONFIG-CONFLICT"),
        (["plan", "config.toml", "--set", "quantize.base=int8"], 2, "E-CONFIG-CONFLICT"),
        (["generate", "--weights", "run", "--prompt", "a", "--set", "train.updates=3"], 2, "E-USAGE"),
        (["generate", "--weights", "run", "--prompt", "a", "--set", "quantize.base=nf5"], 2, "E-CONFIG-VALUE"),
        (["eval", "config.toml", "--weights", "run", "--set", "quantize.base=4"], 2, "E-CONFIG"),
    )
    for command, code, name in cases:
        result = test.run(*command)
        test.equal(f"exit code of {' '.join(command)}", result.code, code)
        test.that(name in result.text()[1], f"{' '.join(command)}: {result.text()[1]}")


def main():
    test = Test("frozen_base")
    config = test.path("config.toml")
    text = config.read_text()
    sizes = "".join(f"{key} = {json.dumps(value)}\n" for key, value in SIZES.items())
    config.write_text("seed = 3\n[model]\n" + sizes + text[text.index("[data]") :])
    test.succeeds("train", "config.toml", "--updates", 3, "--run", "run", "--json")
    config.write_text(config.read_text().replace("64MiB", "128MiB"))
    test.run_parts(formats, folders, broken, refusals)
    test.finish()


if __name__ == "__main__":
    main()
