#!/usr/bin/env python3
"""Trains the small GPT-2 of tests/golden through the command line and compares with PyTorch.

  python3 golden_training.py path/to/plimsoll [--keep FOLDER]

Ten updates of AdamW from the same weights and the same samples, for every split of the window, from a folder with old names and
with a shorter context: losses and gradient norms (relative 1e-5), final weights, evaluation. Standard library only. Exit 0: all
agree; 1: something differs, each difference on one line.
"""
import argparse
import array
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
RELATIVE = 1e-5
# PyTorch in fp32 against fp64 (golden.json, "fp32"): mean 2.4e-8, one element of 100,704 above 1e-5. An element whose gradient is
# near zero takes an Adam step of any size up to the learning rate per update: a few may stray, none further than that.
WEIGHT_MEAN, WEIGHT_ORDINARY, WEIGHT_STRAYS, WEIGHT_LIMIT = 2e-7, 1e-5, 16, 1e-2

CONFIG = """\
seed = 1
[model]
kind = "gpt2"
init = "{init}"
dropout = 0.0
{model}
[data]
train = "{tokens}"
validation = "{tokens}"
format = "u16"
order = "sequential"
[train]
effective_batch = {effective_batch}
micro_batch = {micro}
accumulation = {accumulation}
updates = {updates}
gradient_clip = {gradient_clip}
[optimizer]
name = "adamw"
learning_rate = {learning_rate}
betas = {betas}
epsilon = {epsilon}
weight_decay = {weight_decay}
decay = "{decay}"
[schedule]
name = "constant"
[memory]
budget = "2GiB"
[precision]
compute = "fp32"
[machine]
threads = {threads}
"""


def read_safetensors(path):
    """{name: (shape, array of fp32)} of a safetensors file; tensors of other types are left out."""
    blob = path.read_bytes()
    length = struct.unpack_from("<Q", blob)[0]
    header, data = json.loads(blob[8:8 + length]), memoryview(blob)[8 + length:]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        values = array.array("f", bytes(data[entry["data_offsets"][0]:entry["data_offsets"][1]]))
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name.removeprefix("transformer.")] = (entry["shape"], values)
    return tensors


class Check:
    """Collects differences; each is one line."""

    def __init__(self):
        self.failures = []
        self.case = ""

    def that(self, condition, text):
        if not condition:
            self.failures.append(f"{self.case}: {text}")
            print(f"FAIL {self.failures[-1]}")
        return condition

    def equal(self, name, got, want):
        return self.that(got == want, f"{name} is {got!r}, expected {want!r}")

    def near(self, name, got, want, relative=RELATIVE):
        good = isinstance(got, (int, float)) and abs(got - want) <= relative * abs(want)
        return self.that(good, f"{name} is {got!r}, expected {want!r} within {relative:g}")


