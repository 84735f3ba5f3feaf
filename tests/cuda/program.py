#!/usr/bin/env python3
"""Training on a GPU, through the commands: python3 program.py path/to/plimsoll [--kind K] [--precision P] [--small]

For every kind (kinds.py) and budget, residency and process, with CUDA graphs and without: losses have equal bits, near those of
the processor; every byte is at its planned place; a killed run is resumed with the same bits. With GPT-2, the driver counts no
further bytes, and errors have their codes. Without a usable GPU, a line says so, and the script succeeds. With --device cpu the
processor trains instead, at fewer budgets.
"""

import functools
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "bench")]

from _plimsoll import Test  # noqa: E402
from kinds import KINDS, LARGE, SMALL  # noqa: E402
from nvml import Gpu, Sampler  # noqa: E402

GPU = ["--device", "cuda", "--unverified"]
MIB, GIB = 1 << 20, 1 << 30
# Relative tolerances of a loss: fp32 sums in other orders; with bf16 products, their effect over 20 updates.
NEAR_CPU = {"fp32": 2e-4, "bf16": 2e-2}
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


class Training:
    """A kind in a precision, on the device."""

    def __init__(self, test, kind, precision):
        self.test, self.kind, self.precision, self.name = test, kind, precision, f"{kind}-{precision}"
        self.gpu = test.arguments.device == "cuda"
        self.device = GPU if self.gpu else ["--device", "cpu"]
        self.updates, self.save_every, self.killed_after = (4, 2, 3) if test.arguments.small else (20, 5, 8)
        config, options = KINDS[kind](test, self.updates, SMALL if test.arguments.small else LARGE)
        self.words = [config, *options, "--set", f"precision.compute={precision}"]

    def floor(self, *more):
        plan = self.test.succeeds("plan", *self.words, *self.device, "--memory", "4GiB", *more, "--json")
        return plan["bounds"]["floor_bytes"]

    @functools.cached_property
    def budgets(self):
        """Values of --memory, --host-memory and --disk: ample, the least on the device, the least with a host."""
        ample, floor = ["--memory", "4GiB"], ["--memory", self.floor()]
        disk = ["--disk", f"{self.test.path('pages')}:1GiB", "--set", "plan.optimizer_state=disk"]
        if not self.gpu:
            return {"ample": ample, "floor": floor, "disk": [*ample, *disk]}
        single, host = ["--set", "machine.gpu_graphs=false"], ["--host-memory", "2GiB"]
        beside = ["--memory", self.floor(*host), *host]
        few = {"ample": ample, "without-graphs": [*ample, *single], "floor": floor, "host": beside}
        if self.kind != "gpt2":
            return few
        return {**few, "again": ample, "recompute": [*ample, "--set", "plan.recompute=all"],
                "host-without-graphs": [*beside, *single], "disk": [*floor, *host, *disk]}  # fmt: skip

    def run(self, label, *more, device=None):
        run = f"{self.name}-{label}"
        return self.test.succeeds("train", *self.words, *(device or self.device), "--run", run, *more, "--json")

    def numbers(self, label):
        lines = self.test.lines(f"{self.name}-{label}")
        return [(line["update"], line["loss_bits"], line["grad_norm_bits"]) for line in lines]

    def losses(self, label):
        return [line["loss"] for line in self.test.lines(f"{self.name}-{label}")]

    # Parts.

    def same_bits(self):
        first = None
        for label, budgets in self.budgets.items():
            report = self.run(label, *budgets)
            if report is None:
                continue
            found = (self.numbers(label), report["final"]["parameters_xxh128"], report["final"]["validation_loss"])
            self.test.equal(f"{self.name}-{label}: updates", len(found[0]), self.updates)
            first = first or found
            self.test.that(found == first, f"{self.name}-{label} has the bits of {self.name}-ample")
            used, planned = report["measured"].get("host_bytes"), report["predicted"].get("host_bytes")
            if used is not None and planned is not None:
                self.test.that(used <= planned, f"{label}: {used} bytes on the host of {planned} planned")

    def near_cpu(self):
        if self.run("cpu", "--memory", "4GiB", device=["--device", "cpu"]) is None:
            return None
        gpu, cpu = self.losses("ample"), self.losses("cpu")
        worst, most = max(abs(a - b) / abs(b) for a, b in zip(gpu, cpu, strict=True)), NEAR_CPU[self.precision]
        ends = f"first {gpu[0]:.6f} and {cpu[0]:.6f}, last {gpu[-1]:.6f} and {cpu[-1]:.6f}"
        print(f"  {self.name}: losses differ by {worst:.2e} at most, {ends}")
        self.test.that(worst <= most, f"{self.name}: losses within {most:g} of the processor's, not {worst:.2e}")
        return worst

    def audited(self):
        """Bytes of the worst difference from the plan."""
        worst = 0
        for label, budgets in self.budgets.items():
            if label in ("again", "without-graphs", "host-without-graphs"):
                continue
            report = self.run(f"audit-{label}", *budgets, "--updates", "3", "--audit")
            if report is None:
                continue
            for key in ("arena_bytes", "live_bytes"):
                measured, planned = report["measured"][key], report["predicted"][key]
                self.test.equal(f"{self.name}, {label}: {key} of an audited run", measured, planned)
                worst = max(worst, abs(measured - planned))
            self.test.equal(f"{self.name}, {label}: bits of an audited run", self.numbers(f"audit-{label}"),
                            self.numbers("ample")[:3])  # fmt: skip
        return worst

    def killed(self):
        test, run = self.test, f"{self.name}-killed"
        saving = ["--set", f"train.save_every={self.save_every}", "--memory", "4GiB"]
        process = test.start("train", *self.words, *self.device, "--run", run, *saving)
        test.wait_for_lines(process, run, self.killed_after)
        process.kill()
        process.communicate()
        test.equal(f"{run}: status", test.report(run)["status"], "running")
        report = self.run("killed", *saving, "--resume")
        if report is not None:
            test.equal(f"{run}: bits in two pieces", self.numbers("killed"), self.numbers("ample"))
            whole = test.report(f"{self.name}-ample")["final"]
            test.equal(f"{run}: parameters", report["final"]["parameters_xxh128"], whole["parameters_xxh128"])


