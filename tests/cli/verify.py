#!/usr/bin/env python3
"""plimsoll verify: a correct program passes, deliberate faults are detected, and its runs can be repeated."""

import json
import random
import resource
import shlex
import signal
import struct
import time

from _plimsoll import Test

SUBJECTS = {"gradient", "batch", "bits", "precision", "rounding", "control"}
CONTROLS = 6
REPORT = {
    "schema": "plimsoll.verify/1",
    "passed": bool,
    "samples": int,
    "context": int,
    "precision": {"compute": str, "optimizer_state": str},
    "checks": [{"subject": str, "what": str, "found": str, "limit": str, "outcome": str, "command": str}],
}


def verified(test, name, *arguments):
    report = test.succeeds("verify", "config.toml", "--json", *arguments)
    if report is None:
        return []
    test.shape(f"report of {name}", report, REPORT)
    test.that(report["passed"], f"{name} is verified")
    checks = report["checks"]
    test.equal(f"subjects of {name}", {check["subject"] for check in checks}, SUBJECTS)
    for check in checks:
        test.equal(f"{name}, {check['subject']}: {check['what']} ({check['found']})", check["outcome"], "passed")
    test.equal(f"controls of {name}", sum(check["subject"] == "control" for check in checks), CONTROLS + ("sums" in name))
    return checks


def usual(test):
    checks = verified(test, "the usual configuration", "--folder", test.path("kept"))
    left = sorted(path.name for path in (test.path("kept") / "plimsoll-verify").iterdir())
    test.equal("what was left behind", left, ["config.toml", "error", "out", "tokens"])
    batch = [check for check in checks if check["subject"] == "batch"]
    test.equal("splits of a window of 8, and one that is clipped", len(batch), 5)
    shown = {tuple(shlex.split(check["command"])[1:]) for check in checks if check["command"]}
    test.that(len(shown) > 15, f"{len(shown)} commands are shown")
    for command in shown:
        test.equal(f"exit code of `{' '.join(command)}`", test.run(*command).code, 0)


def others(test):
    wide = ["data.format=u32", "data.train=wide.bin", "data.validation=", "model.vocab=70000", "model.width=4"]
    draw = random.Random(2)
    test.write("wide.bin", struct.pack("<4000I", *(draw.randrange(70000) for _ in range(4000))))
    for name, sets in {
        "bf16": ["precision.compute=bf16", "precision.optimizer_state=bf16"],
        "fp16": ["precision.compute=fp16", "precision.optimizer_state=8bit", "plan.recompute=all"],
        "sums": ["precision.gradients=bf16", "precision.compute=bf16"],
        "sums and weights": ["precision.gradients=bf16", "precision.compute=bf16", "precision.parameters=bf16"],
        "lion": ["optimizer.name=lion", "train.gradient_clip=0", "model.dropout=0", "data.order=sequential"],
        "half-lives": ["optimizer.half_lives=[\"40samples\",\"80samples\"]", "train.effective_batch=5"],
        "adafactor": ["optimizer.name=adafactor", "train.gradient_clip_value=1e-3", "train.gradient_clip=0"],
        "sgd": ["optimizer.name=sgd", "optimizer.momentum=0.5", "plan.group=2", "model.layers=1"],
        "sgd alone": ["optimizer.name=sgd", "machine.device=sim"],
        "a scale": ["precision.compute=fp16", "precision.loss_scale=1024"],
        "tokens of four bytes": [*wide, "model.layers=1", "train.effective_batch=2", "memory.budget=256MiB"],
        "smoothed": ["train.label_smoothing=0.1", "train.z_loss=1e-3", "schedule.name=one_cycle", "train.effective_batch=6"],
    }.items():
        verified(test, name, *(part for each in sets for part in ("--set", each)))


# A window looks up few rows of a large vocabulary: their gradients are kept apart. One that does not clear them still runs to its
# end, with other gradients.
def large_vocabulary(test):
    random_tokens = random.Random(1)
    tokens = [min(int(random_tokens.paretovariate(0.5)), 50256) for _ in range(4 * 32 - 15)]
    test.write("tokens.bin", struct.pack(f"<{len(tokens)}H", *tokens))
    sets = {"data.train": "tokens.bin", "data.format": "u16", "data.validation": "", "model.vocab": 50257, "model.layers": 1,
            "model.width": 8, "model.heads": 1, "train.effective_batch": 4, "train.micro_batch": 2, "plan.group": 1}
    run = ["train", "config.toml", "--memory", "600MiB", "--updates", "2", "--json",
           *(part for key, value in sets.items() for part in ("--set", f"{key}={value}"))]
    right = test.succeeds(*run, "--run", "cleared")
    kept = test.run(*run, "--run", "not-cleared", "--fault", "keep_gradients")
    test.that(kept.code in (0, 4), f"it ends as a training does: {kept.code} {kept.text()[1]}")
    if kept.code == 0:
        test.that(kept.json()["final"]["parameters_xxh128"] != right["final"]["parameters_xxh128"], "and is another one")


# A failure with a cause outside of the trainer is no verdict on it.
def broken(test):
    few = 100 << 10
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (few, few))  # noqa: E731
    result = test.run("verify", "config.toml", "--json", before=limit)
    test.equal("exit code where files may not grow", result.code, 5)
    test.that(result.json()["code"].startswith("E-"), f"it is an error: {result.json()}")


