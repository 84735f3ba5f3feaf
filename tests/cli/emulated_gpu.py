#!/usr/bin/env python3
"""The GPU's kernels over the emulation, through the commands: python3 emulated_gpu.py path/to/plimsoll

LoRA over a GGUF file in Q4_K blocks trains as on the processor: losses near its own, the same bits for several plans and orders
of the streams, every byte at its planned place. tests/run has the same for models without files.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cuda"))

from _plimsoll import Test
from _trace import faults_of, read_trace
from kinds import lora_q4_k

GPU = ["--device", "cuda", "--unverified"]
SIZES = {"layers": 1, "width": 256, "context": 32, "batch": 4, "micro": 2}
PLANS = {
    "ample": ["--memory", "2GiB"],
    "again": ["--memory", "2GiB", "--set", "plan.recompute=all"],
    "launched": ["--memory", "2GiB", "--set", "machine.gpu_graphs=false"],
    "host": ["--memory", "2GiB", "--host-memory", "2GiB"],
}


def emulated_program(test):
    return str(pathlib.Path(test.binary).parent / "tests" / "emulated" / "plimsoll")


def losses(test, run):
    return [(line["loss"], line["loss_bits"], line["grad_norm_bits"]) for line in test.lines(run)]


def q4_k(test):
    processor, emulated = test.binary, emulated_program(test)
    config, more = lora_q4_k(test, 3, SIZES)
    train = ["train", config, *more, "--json"]
    test.succeeds(*train, "--device", "cpu", "--memory", "1GiB", "--run", "cpu")
    test.binary = emulated
    for order, (name, plan) in enumerate(PLANS.items()):
        os.environ["PLIMSOLL_EMULATED_ORDER"] = str(order)
        report = test.succeeds(*train, *GPU, *plan, "--run", name, "--audit")
        if report is None:
            continue
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{name}: {key}", report["measured"][key], report["predicted"][key])
        test.equal(f"{name}: bits", losses(test, name), losses(test, "ample"))
    test.binary = processor
    for gpu, cpu in zip(losses(test, "ample"), losses(test, "cpu"), strict=True):
        test.that(abs(gpu[0] - cpu[0]) <= 2e-5 * cpu[0], f"a loss of {gpu[0]}, on the processor {cpu[0]}")


def profiled(test):
    """The stamps of a GPU: parts add up, the losses of a training, a sound trace."""
    test.binary = emulated_program(test)
    more = [*GPU, "--memory", "1GiB", "--set", "model.layers=1", "--set", "train.micro_batch=4"]
    found = test.succeeds("profile", "config.toml", *more, "--updates", "1", "--trace", "gpu.trace", "--json")
    test.near("sum of the parts", sum(found["parts"].values()), found["update_seconds"], 1e-9)
    test.that(found["parts"]["kernels"] > 0.5 * found["update_seconds"], f"kernels: {found['parts']}")
    test.equal("faults of the trace", faults_of(read_trace(test.path("gpu.trace")), found, 2), [])
    test.succeeds("train", "config.toml", *more, "--updates", "2", "--run", "trained", "--json")
    trained = [line["loss"] for line in test.lines("trained")]
    test.equal("losses", [window["loss"] for window in found["windows"]], trained)


def main():
    test = Test("emulated_gpu")
    test.run_parts(q4_k, profiled)
    test.finish()


if __name__ == "__main__":
    main()