def bits(test, kind, precision):
    training = Training(test, kind, precision)
    training.same_bits()
    worst = training.near_cpu()
    off = training.audited()
    training.killed()
    test.figures[training.name] = {"updates": training.updates, "budgets": list(training.budgets), "loss_difference": worst,
                                   "audit_bytes": off}  # fmt: skip


# Parts of GPT-2 alone.


def counted(test):
    """The driver's count, from before the process to its end, is within the budget and near the prediction."""
    training = Training(test, "gpt2", "fp32")
    gpu = Gpu() if training.gpu else Gpu(library=None)
    if not test.that(gpu.source is not None, "NVML or nvidia-smi tells the bytes in use"):
        return
    for label, budgets in training.budgets.items():
        if label in ("again", "recompute"):
            continue
        plan = test.succeeds("plan", *training.words, *training.device, *budgets, "--json")
        budget, predicted = plan["budget"]["memory"], plan["predicted"]["process_bytes"]
        with Sampler(gpu) as sampler:
            training.run(f"counted-{label}", *budgets)
        print(f"  {label}: budget {budget / MIB:.1f} MiB, predicted {predicted / MIB:.1f}, counted {sampler.peak / MIB:.1f} "
              f"({gpu.source}, {sampler.samples} samples)")
        test.figures[f"counted-{label}"] = {"budget": budget, "predicted": predicted, "counted": sampler.peak}
        test.that(sampler.peak <= budget, f"{label}: {sampler.peak} bytes counted within {budget}")
        test.that(0 <= predicted - sampler.peak <= 64 * MIB, f"{label}: predicted - counted is {predicted - sampler.peak}")


def below_the_floor(test):
    training = Training(test, "gpt2", "fp32")
    free = ["--set", 'train.micro_batch="auto"', "--set", 'train.accumulation="auto"']
    for label, extra in (("given", []), ("auto", free)):
        floor = training.floor(*extra)
        below = [*training.words, *training.device, *extra, "--memory", floor - MIB]
        result = test.run("train", *below, "--run", f"below-{label}", "--json")
        test.equal(f"{label}: exit code one MiB below the floor", result.code, 3)
        refused = (result.json() or {}).get("infeasible") or {}
        test.equal(f"{label}: code", refused.get("code"), "E-PLAN-FIT")
        test.equal(f"{label}: short by", refused.get("short_bytes"), MIB)
        test.figures.setdefault("below-the-floor", {})[label] = {"floor": floor, "code": refused.get("code")}
        test.that(refused.get("remedies"), f"{label}: there are remedies")
        for remedy in refused.get("remedies", []):
            fixed = test.succeeds("plan", *below, *remedy["arguments"], "--json")
            if fixed is not None:
                within = fixed["predicted"]["process_bytes"] <= fixed["budget"]["memory"]
                test.that(fixed["status"] == "fits" and within, f"{label}: '{remedy['text']}' fits")


def crowded(test):
    """A second process takes most of the device between two parts of a run."""
    if test.arguments.device != "cuda":
        return
    training = Training(test, "gpt2", "fp32")
    words = [*training.words, *training.device, *BIG]
    arena = test.succeeds("plan", *words, "--json")["predicted"]["arena_bytes"]
    if not test.that(arena > 3 * GIB, f"the arena is large: {arena}"):
        return
    training.run("crowded", *BIG, "--updates", "2")
    run = f"{training.name}-crowded"
    checkpoint = test.state(run)
    before = checkpoint.read_bytes()
    other = subprocess.Popen([sys.executable, "-c", TAKE, str(2 * GIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if test.equal("the other process", other.stdout.readline().strip(), "taken"):
            test.fails(3, "E-MEM-ARENA", "train", *words, "--run", run, "--updates", "4", "--resume")
    finally:
        other.communicate(timeout=60)
    test.that(checkpoint.read_bytes() == before, "the checkpoint is as it was")
    report = training.run("crowded", *BIG, "--updates", "4", "--resume")
    test.equal("updates after the other is gone", report and report["updates"], 4)
    test.figures["crowded"] = {"arena": arena, "updates": report and report["updates"]}


def options(parser):
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="small models for few updates, as for an emulation")
    parser.add_argument("--kind", choices=list(KINDS), help="its bits alone; default: all kinds, and the faults")
    parser.add_argument("--precision", choices=list(NEAR_CPU))
    parser.add_argument("--figures", type=pathlib.Path, metavar="FILE", help="written as JSON at the end")


def main():
    test = Test("cuda", options)
    test.figures, given = {}, test.arguments
    missing = no_gpu(test) if given.device == "cuda" else None
    if missing:
        print(f"no GPU: {missing}")
        test.finish()
    kinds, precisions = [given.kind] if given.kind else KINDS, [given.precision] if given.precision else NEAR_CPU
    each = [functools.partial(bits, kind=kind, precision=name) for kind in kinds for name in precisions]
    test.run_parts(*each, *([] if given.kind else [below_the_floor, crowded, counted]))
    if given.figures:
        given.figures.write_text(json.dumps(test.figures))
    test.finish()


if __name__ == "__main__":
    main()
