#!/usr/bin/env python3
"""Adapters over quantised bases, through the commands: python3 quantised_adapters.py path/to/plimsoll

LoRA and DoRA over the blocks of a GGUF file, NF4, int8 and bf16 have equal bits at up to four budgets with and without a disk,
with bytes as planned. Commands that take an adapter compute the same as the training. A merge decodes the base. A run without an
adapter saves numbers.
"""

import json
import shutil
import struct

from _plimsoll import Test, prose
from adapters import header_of, logits, off, write_tensors
from frozen_base import as_int8, as_nf4, quantised, read_tensors
from gguf import F32, gguf, model

TRAIN = ["--set", "train.updates=3", "--set", "train.effective_batch=4", "--set", "train.micro_batch=2", "--set",
         "optimizer.learning_rate=1e-2", "--set", "schedule.name=constant", "--set", "schedule.warmup=0"]  # fmt: skip
SIZES = 'kind = "llama"\nlayers = 3\nwidth = 48\nheads = 4\nkv_heads = 2\nmlp_width = 100\ncontext = 32\nvocab = 256\n'
KINDS = {  # the base, the adapter, how the base is stored, how many budgets
    "lora-bf16": ("folder", "lora", "bf16", 4),
    "lora-nf4": ("folder", "lora", "nf4", 4),
    "dora-nf4": ("folder", "dora", "nf4", 4),
    "dora-int8": ("folder", "dora", "int8", 2),
    "dora-bf16": ("folder", "dora", "bf16", 2),
    "lora-file": ("gguf", "lora", "file", 4),
    "dora-file": ("gguf", "dora", "file", 2),
}


def inputs(test):
    """Bases with random weights, a configuration over each, and token ids."""
    rest = test.path("config.toml").read_text()
    rest = rest[rest.index("[data]") :].replace("64MiB", "128MiB").replace("threads = 2", "threads = 1")
    test.write("config.toml", "seed = 3\n[model]\n" + SIZES + rest)
    test.succeeds("train", "config.toml", "--updates", 1, "--run", "run", "--json")
    test.write("folder.toml", f'seed = 5\n[model]\ninit = "run/weights"\ncontext = 32\n{rest}')
    test.write("model.gguf", gguf(model()))
    test.write("words.txt", prose(1, 4000).replace("ab", "abcd"))
    data = rest.replace("train.txt", "words.txt").replace('"bytes"', '"bpe"').replace("validation.txt", "words.txt")
    test.write("gguf.toml", f'seed = 5\n[model]\ninit = "model.gguf"\ncontext = 32\n{data}')
    ids = [(7 * i * i + 3 * i) % 250 for i in range(40)]
    write_tensors(test.path("ids.safetensors"), {"input_ids": {"dtype": "I32", "shape": [2, 20], "data_offsets": [0, 160]}},
                  struct.pack("<40i", *ids))  # fmt: skip


def settings(kind, base, *more):
    return [*TRAIN, "--set", f"adapter.kind={kind}", "--set", "adapter.rank=3", "--set", f"quantize.base={base}", *more]


def exact(test, what, report):
    test.equal(f"method of {what}", report["measured"]["method"], "audit")
    planned = {phase["name"]: phase for phase in report["predicted"]["phases"]} if "phases" in report["predicted"] else {}
    for key in ("arena_bytes", "live_bytes"):
        test.equal(f"{key} of {what}", report["measured"][key], report["predicted"][key])
        for phase in report["measured"]["phases"]:
            if phase["name"] in planned:
                test.equal(f"{key} of {phase['name']} of {what}", phase[key], planned[phase["name"]][key])


