#!/usr/bin/env python3
"""Training on a GPU, through the commands: python3 program.py path/to/plimsoll [--keep FOLDER]

For every budget, residency and process, with CUDA graphs and without: losses have equal bits, near those of the processor; every
byte is at its planned place; the driver counts no further bytes; errors have their codes. Without a usable GPU, a line says so,
and the script succeeds.
"""

import functools
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "bench")]

from _plimsoll import Test  # noqa: E402
from nvml import Gpu, Sampler  # noqa: E402

GPU = ["--device", "cuda", "--unverified"]
MIB, GIB = 1 << 20, 1 << 30
UPDATES = 20
# Relative tolerances of a loss: fp32 sums in other orders; with bf16 products, their effect over 20 updates.
NEAR_CPU = {"fp32": 2e-4, "bf16": 2e-2}
CONFIG = """\
seed = 3
[model]
kind = "gpt2"
layers = 4
width = 128
heads = 4
context = 128
vocab = 256
dropout = 0.1
[data]
train = "train.txt"
validation = "validation.txt"
format = "bytes"
[train]
effective_batch = 16
micro_batch = 4
accumulation = 4
updates = 20
evaluate_samples = 8
[optimizer]
name = "adamw"
learning_rate = 1e-3
[schedule]
name = "cosine"
warmup = "2updates"
[memory]
budget = "4GiB"
[machine]
threads = 2
"""
# An arena of gigabytes, for which a device that others have filled has no room.
BIG = ["--set", "model.width=512", "--set", "model.heads=8", "--set", "train.effective_batch=256"]
BIG += ["--set", "train.micro_batch=256", "--set", "train.accumulation=1", "--set", "plan.recompute=none", "--memory", "16GiB"]
# Takes all but n bytes of the device, prints a line, and waits for the request to end.
TAKE = """\
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(code):
    if code: sys.exit(f"CUDA error {code}")
device, context, free, total, there = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
check(cuda.cuInit(0)); check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)); check(cuda.cuCtxSetCurrent(context))
check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
check(cuda.cuMemAlloc_v2(ctypes.byref(there), ctypes.c_size_t(free.value - int(sys.argv[1]))))
print("taken", flush=True); sys.stdin.read()
"""


def no_gpu(test):
    result = test.run("machine", *GPU, "--json", timeout=300)
    error = result.json() or {}
    if result.code == 2 and error.get("code") in ("E-CUDA-DEVICE", "E-CUDA-LOAD"):
        return f"{error['code']} {error['message']}"
    test.equal("exit code of `plimsoll machine --device cuda`", result.code, 0)
    if result.code != 0:
        print("\n".join(result.text())[-2000:])
    return None


def precision(name):
    return ["--set", f"precision.compute={name}"]


def disk(test):
    return ["--disk", f"{test.path('pages')}:1GiB"]


def plan_of(test, *more):
    return test.succeeds("plan", "config.toml", *GPU, *more, "--json")


def train(test, run, *more, device=GPU):
    return test.succeeds("train", "config.toml", *device, "--run", run, *more, "--json")


def numbers(test, run):
    return [(line["update"], line["loss_bits"], line["grad_norm_bits"]) for line in test.lines(run)]


def budgets_of(test, *more):
    """Values of --memory, --host-memory and --disk: ample, the least on the device, the least with a host."""
    floor = plan_of(test, *more)["bounds"]["floor_bytes"]
    host = ["--host-memory", "2GiB"]
    beside = plan_of(test, *more, *host)["bounds"]["floor_bytes"]
    kept = ["--set", "plan.optimizer_state=disk"]
    return {
        "ample": ["--memory", "4GiB"],
        "again": ["--memory", "4GiB"],
        "without-graphs": ["--memory", "4GiB", "--set", "machine.gpu_graphs=false"],
        "recompute": ["--memory", "4GiB", "--set", "plan.recompute=all"],
        "floor": ["--memory", floor],
        "host": ["--memory", beside, *host],
        "host-without-graphs": ["--memory", beside, *host, "--set", "machine.gpu_graphs=false"],
        "disk": ["--memory", floor, *host, *disk(test), *kept],
    }


def same_bits(test, name):
    first = None
    for label, budgets in budgets_of(test, *precision(name)).items():
        run = f"{name}-{label}"
        report = train(test, run, *precision(name), *budgets)
        if report is None:
            continue
        found = (numbers(test, run), report["final"]["parameters_xxh128"], report["final"]["validation_loss"])
        test.equal(f"{run}: updates", len(found[0]), UPDATES)
        first = first or found
        test.that(found == first, f"{run} has the bits of {name}-ample")
        used, planned = report["measured"].get("host_bytes"), report["predicted"].get("host_bytes")
        if used is not None and planned is not None:
            test.that(used <= planned, f"{run}: {used} bytes on the host of {planned} planned")


def near_cpu(test, name):
    if train(test, f"{name}-cpu", *precision(name), device=["--device", "cpu"]) is None:
        return
    gpu, cpu = ([line["loss"] for line in test.lines(f"{name}-{where}")] for where in ("ample", "cpu"))
    worst = max(abs(a - b) / abs(b) for a, b in zip(gpu, cpu))
    ends = f"first {gpu[0]:.6f} and {cpu[0]:.6f}, last {gpu[-1]:.6f} and {cpu[-1]:.6f}"
    print(f"  {name}: losses differ by {worst:.2e} at most, {ends}")
    test.that(worst <= NEAR_CPU[name], f"{name}: losses within {NEAR_CPU[name]:g} of the processor's")


