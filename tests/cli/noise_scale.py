#!/usr/bin/env python3
"""The noise of the gradient, through the commands: python3 noise_scale.py path/to/plimsoll

Measuring changes no bit of the training and has its exact bytes in the plan. The sums have the same bits in every plan of a
micro-batch and group, and equal those of runs that train on the samples of one round alone. `runs show`, the report and `plan`
tell what was measured, or why nothing was.
"""
import functools
import json
import pathlib
import shutil

from _data import packed_chats
from _plimsoll import Test

UPDATES = 6
BASE = {"train.effective_batch": 16, "train.micro_batch": 2, "train.updates": UPDATES, "plan.group": 1, "model.dropout": 0,
        "train.evaluate_samples": 4}  # fmt: skip
DISK = {"plan.optimizer_state": "disk", "plan.parameters": "disk", "plan.gradients": "disk"}


def sets(*tables):
    return [part for table in tables for key, value in table.items() for part in ("--set", f"{key}={value}")]


def train(test, run, *more, keys=None, config="config.toml"):
    said = test.succeeds("train", config, *sets(BASE, keys or {}), "--run", run, *more, "--json")
    return (said["final"]["parameters_xxh128"], said["final"]["loss_bits"], [line["loss_bits"] for line in test.lines(run)])


def noise_of(test, run):
    return [line.get("noise") for line in test.lines(run)]


def bits(test):
    """Losses and weights with and without a measurement, audited, in memory and from a disk, with and without slots for rows."""
    disk, packed = ["--disk", f"{test.path('pages')}:1GiB"], {"batch.packing": "true"}
    llama = {"model.kind": "llama", "model.kv_heads": 1, "model.mlp_width": 64}
    for name, keys in (("rows", {}), ("slots", {"model.vocab": 8192, "model.context": 16, "model.width": 64}),
                       ("bf16", {"precision.compute": "bf16", "precision.gradients": "bf16", "optimizer.name": "lion"}),
                       ("group", {"plan.group": 2}), ("lora", {**llama, "adapter.kind": "lora", "adapter.rank": 4}),
                       ("packed", packed)):  # fmt: skip
        budget, config = ["--memory", "1GiB"], packed_chats(test, UPDATES) if "batch.packing" in keys else "config.toml"
        train_one = functools.partial(train, test, config=config)
        plain = train_one(f"{name}-plain", *budget, keys=keys)
        measured = {}
        for plan, more, policy in (("memory", [], {}), ("recomputed", [], {"plan.recompute": "all", "plan.loss_chunks": 4}),
                                   ("disk", disk, DISK)):  # fmt: skip
            run = f"{name}-{plan}"
            got = train_one(run, *budget, *more, "--audit", keys={**keys, **policy, "train.noise_every": 1})
            test.equal(f"bits of {run}", got, plain)
            measured[plan] = noise_of(test, run)
            phases = json.loads(test.path(f"{run}/plan.json").read_text())["predicted"]["phases"]
            test.that("noise" in [phase["name"] for phase in phases], f"{run} plans a phase")
        test.that(all(measured["memory"]), f"every window of {name} is measured")
        for plan, sums in measured.items():
            test.equal(f"sums of {name}, {plan}", sums, measured["memory"])
        for line in test.lines(f"{name}-memory"):
            test.near("the sum of the window", line["noise"]["window"], line["grad_norm"] ** 2, 1e-12)
            if config == "config.toml":
                test.equal("samples of the first round", line["noise"]["samples_first"], 2 * keys.get("plan.group", 1))
                test.near("samples of the window", line["noise"]["samples_window"], 16, 1e-3)  # the last one may be short


def first_round(test):
    """The first sum is the norm of a window that has the samples of the first round alone; neither scale nor clip is in it."""
    order = {"data.order": "sequential"}
    alone = {**order, "train.effective_batch": 2, "train.updates": 1, "precision.compute": "fp32"}
    train(test, "alone", keys=alone)
    want = test.lines("alone")[0]["grad_norm"] ** 2
    whole = {**order, "train.noise_every": 1, "precision.compute": "fp32"}
    for name, keys, relative in (("plain", {}, 1e-5), ("clipped", {"train.gradient_clip": 0.001}, 1e-5),
                                 ("values", {"train.gradient_clip_value": 1e-6}, 1e-5),
                                 ("fp16", {"precision.compute": "fp16"}, 2e-2),
                                 ("fp16-scale", {"precision.compute": "fp16", "precision.loss_scale": 128}, 2e-2)):  # fmt: skip
        train(test, f"first-{name}", keys={**whole, **keys})
        line = test.lines(f"first-{name}")[0]
        test.near(f"the first sum, {name}", line["noise"]["first"], want, relative)
        test.near(f"the window's sum, {name}", line["noise"]["window"], line["grad_norm"] ** 2, 1e-12)


def windows(test):
    """Each Nth update is measured, also after a resume that changes N; a window of one round is not, and the plan says so."""
    train(test, "third", keys={"train.noise_every": 3})
    test.equal("measured updates", [bool(noise) for noise in noise_of(test, "third")], [False, False, True] * 2)
    train(test, "cut", keys={"train.updates": 4, "train.noise_every": 4})
    test.succeeds("train", "--run", "cut", "--resume", "--set", "train.updates=6", "--set", "train.noise_every=5", "--json")
    test.equal("after a resume", [bool(noise) for noise in noise_of(test, "cut")], [False] * 3 + [True, True, False])
    one = sets(BASE, {"train.micro_batch": 16, "train.noise_every": 1})
    plan = test.succeeds("plan", "config.toml", *one, "--json")
    test.equal("measured with one round", plan["noise"]["measured"], False)
    test.that("noise" not in [phase["name"] for phase in plan["predicted"]["phases"]], "no phase with one round")
    test.that("not measured: a window has one round" in test.succeeds("plan", "config.toml", *one), "the plan says why")
    train(test, "one", keys={"train.micro_batch": 16, "train.noise_every": 1})
    test.equal("with one round", noise_of(test, "one"), [None] * UPDATES)