def budgets(test):
    for name, (source, kind, base, count) in KINDS.items():
        options = settings(kind, base)
        results = set()
        for disk in (False, True):
            place = ["--disk", f"{test.path('disk')}:64MiB"] if disk else []
            forced = ["--set", "plan.parameters=disk"] if disk else []
            plan = test.succeeds("plan", f"{source}.toml", *options, *place, *forced, "--json")
            floor, most = plan["bounds"]["floor_bytes"], plan["predicted"]["process_bytes"]
            for i in range(count):
                memory = floor + (most - floor) * i // (count - 1)
                what = f"{name}{'-disk' if disk else ''}-{i}"
                report = test.succeeds("train", f"{source}.toml", *options, *place, *forced, "--memory", memory, "--run", what,
                                       "--audit", "--json")  # fmt: skip
                if report is None:
                    continue
                exact(test, what, report)
                results.add((report["final"]["loss_bits"], report["final"]["parameters_xxh128"]))
                shutil.rmtree(test.path(what))
            memory = ("--memory", floor - 4096)
            under = test.run("train", f"{source}.toml", *options, *place, *forced, *memory, "--run", "under", "--json")
            refused = (under.code, (under.json() or {}).get("infeasible", {}).get("code"))
            test.equal(f"what {name} says a page below the floor", refused, (3, "E-PLAN-FIT"))
        test.equal(f"results of {name}", len(results), 1)


def kept_blocks(test):
    shown = test.succeeds("plan", "gguf.toml", *settings("lora", "file"), "--values", "--json")
    parameters = {value["name"]: value for value in shown["values"] if value["role"] == "parameters"}
    for (name, _), matrix in model().items():
        stored = ("f32", matrix.shape) if matrix.kind == F32 else ("u8", [sum(map(len, matrix.stored))])
        test.equal(f"type of {name}", (parameters[name]["dtype"], parameters[name]["shape"]), stored)
    runs = {base: test.succeeds("train", "gguf.toml", *settings("lora", base), "--run", f"kept-{base}", "--json")
            for base in ("none", "file")}  # fmt: skip
    for ours, theirs in zip(test.lines("kept-file"), test.lines("kept-none"), strict=True):
        test.near("loss over blocks", ours["loss"], theirs["loss"], 1e-6)
    less = runs["none"]["predicted"]["arena_bytes"] - runs["file"]["predicted"]["arena_bytes"]
    blocks = sum(len(m.floats) * len(m.floats[0]) - len(m.stored) * len(m.stored[0]) for m in model().values() if m.kind != F32)
    test.that(less > 0.5 * blocks, f"{less} bytes less, of {blocks}")  # the scratch of products is more
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "config.toml", *settings("lora", "file"))  # random numbers
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "folder.toml", *settings("lora", "file"))  # all of it is fp32
    test.fails(2, "E-CONFIG-CONFLICT", "plan", "gguf.toml", *TRAIN, "--set", "quantize.base=file")  # nothing is frozen


def commands(test):
    """Commands with the base that the adapter names, and with a moved base."""
    for kind in ("lora", "dora"):
        for source, base in (("gguf", "file"), ("folder", "nf4"), ("folder", "int8"), ("folder", "bf16")):
            run = f"{kind}-{source}-{base}"
            report = test.succeeds("train", f"{source}.toml", *settings(kind, base), "--run", run, "--json")
            if report is None:
                continue
            stored = ("--set", f"quantize.base={base}")
            adapted = logits(test, "--adapter", run, *stored)
            before = test.path("model.gguf" if source == "gguf" else "run/weights")
            moved = test.path(f"moved-{before.name}")
            if not moved.exists():
                (shutil.copytree if before.is_dir() else shutil.copy)(before, moved)
            test.that(logits(test, "--weights", moved, "--adapter", run, *stored) == adapted, f"{run}: a base that has moved")
            test.that(off(adapted, logits(test, "--weights", before, *stored)) > 1e-4, f"{run}: the adapter does something")
            plain = off(logits(test, "--adapter", run), adapted)
            test.that(plain < (1e-5 if base == "file" else 0.5), f"{run}: {plain} off over the numbers of the base")
            ended = test.succeeds("train", "--run", run, "--resume", "--updates", 4, "--json")
            ours = test.succeeds("eval", f"{source}.toml", "--weights", before, "--adapter", run, *stored, "--json", "--audit")
            test.that(ended and ours and ours["loss"] > 0, f"{run}: evaluated")
            said = test.succeeds("generate", "--adapter", run, "--prompt", "abcd", "--tokens", 5, *stored, "--memory", "1GiB")
            test.that(said is not None and said.startswith("abcd"), f"{run}: generates")


