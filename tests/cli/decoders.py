#!/usr/bin/env python3
"""Decoders like Llama, through the commands: python3 decoders.py path/to/plimsoll

The models have grouped heads, a tied table with norms of heads, and a sliding window. Each trains with equal bits within ten
budgets, with and without a disk, every byte as planned. Evaluation, generation and forward passes keep to budgets as well: with a
disk they need less memory and give the same numbers, and a budget one page below the smallest plan is refused.
"""

import json
import os
import pathlib
import shutil
import struct

from _plimsoll import Test

PAGE = 4096
SIZES = {"layers": 4, "width": 192, "heads": 6, "mlp_width": 512, "context": 64, "vocab": 256}
KINDS = {
    "grouped": {"kind": "llama", "kv_heads": 2, "rope_theta": 5e5},
    "tied": {"kind": "qwen3", "kv_heads": 1, "head_size": 64, "tied": True},
    "window": {"kind": "mistral", "kv_heads": 3},
}
TRAIN = ["--set", "train.effective_batch=4", "--set", "train.micro_batch=2", "--set", "train.updates=3", "--set",
         "train.evaluate_samples=4"]  # fmt: skip


def toml(value):
    return str(value).lower() if isinstance(value, bool) else json.dumps(value)


def config_of(test, name):
    """A configuration of this kind. A window needs the folder of an untrained model, whose config.json gets one."""
    text = test.path("config.toml").read_text()
    rest = text[text.index("[data]") :]
    sizes = "".join(f"{key} = {toml(value)}\n" for key, value in {**KINDS[name], **SIZES}.items())
    path = test.write(f"{name}.toml", f"seed = 3\n[model]\n{sizes}{rest}")
    if name != "window":
        return path
    test.succeeds("train", path, *TRAIN, "--set", "optimizer.learning_rate=0", "--updates", 1, "--run", "untrained")
    folder = test.path("untrained") / "weights"
    file = folder / "config.json"
    changed = json.loads(file.read_text())
    changed["sliding_window"] = 24
    file.write_text(json.dumps(changed))
    return test.write("window.toml", f'seed = 3\n[model]\ninit = "{folder}"\ncontext = 64\n{rest}')


def trained(test, name):
    """Ten budgets, from the smallest plan to the ceiling."""
    config = config_of(test, name)
    disk = ["--disk", f"{test.path('disk')}:256MiB"]
    ends = set()
    for place in ([], disk):
        plan = test.succeeds("plan", config, *TRAIN, "--memory", "4GiB", *place, "--json")
        floor, ceiling = plan["bounds"]["floor_bytes"], plan["predicted"]["process_bytes"]
        error = test.run("plan", config, *TRAIN, "--memory", floor - PAGE, *place, "--json")
        test.equal(f"exit code of {name} a page below its floor", error.code, 3)
        for i in range(5):
            budget = floor + (ceiling - floor) * i // 4
            run = test.path(f"{name}-{len(place)}-{i}")
            report = test.succeeds("train", config, *TRAIN, "--memory", budget, *place, "--audit", "--run", run, "--json")
            if report is None:
                continue
            ends.add((report["final"]["parameters_xxh128"], report["final"]["loss_bits"]))
            test.that(report["predicted"]["process_bytes"] <= budget, f"{name}: the plan keeps to {budget}")
            if place or i > 0:
                shutil.rmtree(run)
    test.equal(f"results of {name}", len(ends), 1)
    return config, test.path(f"{name}-0-0")


