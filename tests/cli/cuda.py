#!/usr/bin/env python3
"""--device cuda without a GPU ends in a clear error, and a run on the processor maps no library of CUDA."""

import pathlib
import re
import shutil

from _plimsoll import Test

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ["--device", "cuda", "--unverified"]
MAPPED = ("libcublas", "libcudart", "libcuda.so", "libcudnn", "libnvidia", "plimsoll_cuda")
GIB = 1 << 30
GPT2 = """\
[model]
preset = "gpt2"
[data]
train = "tokens.bin"
format = "u16"
[train]
effective_batch = 64
[optimizer]
name = "adamw"
learning_rate = 3e-4
[precision]
compute = "bf16"
"""


def unverified(test):
    device, key = ["--device", "cuda"], ["--set", "machine.device=cuda"]
    for command in (["train", "config.toml", *device], ["train", "config.toml", *key], ["machine", *device]):
        error = test.fails(2, "E-CUDA-UNVERIFIED", *command)
        test.that(error and "--unverified" in " ".join(error["try"]), f"{command} says how to try it: {error}")


def without_a_gpu(test):
    """A named error with versions; with a GPU, success."""
    result = test.run("machine", *GPU, "--json", timeout=600)
    if result.code == 0:
        test.equal("instruction set", result.json()["instruction_set"], "cuda")
        return
    said = f"`{result.command}`"
    test.equal(f"exit code of {said}", result.code, 2)
    error = result.json() or {}
    if test.that(error.get("code") in ("E-CUDA-LOAD", "E-CUDA-DEVICE"), f"code of {said}: {error}"):
        told = error["message"] + error["expected"]
        test.that(re.search(r"CUDA.* 13|nvcc 13|\.so\.13", told), f"versions in: {told}")
        test.fails(2, error["code"], "train", "config.toml", *GPU, "--run", "none")
        test.that(not (test.path("none") / "metrics.jsonl").exists(), "nothing has been trained")


def without_the_module(test):
    alone = test.folder / "alone" / "plimsoll"
    alone.parent.mkdir()
    shutil.copy2(test.binary, alone)
    whole, test.binary = test.binary, str(alone)
    error = test.fails(2, "E-CUDA-LOAD", "machine", *GPU)
    test.that(error and "nvcc 13" in error["expected"], f"what is missing: {error}")
    alone.with_name("plimsoll_cuda.so").write_bytes(b"no library")
    test.fails(2, "E-CUDA-LOAD", "machine", *GPU)
    test.binary = whole


def mapped_by_the_processor(test):
    process = test.start("train", "config.toml", "--run", "cpu", "--updates", "100000")
    try:
        test.wait_for_lines(process, "cpu", 2)
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.kill()
        process.communicate()
    test.that("/plimsoll" in maps, "the process that trains is looked at")
    for name in MAPPED:
        test.that(name not in maps, f"a run on the processor maps no {name}")


def planned(test):
    """Planning for an absent GPU works without the module, which would not load."""
    test.write("gpt2.toml", GPT2)
    test.write("tokens.bin", bytes(1 << 20))
    alone = test.folder / "planner" / "plimsoll"
    alone.parent.mkdir()
    shutil.copy2(test.binary, alone)
    whole, test.binary = test.binary, str(alone)
    seconds = []
    for budget in (4, 8, 16, 40):
        there = ["--machine", ROOT / "machines" / "h200.toml", "--memory", f"{budget}GiB"]
        plan = test.succeeds("plan", "gpt2.toml", *there, "--json")
        if plan is None:
            continue
        test.equal(f"{budget} GiB: status", plan["status"], "fits")
        test.that(plan["predicted"]["process_bytes"] <= budget * GIB, f"{budget} GiB: {plan['predicted']['process_bytes']} bytes")
        seconds.append(plan["predicted"]["update_seconds"])
    test.equal("more memory is never slower", seconds, sorted(seconds, reverse=True))
    test.binary = whole


def recorded(test):
    """Planning with the recording of an H100, which has every kernel of this plan."""
    test.write("gpt2.toml", GPT2)
    test.write("tokens.bin", bytes(1 << 20))
    sets = ["model.vocab=50304", "model.dropout=0", "train.micro_batch=32", "train.accumulation=2", "train.gradient_clip=1.0"]
    sets += ["optimizer.betas=[0.9,0.95]", "optimizer.epsilon=1e-8", "optimizer.weight_decay=0.1", 'optimizer.decay="all"']
    there = ["--machine", ROOT / "machines" / "h100.json", "--memory", "20GiB"]
    there += [word for each in sets for word in ("--set", each)]
    plan = test.succeeds("plan", "gpt2.toml", *GPU, *there, "--json")
    if plan is not None:
        test.equal("status", plan["status"], "fits")
        test.equal("kernels without a measurement", plan["predicted"]["cost_source"]["bound"], 0)
        test.that(plan["predicted"]["cost_source"]["recorded"] > 700, f"recorded: {plan['predicted']['cost_source']}")
        test.that(plan["predicted"]["process_bytes"] <= 20 * GIB, f"{plan['predicted']['process_bytes']} bytes")


def main():
    test = Test("cuda")
    test.run_parts(unverified, without_a_gpu, without_the_module, mapped_by_the_processor, planned, recorded)
    test.finish()


if __name__ == "__main__":
    main()