def sharded(test):
    """run/weights in two files, of 16 bits or 32."""
    tensors = read_tensors(test.path("run/weights/model.safetensors"))
    for dtype in ("F32", "BF16", "F16"):
        folder = test.path(f"sharded-{dtype}")
        shutil.copytree(test.path("run/weights"), folder)
        (folder / "model.safetensors").unlink()
        places = {}
        for i in (0, 1):
            name = f"model-0000{i + 1}-of-00002.safetensors"
            part = dict(list(sorted(tensors.items()))[i::2])
            write_shard(folder / name, part, dtype)
            places.update(dict.fromkeys(part, name))
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
        yield dtype, folder


def write_shard(path, tensors, dtype):
    converted = {}
    for name, (_, shape, data) in tensors.items():
        numbers = struct.unpack(f"<{len(data) // 4}f", data)
        if dtype == "F16":
            data = struct.pack(f"<{len(numbers)}e", *numbers)
        elif dtype == "BF16":
            data = b"".join(data[4 * i + 2 : 4 * i + 4] for i in range(len(numbers)))
        converted[name] = (dtype, shape, data)
    header, offset = {}, 0
    for name, (kind, shape, data) in converted.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    write_tensors(path, header, b"".join(data for _, _, data in converted.values()))


TYPES = {"fp32": ("F32", 1e-5), "bf16": ("BF16", 0.05), "fp16": ("F16", 0.01)}


def check_merged(test, what, adapted, default, *arguments):
    """`default`: the type of all numbers without --type."""
    for asked in (None, *TYPES):
        out = test.path(f"merged-{what}-{asked}")
        report = test.succeeds("merge", "--out", out, *arguments, *(("--type", asked) if asked else ()), "--json")
        if report is None:
            continue
        dtype, limit = TYPES[asked or default]
        kinds = {tensor["dtype"] for file in out.glob("*.safetensors") for name, tensor in header_of(file)[0].items()
                 if name != "__metadata__"}  # fmt: skip
        test.equal(f"types of {out.name}", kinds, {dtype})
        distance = off(logits(test, "--weights", out), adapted)
        test.that(distance < limit, f"{out.name}: logits are {distance:.1e} off")
        test.equal(f"whether {out.name} is rounded", report["rounded"], dtype != "F32")
        test.that("quantization_config" not in json.loads((out / "config.json").read_text()), f"{out.name} is not quantised")


