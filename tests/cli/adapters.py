#!/usr/bin/env python3
"""Adapters, through the commands: python3 adapters.py path/to/plimsoll

A tiny Llama and a tiny GPT-2 are trained, then adapted. An interrupted run ends with the same bits. Checkpoints and weights have
no tensor of the base. A merged folder computes the same as base and adapter. Contradictions and unsupported features are refused.
"""

import array
import json
import shutil
import struct

from _plimsoll import Test

LLAMA = {"kind": '"llama"', "layers": 2, "width": 48, "heads": 4, "kv_heads": 2, "mlp_width": 96, "context": 32, "vocab": 256}
KINDS = {
    "llama-lora": (
        "llama",
        ["adapter.kind=lora", "adapter.rank=4", 'adapter.modules_to_save=["model.norm"]', "adapter.dropout=0.1"],
    ),
    "llama-dora": ("llama", ["adapter.kind=dora", "adapter.rank=3", "adapter.rs=true", 'adapter.rank_pattern=["down_proj=2"]']),
    "gpt2-lora": (
        "gpt2",
        ["adapter.kind=lora", 'adapter.targets=["c_attn","c_fc"]', 'adapter.modules_to_save=["wte","lm_head"]'],
    ),
    "gpt2-dora": ("gpt2", ["adapter.kind=dora", "adapter.dropout=0.2", r"adapter.targets=.*\.(c_attn|c_proj)"]),
}
RUN = ["--set", "train.updates=4", "--set", "train.effective_batch=4", "--set", "train.micro_batch=2", "--set",
       "optimizer.learning_rate=1e-2", "--set", "schedule.name=constant", "--set", "schedule.warmup=0"]  # fmt: skip


def sets(values):
    return [part for value in values for part in ("--set", value)]


