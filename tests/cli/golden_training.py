#!/usr/bin/env python3
"""Trains the small GPT-2 of tests/golden through the command line and compares with PyTorch.

Ten updates of AdamW from the same weights and the same samples, for every split of the window, from a folder with old names and
with a shorter context: losses and gradient norms (relative 1e-5), final weights, evaluation.
"""
import json
import os
import pathlib
import struct
from functools import partial

from _plimsoll import Test, read_safetensors

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


def write_config(test, name, golden, init, micro, model=""):
    settings = dict(golden["optimizer"], effective_batch=golden["effective_batch"], updates=golden["updates"])
    test.write(name, CONFIG.format(init=GOLDEN / init, tokens=GOLDEN / "gpt2_small" / "tokens.bin", model=model, micro=micro,
                                   accumulation=golden["effective_batch"] // micro, threads=min(2, os.cpu_count()), **settings))


def check_metrics(test, run, golden, curve, context):
    lines = test.lines(run)
    if not test.equal("lines of metrics.jsonl", len(lines), golden["updates"]):
        return
    batch = golden["effective_batch"]
    for i, line in enumerate(lines):
        at = f"line {i + 1}: "
        test.near(at + "loss", line["loss"], curve["losses"][i], RELATIVE)
        test.near(at + "grad_norm", line["grad_norm"], curve["grad_norms"][i], RELATIVE)
        test.near(at + "learning_rate", line["learning_rate"], golden["optimizer"]["learning_rate"], relative=1e-6)
        test.equal(at + "samples", line["samples"], (i + 1) * batch)
        test.equal(at + "units", line["units"], batch * context)
        for key in ("loss", "grad_norm"):
            test.equal(at + key + "_bits", line[key + "_bits"], struct.pack(">d", line[key]).hex())
    test.equal("update numbers", [line["update"] - lines[0]["update"] for line in lines], list(range(len(lines))))


def weights_file(test, run):
    return test.path(run) / "weights" / "model.safetensors"


def weight_errors(name, got, want, width):
    """Absolute differences of one tensor. The key bias is left out: its gradient is rounding noise."""
    skip = range(width, 2 * width) if name.endswith("c_attn.bias") else ()
    return [abs(a - b) for i, (a, b) in enumerate(zip(got, want)) if i not in skip]


def check_weights(test, run, golden):
    got, want = read_safetensors(weights_file(test, run)), read_safetensors(GOLDEN / "gpt2_small" / "final.safetensors")
    got = {name.removeprefix("transformer."): value for name, value in got.items()}  # those of a folder with old names
    total, count, strays = 0.0, 0, 0
    for name, (shape, values) in want.items():
        if not test.that(name in got, f"final weights lack {name}") or not test.equal(f"shape of {name}", got[name][0], shape):
            continue
        errors = weight_errors(name, got[name][1], values, golden["model"]["width"])
        test.that(all(e <= WEIGHT_LIMIT for e in errors), f"{name} is off by {max(errors):g} (NaN included)")
        total, count, strays = total + sum(errors), count + len(errors), strays + sum(e > WEIGHT_ORDINARY for e in errors)
    if count:
        print(f"  weights: mean error {total / count:.2g}, {strays} of {count} elements above {WEIGHT_ORDINARY:g}")
        test.that(total / count <= WEIGHT_MEAN, f"mean error of the final weights is {total / count:g}, limit {WEIGHT_MEAN:g}")
        test.that(strays <= WEIGHT_STRAYS, f"{strays} elements are off by more than {WEIGHT_ORDINARY:g}, limit {WEIGHT_STRAYS}")


def train(test, config, run, golden):
    result = test.succeeds("train", config, "--run", run, "--json")
    if result is None:
        return False
    test.equal("status", result["status"], "done")
    test.equal("updates", result["updates"], golden["updates"])
    test.equal("run.json", test.report(run)["final"], result["final"])
    return True


def evaluate(test, config, weights, golden, key):
    result = test.succeeds("eval", config, "--weights", weights, "--json")
    if result is not None:
        test.equal("units of eval", result["units"], golden["evaluation"]["units"])
        test.near(f"loss of eval ({key})", result["loss"], golden["evaluation"][key], RELATIVE)


def whole_context(test, golden, init, micro):
    print(f"{init}, micro-batch {micro}")
    config, run = f"{init}_{micro}.toml", f"{init}_{micro}"
    write_config(test, config, golden, init, micro)
    if not train(test, config, run, golden):
        return
    check_metrics(test, run, golden, golden, golden["model"]["context"])
    check_weights(test, run, golden)
    if micro == golden["effective_batch"]:
        evaluate(test, config, GOLDEN / init, golden, "initial_loss")
        evaluate(test, config, f"{run}/weights", golden, "final_loss")


def short_context(test, golden):
    """A shorter context than the folder's: all position rows are kept, those beyond it only decay."""
    short = golden["short_context"]
    print("short context")
    write_config(test, "short.toml", golden, "gpt2_small", 2, f"context = {short['context']}")
    if not train(test, "short.toml", "short", golden):
        return
    check_metrics(test, "short", golden, short, short["context"])
    shape, got = read_safetensors(weights_file(test, "short"))["wpe.weight"]
    initial = read_safetensors(GOLDEN / "gpt2_small" / "model.safetensors")["wpe.weight"]
    if not test.equal("shape of wpe.weight", shape, initial[0]):
        return
    first = short["context"] * golden["model"]["width"]
    decay = (1 - golden["optimizer"]["learning_rate"] * golden["optimizer"]["weight_decay"]) ** golden["updates"]
    errors = [abs(a - b * decay) for a, b in zip(got[first:], initial[1][first:])]
    test.that(max(errors) <= 1e-6, f"position rows beyond the context are off by {max(errors):g} from pure decay")


def main():
    test = Test("golden_training")
    golden = json.loads((GOLDEN / "gpt2_small" / "golden.json").read_text())
    test.run_parts(
        *(
            partial(whole_context, golden=golden, init=init, micro=micro)
            for init, micro in (("gpt2_small", 4), ("gpt2_small", 2), ("gpt2_small", 1), ("gpt2_old", 4))
        ),
        partial(short_context, golden=golden),
    )
    test.finish()


if __name__ == "__main__":
    main()