def file_of(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def inputs(test):
    """Two samples of 40 tokens, and a mask that hides the first ones of the second."""
    ids = [(7 * i * i + 3 * i) % 256 for i in range(80)]
    mask = [1] * 40 + [0] * 9 + [1] * 31
    header = {
        "input_ids": {"dtype": "I32", "shape": [2, 40], "data_offsets": [0, 320]},
        "attention_mask": {"dtype": "I64", "shape": [2, 40], "data_offsets": [320, 960]},
    }
    test.write("inputs.safetensors", file_of(header, struct.pack("<80i", *ids) + struct.pack("<80q", *mask)))


def ends_of(result, out):
    """The results of a command, without its report on memory."""
    value = result.json()
    value.pop("measured", None), value.pop("predicted", None)
    return json.dumps(value, sort_keys=True) + (out.read_bytes().hex() if out.exists() else "")


def within_budgets(test, name, command):
    out = test.path("out.safetensors")
    out.unlink(missing_ok=True)
    result = test.run(*command, "--memory", "1GiB", "--json")
    if not test.equal(f"exit code of {name}", result.code, 0):
        return print(result.text()[1])
    wanted = ends_of(result, out)
    for place in ([], ["--disk", f"{test.path('disk')}:256MiB"]):
        error = test.fails(3, "E-PLAN-FIT", *command, *place, "--memory", "1MiB")
        floor = int(error["try"][0].split()[1])
        for budget in (floor, floor + (2 << 20)):
            audited = test.run(*command, *place, "--memory", budget, "--audit", "--json")
            if test.equal(f"exit code of {name} in {budget} bytes", audited.code, 0):
                test.that(ends_of(audited, out) == wanted, f"{name}: the same numbers in {budget} bytes")
            plain = test.run(*command, *place, "--memory", budget, "--json").json()
            if plain and "measured" in plain:
                test.that(plain["measured"]["process_hwm_bytes"] <= budget, f"{name}: no more than {budget} bytes")
        below = test.fails(3, "E-PLAN-FIT", *command, *place, "--memory", floor - PAGE)
        for remedy in below["try"]:
            arguments = remedy.replace("/tmp/plimsoll", str(test.path("disk"))).split()
            advised = test.run(*command, *place, "--memory", floor - PAGE, *arguments)
            test.equal(f"exit code of {name} with {remedy}", advised.code, 0)


def decoders(test):
    inputs(test)
    for name in KINDS:
        config, run = trained(test, name)
        text = ["--prompt", "abc", "--prompt", "a", "--tokens", 45, "--temperature", 0]
        within_budgets(test, f"generate {name}", ["generate", "--weights", run, *text])
        within_budgets(test, f"forward {name}",
                       ["forward", "--weights", run, "--inputs", "inputs.safetensors", "--out", "out.safetensors"])  # fmt: skip
        test.path("out.safetensors").unlink(missing_ok=True)
        within_budgets(test, f"eval {name}", ["eval", config, "--weights", run, "--set", "train.evaluate_samples=6"])


def bad_inputs(test):
    """forward: files that are no valid inputs of this model."""
    run = next(path for path in test.folder.glob("grouped-*") if path.is_dir())
    forward = ["forward", "--weights", run, "--inputs", "bad.safetensors", "--out", "bad-out.safetensors"]
    cases = {
        "a token past the vocabulary": ({"input_ids": ("I32", [1, 1])}, struct.pack("<i", 256), "E-DATA-TOKEN"),
        "a negative token": ({"input_ids": ("I64", [1, 1])}, struct.pack("<q", -1), "E-DATA-TOKEN"),
        "a token of 33 bits": ({"input_ids": ("I64", [1, 1])}, struct.pack("<q", 1 << 32), "E-DATA-TOKEN"),
        "tokens that are fractions": ({"input_ids": ("F32", [1, 1])}, struct.pack("<f", 1), "E-FORMAT-TENSOR"),
        "one axis": ({"input_ids": ("I32", [1])}, struct.pack("<i", 1), "E-FORMAT-TENSOR"),
        "nothing": ({"input_ids": ("I32", [1, 0])}, b"", "E-FORMAT-TENSOR"),
        "another name": ({"ids": ("I32", [1, 1])}, struct.pack("<i", 1), "E-FORMAT-TENSOR"),
    }
    for what, (tensors, data, code) in cases.items():
        header = {
            key: {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]} for key, (dtype, shape) in tensors.items()
        }
        test.write("bad.safetensors", file_of(header, data))
        error = test.fails(5, code, *forward, "--memory", "1GiB")
        test.that(error is not None and "bad.safetensors" in error["where"], f"{what} is refused: {error}")
    test.that(not test.path("bad-out.safetensors").exists(), "nothing is written")
    for option, value in (("--top-k", -1), ("--top-p", 0), ("--top-p", 1.5), ("--temperature", -1), ("--threads", -1)):
        test.fails(2, "E-USAGE", "generate", "--weights", run, "--prompt", "a", option, value)
    test.fails(2, "E-USAGE", "generate", "--weights", run, "--prompt", "a" * 64)


def planned(test):
    """Decoders plan for a GPU from its recording. A longer context than the model has gets a note."""
    machine = pathlib.Path(os.environ["PLIMSOLL_SOURCE_DIR"]) / "machines" / "h100.json"
    for name in KINDS:
        test.succeeds("plan", f"{name}.toml", *TRAIN, "--memory", "4GiB", "--machine", machine, "--json")
    longer = test.run("plan", "window.toml", *TRAIN, "--memory", "1GiB", "--set", "model.context=100")
    test.equal("exit code of a longer context", longer.code, 0)
    test.that("made for at most 64" in longer.text()[1], f"a note: {longer.text()[1]}")


def main():
    test = Test("decoders")
    test.run_parts(decoders, bad_inputs, planned)
    test.finish()


if __name__ == "__main__":
    main()