def merges(test):
    for dtype, folder in sharded(test):
        run = f"on-{folder.name}"
        test.succeeds("train", "folder.toml", *settings("dora", "none"), "--set", f"model.init={folder}", "--run", run, "--json")
        default = {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}[dtype]
        check_merged(test, run, logits(test, "--adapter", run), default, "--adapter", run)
        index = json.loads((test.path(f"merged-{run}-None") / "model.safetensors.index.json").read_text())
        before = json.loads((folder / "model.safetensors.index.json").read_text())
        test.equal(f"places of {run}", index["weight_map"], before["weight_map"])

    keys = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False}
    bases = {"gguf": test.path("model.gguf"), "nf4": quantised(test, "bnb-nf4", as_nf4, keys),
             "int8": quantised(test, "bnb-int8", as_int8, {"load_in_8bit": True})}  # fmt: skip
    for name, base in bases.items():
        for kind in ("lora", "dora"):
            run, source = f"on-{name}-{kind}", "gguf" if name == "gguf" else "folder"
            init = ("--set", f"model.init={base}")
            test.succeeds("train", f"{source}.toml", *settings(kind, "file"), *init, "--run", run, "--json")
            adapted = logits(test, "--adapter", run, "--set", "quantize.base=file")
            check_merged(test, run, adapted, "bf16", "--adapter", run)
            result = test.run("merge", "--adapter", run, "--out", f"said-{run}")
            blocks = {"gguf": "q8_0", "nf4": "nf4", "int8": "int8"}[name]
            note = f"the base is stored in blocks ({blocks}), and the merged model is not; the sums are rounded to bf16"
            test.that(note in result.text()[1], f"{run}: {result.text()[1]}")
            test.fails(5, "E-ADAPTER-TWICE", "merge", "--weights", test.path(f"said-{run}"), "--adapter", run, "--out", "twice")
    words = ("--prompt", "abcd", "--tokens", 3, "--temperature", 0, "--memory", "1GiB")
    said = [test.succeeds("generate", *which, *words)
            for which in (("--adapter", "on-gguf-lora"), ("--weights", "merged-on-gguf-lora-fp32"))]  # fmt: skip
    test.equal("what the merged folder of a GGUF file says", said[1], said[0])
    test.that((test.path("merged-on-gguf-lora-None") / "tokenizer.json").exists(), "it has a tokenizer")

    # The result of a training over nf4 of a folder of numbers.
    for base in ("nf4", "int8", "bf16"):
        run = f"made-{base}"
        test.succeeds("train", "folder.toml", *settings("dora", base), "--run", run, "--json")
        adapted = logits(test, "--adapter", run, "--set", f"quantize.base={base}")
        plain = test.path(f"plain-{base}")
        test.succeeds("merge", "--adapter", run, "--out", plain, "--json")
        same = off(logits(test, "--weights", plain), logits(test, "--adapter", run))
        test.that(same < 1e-5, f"{run}: merged into the numbers of the base, {same:.1e}")
        check_merged(test, run, adapted, "fp32", "--adapter", run, "--set", f"quantize.base={base}")
    test.fails(2, "E-USAGE", "merge", "--adapter", "made-nf4", "--out", "no", "--set", "adapter.rank=2")
    test.fails(2, "E-USAGE", "merge", "--adapter", "made-nf4", "--out", "no", "--type", "int8")


def frozen(test):
    """Without an adapter all weights are saved, as numbers."""
    freeze = ("--set", r'model.freeze=["model\\.layers\\.[01]", "model.embed_tokens"]')
    for source, base in (("folder", "nf4"), ("folder", "int8"), ("folder", "bf16"), ("gguf", "file")):
        run = f"frozen-{base}"
        report = test.succeeds("train", f"{source}.toml", *TRAIN, *freeze, "--set", f"quantize.base={base}", "--run", run,
                               "--audit", "--json")  # fmt: skip
        if report is None:
            continue
        exact(test, run, report)
        begun = test.path("model.gguf" if source == "gguf" else "run")
        tensors, numbers = header_of(test.path(run) / "weights/model.safetensors")
        of_type = "BF16" if source == "gguf" else "F32"
        test.equal(f"type of a frozen matrix of {run}", tensors["model.layers.1.self_attn.o_proj.weight"]["dtype"], of_type)
        config = json.loads((test.path(run) / "weights/config.json").read_text())
        test.that("quantization_config" not in config, f"{run}: config.json")
        saved = test.succeeds("eval", f"{source}.toml", "--weights", run, "--json")
        first = test.succeeds("eval", f"{source}.toml", "--weights", begun, "--json")
        test.that(saved["loss"] < first["loss"], f"{run}: the loss falls from {first['loss']} to {saved['loss']}")
        within = 2e-3 if source == "gguf" else 1e-5
        test.near(f"loss of what {run} saved", saved["loss"], report["final"]["validation_loss"], within)
    for key, value in (("load_in_4bit", "nf4"), ("load_in_8bit", "int8")):
        error = test.fails(2, "E-CONFIG-CONFLICT", "plan", "folder.toml", "--set", f"{key}=true")  # taken, without an adapter
        test.that(error["where"] == "quantize.base" and value in error["message"], f"{key}: {error}")


if __name__ == "__main__":
    test = Test("quantised_adapters")
    inputs(test)
    test.run_parts(budgets, kept_blocks, commands, merges, frozen)
    test.finish()