def run(command, check):
    """Runs one command; returns the JSON object on its stdout, or None."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
    if not check.equal("exit code of " + command[1], result.returncode, 0):
        print(result.stdout[-2000:], result.stderr[-2000:])
        return None
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError as error:
        check.that(False, f"stdout of {command[1]} --json is not one JSON object: {error}")
        return None


def write_config(path, golden, init, micro, model=""):
    settings = dict(golden["optimizer"], effective_batch=golden["effective_batch"], updates=golden["updates"])
    path.write_text(CONFIG.format(init=GOLDEN / init, tokens=GOLDEN / "gpt2_small" / "tokens.bin", model=model, micro=micro,
                                  accumulation=golden["effective_batch"] // micro, threads=min(2, os.cpu_count()), **settings))


def check_metrics(path, golden, curve, context, check):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if not check.equal("lines of metrics.jsonl", len(lines), golden["updates"]):
        return
    batch = golden["effective_batch"]
    for i, line in enumerate(lines):
        at = f"line {i + 1}: "
        check.near(at + "loss", line["loss"], curve["losses"][i])
        check.near(at + "grad_norm", line["grad_norm"], curve["grad_norms"][i])
        check.near(at + "learning_rate", line["learning_rate"], golden["optimizer"]["learning_rate"], 1e-6)
        check.equal(at + "samples", line["samples"], (i + 1) * batch)
        check.equal(at + "units", line["units"], batch * context)
        for key in ("loss", "grad_norm"):
            check.equal(at + key + "_bits", line[key + "_bits"], struct.pack(">d", line[key]).hex())
    check.equal("update numbers", [line["update"] - lines[0]["update"] for line in lines], list(range(len(lines))))


def weight_errors(name, got, want, width):
    """Absolute differences of one tensor. The key bias is left out: its gradient is rounding noise."""
    skip = range(width, 2 * width) if name.endswith("c_attn.bias") else ()
    return [abs(a - b) for i, (a, b) in enumerate(zip(got, want)) if i not in skip]


def check_weights(path, golden, check):
    got, want = read_safetensors(path), read_safetensors(GOLDEN / "gpt2_small" / "final.safetensors")
    total, count, strays = 0.0, 0, 0
    for name, (shape, values) in want.items():
        if not check.that(name in got, f"final weights lack {name}") or not check.equal(f"shape of {name}", got[name][0], shape):
            continue
        errors = weight_errors(name, got[name][1], values, golden["model"]["width"])
        check.that(all(e <= WEIGHT_LIMIT for e in errors), f"{name} is off by {max(errors):g} (NaN included)")
        total, count, strays = total + sum(errors), count + len(errors), strays + sum(e > WEIGHT_ORDINARY for e in errors)
    if count:
        print(f"  weights: mean error {total / count:.2g}, {strays} of {count} elements above {WEIGHT_ORDINARY:g}")
        check.that(total / count <= WEIGHT_MEAN, f"mean error of the final weights is {total / count:g}, limit {WEIGHT_MEAN:g}")
        check.that(strays <= WEIGHT_STRAYS, f"{strays} elements are off by more than {WEIGHT_ORDINARY:g}, limit {WEIGHT_STRAYS}")


def train(binary, config, folder, golden, check):
    result = run([binary, "train", config, "--run", folder, "--json"], check)
    if result is None:
        return False
    check.equal("status", result["status"], "done")
    check.equal("updates", result["updates"], golden["updates"])
    check.equal("run.json", json.loads((folder / "run.json").read_text())["final"], result["final"])
    return True


def evaluate(binary, config, weights, golden, key, check):
    result = run([binary, "eval", config, "--weights", weights, "--json"], check)
    if result is not None:
        check.equal("units of eval", result["units"], golden["evaluation"]["units"])
        check.near(f"loss of eval ({key})", result["loss"], golden["evaluation"][key])


def whole_context(binary, work, golden, init, micro, check):
    check.case = f"{init}, micro-batch {micro}"
    print(check.case)
    config, folder = work / f"{init}_{micro}.toml", work / f"{init}_{micro}"
    write_config(config, golden, init, micro)
    if not train(binary, config, folder, golden, check):
        return
    check_metrics(folder / "metrics.jsonl", golden, golden, golden["model"]["context"], check)
    check_weights(folder / "weights" / "model.safetensors", golden, check)
    if micro == golden["effective_batch"]:
        evaluate(binary, config, GOLDEN / init, golden, "initial_loss", check)
        evaluate(binary, config, folder / "weights", golden, "final_loss", check)


def short_context(binary, work, golden, check):
    """A shorter context than the folder's: all position rows are kept, those beyond it only decay."""
    check.case, short = "short context", golden["short_context"]
    print(check.case)
    config, folder = work / "short.toml", work / "short"
    write_config(config, golden, "gpt2_small", 2, f"context = {short['context']}")
    if not train(binary, config, folder, golden, check):
        return
    check_metrics(folder / "metrics.jsonl", golden, short, short["context"], check)
    shape, got = read_safetensors(folder / "weights" / "model.safetensors")["wpe.weight"]
    initial = read_safetensors(GOLDEN / "gpt2_small" / "model.safetensors")["wpe.weight"]
    if not check.equal("shape of wpe.weight", shape, initial[0]):
        return
    first = short["context"] * golden["model"]["width"]
    decay = (1 - golden["optimizer"]["learning_rate"] * golden["optimizer"]["weight_decay"]) ** golden["updates"]
    errors = [abs(a - b * decay) for a, b in zip(got[first:], initial[1][first:])]
    check.that(max(errors) <= 1e-6, f"position rows beyond the context are off by {max(errors):g} from pure decay")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--keep", type=pathlib.Path, help="leave configurations and run folders here (an empty or new folder)")
    args = parser.parse_args()
    golden = json.loads((GOLDEN / "gpt2_small" / "golden.json").read_text())
    work = (args.keep or pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_golden_"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    check = Check()
    try:
        for init, micro in (("gpt2_small", 4), ("gpt2_small", 2), ("gpt2_small", 1), ("gpt2_old", 4)):
            whole_context(args.binary, work, golden, init, micro, check)
        short_context(args.binary, work, golden, check)
    finally:
        if not args.keep:
            shutil.rmtree(work)
    print(f"{len(check.failures)} differences" if check.failures else "all agree with PyTorch")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
