#!/usr/bin/env python3
"""Large models on a GPU within budgets, through the commands: python3 budgets.py path/to/plimsoll [--only small] [--only large]

GPT-2 124M in 4 and 8 GiB over 200 updates, and 1.5B in 8, 16 and 40 GiB with a host. The driver's count stays within the budget
and below the prediction by at most 64 MiB, and does not grow after the first updates. An audited run has each byte at its planned
place. One MiB below the floor is refused. Takes 40 GiB of host memory. Without a usable GPU, a line says so, and the script
succeeds.
"""

import json
import pathlib
import random
import shutil
import sys
import time
from array import array

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "cuda"), str(ROOT / "bench")]

from _plimsoll import Test  # noqa: E402
from nvml import Gpu, Sampler  # noqa: E402
from program import GPU, no_gpu  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
SETTLED = 3  # updates, after which nothing may grow
CONFIG = """\
seed = 1
[model]
kind = "gpt2"
init = "random"
layers = {layers}
width = {width}
heads = {heads}
context = 1024
vocab = 50304
dropout = 0.0
[data]
train = "tokens.bin"
format = "u16"
[train]
effective_batch = {samples}
updates = {updates}
gradient_clip = 1.0
save_every = 0
[optimizer]
name = "adamw"
learning_rate = 3e-4
[schedule]
name = "constant"
[precision]
compute = "bf16"
"""


def configure(test, **settings):
    test.write("config.toml", CONFIG.format(**settings))


def planned(test, *budgets):
    return test.succeeds("plan", "config.toml", *GPU, *budgets, "--json")


def follow(test, gpu, label, updates, budgets):
    """Trains until the last line of metrics is there; what is saved then is not waited for. Bytes after SETTLED updates,
    the samples, tokens/s and the process's peak on the host."""
    run = test.path(label)
    settled, lines = None, 0
    with Sampler(gpu) as sampler:
        process = test.start("train", "config.toml", *GPU, "--run", label, *budgets)
        while lines < updates and process.poll() is None:
            path = run / "metrics.jsonl"
            lines = path.read_bytes().count(b"\n") if path.exists() else 0
            if settled is None and lines >= SETTLED:
                settled = sampler.most
            time.sleep(0.02)
        process.kill()
        said = process.communicate()[1].decode("utf-8", "replace")
    if not test.equal(f"{label}: updates", lines, updates):
        print(said[-800:])
    last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:] if lines else []
    host = last[-1]["vm_hwm_bytes"] if last else 0
    speed = sorted(line["tokens_per_second"] for line in last)[len(last) // 2] if last else 0
    shutil.rmtree(run, ignore_errors=True)
    return settled, sampler, speed, host


def within(test, gpu, name, updates, *budgets):
    label = f"{name}-{budgets[1]}"
    plan = planned(test, *budgets)
    if plan is None:
        return
    budget, predicted = plan["budget"]["memory"], plan["predicted"]["process_bytes"]
    settled, sampler, speed, host = follow(test, gpu, label, updates, budgets)
    if sampler.peak is None or settled is None:
        test.that(False, f"{label}: bytes were counted")
        return
    more = (sampler.most - settled) / MIB
    print(f"  {label}: predicted {predicted / MIB:.1f} MiB, counted {sampler.peak / MIB:.1f} in {sampler.samples} samples; "
          f"{more:.1f} more after {SETTLED} of {updates} updates; micro-batch {plan['batch']['micro']}, "
          f"{speed:,.0f} tokens/s, predicted {plan['predicted']['update_seconds']:.3f} s an update; "
          f"host {host / MIB:.1f} MiB of {(plan['predicted']['host_bytes'] or 0) / MIB:.1f}", flush=True)
    test.that(sampler.peak <= budget, f"{label}: {sampler.peak} bytes counted within {budget}")
    test.that(0 <= predicted - sampler.peak <= 64 * MIB, f"{label}: predicted - counted is {predicted - sampler.peak}")
    test.that(sampler.most <= settled, f"{label}: {sampler.most - settled} bytes more after {SETTLED} updates")


def audited(test, name, *budgets):
    run = f"audit-{name}"
    report = train(test, run, *budgets, "--updates", "1", "--audit")
    if report is not None:
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{run}: {key}", report["measured"][key], report["predicted"][key])
        print(f"  {run}: {report['measured']['live_bytes']} bytes live, as planned", flush=True)
    shutil.rmtree(test.path(run), ignore_errors=True)


def train(test, run, *more):
    result = test.run("train", "config.toml", *GPU, "--run", run, *more, "--json", timeout=300)
    if test.equal(f"exit code of {run}", result.code, 0):
        return result.json()
    print("\n".join(result.text())[-2000:])
    return None


def refused(test, *budgets):
    floor = planned(test, "--memory", "60GiB", *budgets)["bounds"]["floor_bytes"]
    result = test.run("train", "config.toml", *GPU, "--memory", floor - MIB, *budgets, "--run", "refused", "--json")
    test.equal("exit code one MiB below the floor", result.code, 3)
    test.equal("code", ((result.json() or {}).get("infeasible") or {}).get("code"), "E-PLAN-FIT")


def small(test):
    gpu = Gpu()
    configure(test, layers=12, width=768, heads=12, samples=32, updates=200)
    for memory in ("4GiB", "8GiB"):
        within(test, gpu, "124M", 200, "--memory", memory)
    audited(test, "124M", "--memory", "4GiB")
    refused(test)


def large(test):
    gpu = Gpu()
    configure(test, layers=48, width=1600, heads=25, samples=16, updates=10)
    host = ["--host-memory", "40GiB"]
    for memory in ("8GiB", "16GiB", "40GiB"):
        within(test, gpu, "1.5B", 10, "--memory", memory, *host)


def large_audited(test):
    configure(test, layers=48, width=1600, heads=25, samples=16, updates=10)
    audited(test, "1.5B", "--memory", "8GiB", "--host-memory", "40GiB")


def main():
    test = Test("cuda_budgets")
    missing = no_gpu(test)
    if missing:
        print(f"no GPU: {missing}")
        test.finish()
    tokens = random.Random(7).choices(range(50304), k=64 * 1024 + 1)
    (test.folder / "tokens.bin").write_bytes(array("H", tokens).tobytes())
    test.run_parts(small, large, large_audited)
    test.finish()


if __name__ == "__main__":
    main()