def header_of(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_tensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def logits(test, *arguments):
    out = test.path("out.safetensors")
    out.unlink(missing_ok=True)
    test.succeeds("forward", *arguments, "--inputs", "ids.safetensors", "--out", out, "--memory", "1GiB", "--json")
    return array.array("f", header_of(out)[1])


def off(a, b):
    return max((abs(x - y) for x, y in zip(a, b)), default=1) / max(map(abs, b)) if len(a) == len(b) else 1


def bases(test):
    """For each family, a model with random weights as a folder, a configuration over it, and token ids."""
    text = test.path("config.toml").read_text()
    rest = text[text.index("[data]") :]
    test.write("llama.toml", "seed = 3\n[model]\n" + "".join(f"{k} = {v}\n" for k, v in LLAMA.items()) + rest)
    test.write("gpt2.toml", text)
    for name in ("llama", "gpt2"):
        test.succeeds("train", f"{name}.toml", *RUN, "--updates", 1, "--run", f"base-{name}", "--json")
        test.write(f"{name}-adapted.toml", f'seed = 5\n[model]\ninit = "base-{name}/weights"\ncontext = 32\n{rest}')
    ids = [(7 * i * i + 3 * i) % 256 for i in range(40)]
    write_tensors(test.path("ids.safetensors"), {"input_ids": {"dtype": "I32", "shape": [2, 20], "data_offsets": [0, 160]}},
                  struct.pack("<40i", *ids))  # fmt: skip


def trained(test, name):
    base, keys = KINDS[name]
    config = f"{base}-adapted.toml"
    whole = test.succeeds("train", config, *RUN, *sets(keys), "--run", name, "--audit", "--json")
    disk = test.succeeds("train", config, *RUN, *sets(keys), "--run", f"{name}-disk", "--disk", f"{test.path('d')}:64MiB",
                         "--set", "plan.parameters=disk", "--audit", "--json")  # fmt: skip
    test.succeeds("train", config, *RUN, *sets(keys), "--run", f"{name}-again", "--updates", 2, "--json")
    again = test.succeeds("train", "--run", f"{name}-again", "--resume", "--updates", 4, "--json")
    if not whole or not again or not disk:
        return
    for what, report in (("resumed", again), ("streamed", disk)):
        for key in ("parameters_xxh128", "loss_bits"):
            test.equal(f"{key} of {name}, {what}", report["final"][key], whole["final"][key])
    folder = test.path(name) / "weights"
    tensors = header_of(folder / "adapter_model.safetensors")[0]
    saved = header_of(test.state(name))[0]
    plain = {key for key in tensors if "lora_" not in key and key != "__metadata__"}
    test.that(all(key.startswith("base_model.model.") for key in tensors if key != "__metadata__"), f"{name}: names of PEFT")
    test.equal(f"tensors of {name} that are trained whole", len(plain), {"llama-lora": 1, "gpt2-lora": 2}.get(name, 0))
    test.that(not any(key.endswith("c_fc.weight") or key.endswith("q_proj.weight") for key in saved), f"{name}: no frozen bytes")
    test.that("plimsoll.frozen" in saved, f"{name}: hashes of the base")

    first = logits(test, "--weights", f"base-{base}")
    adapted = logits(test, "--adapter", name)
    test.that(off(adapted, first) > 1e-3, f"{name}: the adapter does something")
    moved = test.path(f"{name}-moved")
    shutil.copytree(test.path(f"base-{base}") / "weights", moved)
    test.that(logits(test, "--weights", moved, "--adapter", folder) == adapted, f"{name}: a base that has moved")
    merged = test.path(f"{name}-merged")
    report = test.succeeds("merge", "--adapter", name, "--out", merged, "--json")
    test.equal(f"merged layers of {name}", report["layers"], {"llama-lora": 14, "llama-dora": 14, "gpt2-lora": 4}.get(name, 6))
    test.that(off(logits(test, "--weights", merged), adapted) < 1e-5, f"{name}: merged as adapted")
    test.that(not (merged / "adapter_config.json").exists(), f"{name}: no adapter in the merged folder")
    twice = ("--weights", merged, "--adapter", name, "--inputs", "ids.safetensors", "--out", "o")
    test.fails(5, "E-ADAPTER-TWICE", "forward", *twice)
    test.fails(5, "E-ADAPTER-TWICE", "merge", "--weights", merged, "--adapter", name, "--out", "twice")
    test.fails(2, "E-ADAPTER-OUT", "merge", "--adapter", name, "--out", moved)
    test.fails(2, "E-USAGE", "merge", "--adapter", name, "--out", "with-disk", "--set", "memory.disk=pages:1GiB")
    test.that(not test.path("pages").exists(), "merge makes no folder for a disk")

    words = ("--set", f"adapter.init={name}", "--run", f"{name}-on", "--updates", 1, "--json")
    begun = test.succeeds("train", config, *RUN, *words)
    test.that(begun is not None, f"{name}: begins with the adapter of a run")
    alone = test.write("alone.toml", 'seed = 5\n[adapter]\ninit = "%s"\n[model]\ncontext = 32\n[data]\ntrain = "train.txt"\n'
                       'format = "bytes"\n[train]\neffective_batch = 2\nupdates = 1\n' % name)  # fmt: skip
    test.succeeds("train", alone, "--run", f"{name}-alone", "--memory", "64MiB", "--json")


def adapters(test):
    bases(test)
    for name in KINDS:
        trained(test, name)


def refusals(test):
    if not test.path("llama-adapted.toml").exists():
        bases(test)
        trained(test, "llama-lora")
    config = "llama-adapted.toml"

    def refused(exit_code, code, *keys):
        return test.fails(exit_code, code, "train", config, *RUN, *sets(keys), "--run", "refused")

    refused(2, "E-CONFIG-MISSING", "adapter.rank=4")
    refused(2, "E-ADAPTER-TARGET", "adapter.kind=lora", 'adapter.targets=["lm_head"]')
    refused(2, "E-ADAPTER-TARGET", "adapter.kind=lora", "adapter.targets=q_proj")
    refused(2, "E-ADAPTER-PATTERN", "adapter.kind=lora", "adapter.targets=*")
    refused(2, "E-ADAPTER-SAVE", "adapter.kind=lora", 'adapter.modules_to_save=["nothing"]')
    refused(2, "E-CONFIG-CONFLICT", "adapter.kind=lora", 'model.freeze=["model.norm"]')
    refused(2, "E-FREEZE", 'model.freeze=["wte"]')
    refused(2, "E-ADAPTER-CONTRADICTION", "adapter.init=llama-lora", "adapter.rank=5")
    refused(2, "E-ADAPTER-CONTRADICTION", "adapter.init=llama-lora", "adapter.kind=dora")
    refused(5, "E-ADAPTER-FOLDER", "adapter.init=base-llama")
    folder = test.path("llama-lora") / "weights"
    other = test.path("other")
    settings = json.loads((folder / "adapter_config.json").read_text())
    for change, code in (({"lora_bias": True}, "E-ADAPTER-FEATURE"), ({"init_lora_weights": "pissa"}, "E-ADAPTER-FEATURE"),
                         ({"r": 5}, "E-ADAPTER-TENSOR"), ({"target_modules": ["q_proj"]}, "E-ADAPTER-TENSOR")):  # fmt: skip
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(folder, other)
        (other / "adapter_config.json").write_text(json.dumps({**settings, **change}))
        refused(5, code, f"adapter.init={other}")
    (other / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "/nowhere"}))
    command = ("--adapter", other, "--inputs", "ids.safetensors", "--out", "o")
    error = test.fails(5, "E-ADAPTER-BASE", "forward", *command)
    test.that("--weights BASE" in error["try"], "the remedy for a base that is not there")
    test.fails(5, "E-ADAPTER-BASE", "merge", "--adapter", other, "--out", "merged")
    test.succeeds("forward", "--weights", "base-llama", *command, "--memory", "1GiB", "--json")
    test.fails(2, "E-ADAPTER-TARGET", "forward", "--weights", "base-gpt2", *command)
    test.fails(2, "E-USAGE", "forward", "--inputs", "ids.safetensors", "--out", "o")
    frozen = test.succeeds("train", config, *RUN, "--set", r'model.freeze=["model.embed_tokens", "model\\.layers\\.0"]', "--run",
                           "frozen", "--json")  # fmt: skip
    test.that(frozen is not None, "some layers are frozen without an adapter")
    for name in ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"):
        same = all(
            header_of(test.path(run) / "weights" / "model.safetensors")[0][name]["shape"] for run in ("frozen", "base-llama")
        )
        begin, end = header_of(test.path("base-llama") / "weights" / "model.safetensors")[0][name]["data_offsets"]
        files = (test.path(run) / "weights" / "model.safetensors" for run in ("base-llama", "frozen"))
        before, after = (header_of(file)[1][begin:end] for file in files)
        test.equal(f"whether {name} stays", same and before == after, "layers.1" not in name)
    # A head that was trained apart from a tied table is not lost in a merge.
    gpt2 = test.path("gpt2-lora") / "weights"
    if gpt2.exists():
        apart = test.path("apart")
        shutil.copytree(gpt2, apart)
        header, data = header_of(gpt2 / "adapter_model.safetensors")
        data = bytearray(data)
        begin = header["base_model.model.lm_head.weight"]["data_offsets"][0]
        data[begin : begin + 4] = struct.pack("<f", 3.0)
        write_tensors(apart / "adapter_model.safetensors", header, bytes(data))
        test.fails(5, "E-ADAPTER-TIED", "forward", "--adapter", apart, "--inputs", "ids.safetensors", "--out", "o")
        report = test.succeeds("merge", "--adapter", apart, "--out", "untied", "--json")
        test.that(report and report["untied"], "the head is a tensor of its own")
        merged, numbers = header_of(test.path("untied") / "model.safetensors")
        begin = merged["lm_head.weight"]["data_offsets"][0]
        test.equal("its first number", struct.unpack("<f", numbers[begin : begin + 4])[0], 3.0)
        written = json.loads((test.path("untied") / "config.json").read_text())
        test.that(written["tie_word_embeddings"] is False, "config.json says so")
        logits(test, "--weights", "untied")
    # Nothing goes on without the state of its optimizer; the adapter can begin anew.
    stateless = test.path("stateless")
    shutil.copytree(test.path("llama-lora"), stateless)
    shutil.rmtree(stateless / "checkpoints")
    test.fails(5, "E-CKPT-MISSING", "train", "--run", stateless, "--resume", "--updates", 6)
    test.succeeds("train", config, *RUN, *sets([f"adapter.init={stateless}"]), "--run", "anew", "--updates", 1, "--json")
    # A run goes on over the base with which it began, and over no other.
    changed = test.path("base-llama") / "weights" / "model.safetensors"
    data = bytearray(changed.read_bytes())
    data[-3] ^= 1
    changed.write_bytes(data)
    test.fails(5, "E-CKPT-FROZEN", "train", "--run", "llama-lora-again", "--resume", "--updates", 5)


if __name__ == "__main__":
    test = Test("adapters")
    test.run_parts(adapters, refusals)
    test.finish()