# A training that is wrong ends with exit code 7. What verify makes wrong can be made wrong by hand.
def wrong(test):
    text = test.succeeds("verify", "config.toml", "--set", "train.effective_batch=2")
    test.that(text is not None and text.rstrip().splitlines()[-1].startswith("verified: windows of 2 samples"), f"{text}")
    run = ["train", "config.toml", "--set", "train.micro_batch=4", "--updates", "2", "--json"]
    right = test.succeeds(*run, "--run", "right")
    halves = test.succeeds(*run, "--run", "halves", "--fault", "weights=0.5,1")
    test.that(right["final"]["parameters_xxh128"] != halves["final"]["parameters_xxh128"], "a fault is one")
    for i, fault in enumerate(("weights=", "weights=1,", "overflow=1:2", "nothing", "weights=1,2,3")):
        test.fails(2, "E-USAGE", *run[:-1], "--run", f"never-{i}", "--fault", fault)


def interrupted(test):
    process = test.start("verify", "config.toml", "--json", "--set", "model.layers=4")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    test.equal("exit code of what is stopped", process.returncode, 6)
    test.equal("code", json.loads(out)["code"], "E-INTERRUPTED")


IMAGES = 16


def idx(sizes, numbers):
    return bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + bytes(numbers)


# A small ResNet on images of 8 x 8; the statistics of groups of 8 images, and windows of 16.
def write_images(test):
    draw, size = random.Random(5), 8
    labels = [draw.randrange(4) for _ in range(IMAGES)]
    pixels = [draw.randrange(256) // (1 + k) for k in labels for _ in range(size * size)]
    test.write("images.idx", idx([IMAGES, size, size], pixels))
    test.write("labels.idx", idx([IMAGES], labels))
    test.write("images.toml", """\
seed = 3
[model]
kind = "resnet"
layer = "basic"
stem = "cifar"
stem_width = 8
depths = [1, 1]
widths = [8, 16]
channels = 1
classes = 4
[data]
format = "idx"
train = "images.idx"
labels = "labels.idx"
[image]
flip = true
pad_crop = 1
[norm]
stat_batch = 8
[train]
effective_batch = 16
updates = 4
[optimizer]
name = "sgd"
learning_rate = 0.1
momentum = 0.9
[memory]
budget = "64MiB"
[machine]
threads = 2
""")


# Running statistics are compared as well, and each way to get them wrong is noticed.
def images(test):
    write_images(test)
    report = test.succeeds("verify", "images.toml", "--json")
    if report is None:
        return
    test.shape("report of images", report, REPORT)
    test.that(report["passed"], "images are verified")
    test.equal("window and groups", (report["samples"], report["norm"]), (12, "ghost BN(6)"))
    checks = report["checks"]
    test.equal("subjects", {check["subject"] for check in checks}, SUBJECTS)
    for check in checks:
        alike = check["found"] == "all samples weigh the same"
        test.equal(f"images, {check['subject']}: {check['what']} ({check['found']})", check["outcome"],
                   "skipped" if alike else "passed")
    test.equal("splits, one with a clip and one with an absent row",
               sum("statistics" in check["found"] for check in checks if check["subject"] == "batch"), 3)
    noticed = [check["what"] for check in checks if check["subject"] == "control" and "statistics" in check["what"]]
    test.equal("controls of statistics", len(noticed), 4)
    text = test.succeeds("verify", "images.toml", "--set", "train.effective_batch=4", "--set", "norm.stat_batch=2")
    last = text.rstrip().splitlines()[-1] if text else ""
    test.that(last.startswith("verified: windows of 4 images, ghost BN(2), compute"), last)
    test.write("three.idx", idx([3, 8, 8], range(192)))
    test.write("three-labels.idx", idx([3], range(3)))
    three = ["--set", "data.train=three.idx", "--set", "data.labels=three-labels.idx"]
    test.fails(5, "E-DATA-SHORT", "verify", "images.toml", *three)


# The faults of the controls can be made by hand.
def wrong_statistics(test):
    write_images(test)
    run = ["train", "images.toml", "--set", "train.micro_batch=8", "--set", "plan.group=1", "--updates", "1", "--json"]
    right = test.succeeds(*run, "--run", "right-images")
    again = test.succeeds(*run, "--run", "again-images")
    test.equal("the same training", again["final"]["parameters_xxh128"], right["final"]["parameters_xxh128"])
    for fault in ("micro", "twice", "replay"):
        wrong_one = test.succeeds(*run, "--run", f"wrong-{fault}", "--fault", f"statistics={fault}")
        test.that(wrong_one["final"]["parameters_xxh128"] != right["final"]["parameters_xxh128"], f"{fault} is a fault")
    whole = test.succeeds(*run, "--run", "no-absent-row", "--fault", "statistics=rows")
    test.equal("without absent rows", whole["final"]["parameters_xxh128"], right["final"]["parameters_xxh128"])
    test.fails(2, "E-USAGE", *run[:-1], "--run", "never-statistics", "--fault", "statistics=nothing")
    test.fails(2, "E-USAGE", "train", "config.toml", "--updates", "1", "--run", "no-statistics", "--fault", "statistics=twice")


# The trainings of verify have lengths and splits of their own.
def not_used(test):
    result = test.run("verify", "config.toml", "--memory", "10MiB", "--set", "train.micro_batch=2", "--set", "model.layers=1")
    notes = [line for line in result.text()[1].splitlines() if "is not used" in line]
    test.equal("what is said to be unused", ["train.micro_batch" in note for note in notes], [True])


def refused(test):
    test.fails(3, "E-PLAN-FIT", "verify", "config.toml", "--memory", "10MiB")
    test.fails(2, "E-CONFIG-KEY", "verify", "config.toml", "--set", "train.effective_bach=2")
    test.write("short.txt", "a" * 60)
    test.fails(5, "E-DATA-SHORT", "verify", "config.toml", "--set", "data.train=short.txt")


def main():
    test = Test("verify")
    test.run_parts(usual, others, large_vocabulary, broken, wrong, interrupted, images, wrong_statistics, not_used, refused)
    test.finish()


if __name__ == "__main__":
    main()