def audited(test, name):
    for label, budgets in budgets_of(test, *precision(name)).items():
        if label in ("again", "without-graphs", "host-without-graphs"):
            continue
        run = f"audit-{name}-{label}"
        report = train(test, run, *precision(name), *budgets, "--updates", "3", "--audit")
        if report is None:
            continue
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{run}: {key}", report["measured"][key], report["predicted"][key])
        test.equal(f"{run}: bits", numbers(test, run), numbers(test, f"{name}-ample")[:3])


def counted(test):
    """The driver's count, from before the process to its end, is within the budget and near the prediction."""
    gpu = Gpu()
    if not test.that(gpu.source is not None, "NVML or nvidia-smi tells the bytes in use"):
        return
    for label, budgets in budgets_of(test).items():
        if label in ("again", "recompute"):
            continue
        plan = plan_of(test, *budgets)
        budget, predicted = plan["budget"]["memory"], plan["predicted"]["process_bytes"]
        with Sampler(gpu) as sampler:
            train(test, f"counted-{label}", *budgets)
        print(f"  {label}: budget {budget / MIB:.1f} MiB, predicted {predicted / MIB:.1f}, counted {sampler.peak / MIB:.1f} "
              f"({gpu.source}, {sampler.samples} samples)")
        test.that(sampler.peak <= budget, f"{label}: {sampler.peak} bytes counted within {budget}")
        test.that(0 <= predicted - sampler.peak <= 64 * MIB, f"{label}: predicted - counted is {predicted - sampler.peak}")


def below_the_floor(test):
    free = ["--set", 'train.micro_batch="auto"', "--set", 'train.accumulation="auto"']
    for label, extra in (("given", []), ("auto", free)):
        floor = plan_of(test, *extra)["bounds"]["floor_bytes"]
        below = ["config.toml", *GPU, *extra, "--memory", floor - MIB]
        result = test.run("train", *below, "--run", f"below-{label}", "--json")
        test.equal(f"{label}: exit code one MiB below the floor", result.code, 3)
        refused = (result.json() or {}).get("infeasible") or {}
        test.equal(f"{label}: code", refused.get("code"), "E-PLAN-FIT")
        test.equal(f"{label}: short by", refused.get("short_bytes"), MIB)
        test.that(refused.get("remedies"), f"{label}: there are remedies")
        for remedy in refused.get("remedies", []):
            fixed = test.succeeds("plan", *below, *remedy["arguments"], "--json")
            if fixed is not None:
                within = fixed["predicted"]["process_bytes"] <= fixed["budget"]["memory"]
                test.that(fixed["status"] == "fits" and within, f"{label}: '{remedy['text']}' fits")


def crowded(test):
    """A second process takes most of the device between two parts of a run."""
    run = "crowded"
    arena = plan_of(test, *BIG)["predicted"]["arena_bytes"]
    if not test.that(arena > 3 * GIB, f"the arena is large: {arena}"):
        return
    train(test, run, *BIG, "--updates", "2")
    checkpoint = test.path(run) / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    other = subprocess.Popen([sys.executable, "-c", TAKE, str(2 * GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if test.equal("the other process", other.stdout.readline().strip(), "taken"):
            test.fails(3, "E-MEM-ARENA", "train", "config.toml", *GPU, "--run", run, *BIG, "--updates", "4", "--resume")
    finally:
        other.communicate(timeout=60)
    test.that(checkpoint.read_bytes() == before, "the checkpoint is as it was")
    report = train(test, run, *BIG, "--updates", "4", "--resume")
    test.equal("updates after the other is gone", report and report["updates"], 4)


def killed(test):
    saving = ["--set", "train.save_every=5", "--memory", "4GiB", *precision("bf16")]
    process = test.start("train", "config.toml", *GPU, "--run", "killed", *saving)
    test.wait_for_lines(process, "killed", 8)
    process.kill()
    process.communicate()
    test.equal("status of a run that was killed", test.report("killed")["status"], "running")
    report = train(test, "killed", *saving, "--resume")
    if report is not None:
        test.equal("bits in two pieces", numbers(test, "killed"), numbers(test, "bf16-ample"))
        test.equal("parameters", report["final"]["parameters_xxh128"], test.report("bf16-ample")["final"]["parameters_xxh128"])


def main():
    test = Test("cuda")
    test.write("config.toml", CONFIG)
    missing = no_gpu(test)
    if missing:
        print(f"no GPU: {missing}")
        test.finish()
    with_each = [functools.partial(part, name=name) for name in ("fp32", "bf16") for part in (same_bits, near_cpu, audited)]
    test.run_parts(*with_each, killed, below_the_floor, crowded, counted)
    if test.keep:
        (test.folder / "machine.json").write_text(json.dumps(test.run("machine", *GPU, "--json").json(), indent=1))
    test.finish()


if __name__ == "__main__":
    main()