def planned(test):
    """The seconds and the traffic of a measurement, and those of an evaluation and of a save, from which the whole follows."""
    keys = sets(BASE, {"train.noise_every": 2, "train.evaluate_every": 2})
    plan = test.succeeds("plan", "config.toml", *keys, "--json")
    run, predicted = plan["run"], plan["predicted"]
    for key in ("evaluate_seconds", "save_seconds"):
        test.that(predicted[key] > 0, f"{key}: {predicted[key]}")
    test.near("evaluations", run["evaluation_seconds"], run["evaluations"] * predicted["evaluate_seconds"], 1e-9)
    test.that(run["save_seconds"] >= run["saves"] * predicted["save_seconds"], "saves with the final weights")
    test.near("measurements", run["noise_seconds"], UPDATES // 2 * plan["noise"]["seconds"], 1e-9)
    parts = ("seconds", "evaluation_seconds", "save_seconds", "noise_seconds")
    test.near("in all", run["total_seconds"], sum(run[part] for part in parts), 1e-9)
    test.equal("read in memory", plan["noise"]["read_bytes"], 0)
    test.that("gradient noise: " in test.succeeds("plan", "config.toml", *keys), "the plan tells the seconds")
    disk = ["--disk", f"{test.path('pages')}:1GiB", *sets(DISK)]
    from_disk = test.succeeds("plan", "config.toml", *keys, *disk, "--json")
    test.that(from_disk["noise"]["read_bytes"] > 0, f"read from the disk: {from_disk['noise']}")
    test.that(from_disk["noise"]["seconds"] > plan["noise"]["seconds"], "reading takes time")
    without = test.succeeds("plan", "config.toml", *sets(BASE), "--json")
    test.that("noise" not in without and without["run"]["noise_seconds"] == 0, "nothing without the key")


def ranks(test):
    """With several ranks the first round is that of the first one. All of its samples are in the first round of one process."""
    if not (pathlib.Path(test.binary).with_name("plimsoll_mpi.so").exists() and shutil.which("mpirun")):
        print("skipped: several ranks need plimsoll_mpi.so and mpirun")
        return
    keys = {"data.order": "sequential", "machine.threads": 1}
    train(test, "alone-1", keys={**keys, "train.noise_every": 1})
    for every in (0, 1):
        words = ["config.toml", *sets(BASE, keys, {"train.noise_every": every}), "--run", f"ranks-{every}", "--audit", "--json"]
        test.succeeds("launch", "-n", 2, "train", *words)
    bits = [[line["loss_bits"] for line in test.lines(f"ranks-{every}")] for every in (0, 1)]
    test.equal("losses of measured ranks", bits[1], bits[0])
    first, alone = noise_of(test, "ranks-1")[0], noise_of(test, "alone-1")[0]
    test.equal("the first round of the first rank", {**first, "window": 0}, {**alone, "window": 0})
    test.near("the window of all ranks", first["window"], alone["window"], 1e-5)
    shared = ["config.toml", *sets(BASE, keys, {"train.noise_every": 1, "parallel.zero": 2})]
    test.succeeds("launch", "-n", 2, "train", *shared, "--run", "shared", "--json")
    test.equal("with shared gradients", noise_of(test, "shared"), [None] * UPDATES)
    plan = test.succeeds("plan", *shared, "--ranks", 2, "--json")
    test.equal("why", plan["noise"]["why_not"], "shared gradients")
    test.that("ranks share the gradients" in test.succeeds("plan", *shared, "--ranks", 2), "the plan says why")


def told(test):
    """`runs show` and the report tell the scale of the thirds of a run, or that there are too few data."""
    train(test, "few", keys={"train.noise_every": 1})
    test.equal("the scale of few windows", test.succeeds("runs", "show", "few", "--json")["runs"][0]["noise_scale"], None)
    test.that("insufficient data" in test.succeeds("runs", "show", "few"), "runs show says so")
    train(test, "none")
    test.that("noise scale" not in test.succeeds("runs", "show", "none"), "nothing without measurements")
    train(test, "long", keys={"train.noise_every": 1, "train.updates": 75, "optimizer.learning_rate": 1e-5})
    shown = test.succeeds("runs", "show", "long", "--json")["runs"][0]
    for scale in [shown["noise_scale"], *shown["noise_scale_thirds"]]:
        if test.that(scale is not None, f"a scale: {shown['noise_scale']}, {shown['noise_scale_thirds']}"):
            test.that(0 < scale["low"] <= scale["value"] <= scale["high"], f"in its interval: {scale}")
    test.equal("windows", [scale and scale["windows"] for scale in shown["noise_scale_thirds"]], [25, 25, 25])
    advice = "an order of magnitude for the useful batch of AdamW; it says little for Lion"
    test.that(advice in test.succeeds("runs", "show", "long"), "what it is good for")
    test.succeeds("report", "long")
    page = test.path("long/report.html").read_text()
    test.that(advice in page and "in the last third" in page, "the report tells the thirds")


if __name__ == "__main__":
    test = Test("noise_scale")
    test.run_parts(bits, first_round, windows, planned, ranks, told)
    test.finish()
