#!/usr/bin/env python3
"""Planning itself: the memory of all simultaneous processes stays within the budget, the verdict precedes the levers, the work on
alternatives is limited, and an interrupt ends it at once."""

import json
import os
import pathlib
import signal
import subprocess
import time

from _plimsoll import Test

MIB = 1 << 20
LEAST = 80 * MIB  # what planning may take in any case
# 24 layers with 168 adapters: hundreds of small buffers.
ADAPTED = """\
seed = 1
[model]
kind = "llama"
layers = 24
width = 64
heads = 4
kv_heads = 2
mlp_width = 128
context = 64
vocab = 256
[adapter]
kind = "lora"
rank = 4
[data]
train = "train.txt"
format = "bytes"
[train]
effective_batch = 8
updates = 2
[machine]
threads = 2
"""
DEEP = ["--set", "model.layers=1200"]


def descendants(root):
    """The process and all its descendants."""
    found = [root]
    for process in found:
        try:
            for task in os.listdir(f"/proc/{process}/task"):
                children = pathlib.Path(f"/proc/{process}/task/{task}/children").read_text()
                found += [int(child) for child in children.split()]
        except OSError:
            pass
    return found


def resident(root):
    """The resident bytes of all of them; shared pages are divided among the processes that map them."""
    total = 0
    for process in descendants(root):
        try:
            for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except OSError:
            pass
    return total


def watched(test, *arguments):
    """Runs the command. Returns its exit code, the peak bytes of its processes, and its output."""
    written, most = test.path("written.txt"), 0
    with open(written, "wb") as file:
        command = [test.binary, *(str(argument) for argument in arguments)]
        process = subprocess.Popen(command, cwd=test.folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        while process.poll() is None:
            most = max(most, resident(process.pid))
            time.sleep(0.005)
    return process.returncode, most, written.read_text()


def most_resident(test, *arguments):
    return watched(test, *arguments)[:2]


def within_the_budget(test):
    for name, more in (("memory", []), ("disk", ["--disk", f"{test.path('tier')}:1GiB"])):
        floor = test.succeeds("plan", "config.toml", *more, "--json")["bounds"]["floor_bytes"]
        for command in (["plan", "config.toml"], ["train", "config.toml", "--run", f"run-{name}"]):
            code, most = most_resident(test, *command, "--memory", floor, *more)
            test.equal(f"exit code of {command[0]} at the floor, {name}", code, 0)
            test.that(most <= max(floor, LEAST), f"{command[0]}, {name}: {most} bytes, the floor is {floor}")
    # One page less: the verdict keeps the budget as well.
    code, most = most_resident(test, "plan", "config.toml", "--memory", floor - 4096, *more)
    test.equal("exit code below the floor", code, 3)
    test.that(most <= max(floor, LEAST), f"refused with {most} bytes, the floor is {floor}")
    test.write("adapted.toml", ADAPTED)
    for command in (["plan", "adapted.toml"], ["train", "adapted.toml", "--run", "adapted"]):
        code, most = most_resident(test, *command, "--memory", 160 * MIB)
        test.equal(f"exit code of {command[0]} with adapters", code, 0)
        test.that(most <= 160 * MIB, f"{command[0]} with adapters: {most} bytes")


def floors_alone(test):
    """With memory for the smallest plans alone, one of them is found within the budget, and a note says so. The memory of
    planning depends on the measured rates, so one of several depths has to be such a model."""
    test.write("adapted.toml", ADAPTED)
    test.that("floors_alone" not in test.succeeds("plan", "config.toml", "--json"), "small models have all plans")
    little = ["adapted.toml", "--memory", "76MiB", "--set"]
    for layers in (40, 48, 32, 56):
        code, most, text = watched(test, "plan", *little, f"model.layers={layers}", "--json")
        test.that(most <= 76 * MIB, f"plan with {layers} layers: {most} bytes")
        test.that(code == 0 or "E-MEM-PLAN" in text, f"plan with {layers} layers: exit code {code}, {text[-2000:]}")
        if code == 0 and '"floors_alone":true' in text:
            break
    else:
        test.that(False, "one of the depths has memory for the smallest plans alone")
    code, most, text = watched(test, "train", *little, f"model.layers={layers}", "--run", "little")
    test.equal("exit code of train with little memory", code, 0)
    test.that(most <= 76 * MIB, f"train with little memory: {most} bytes")
    test.that("smallest plans alone" in text, f"train says so: {text[-2000:]}")
    deep = ["plan", "adapted.toml", "--set", "model.layers=28", "--memory", "40MiB"]
    refused = test.run(*deep, "--json")
    test.equal("exit code of a budget below the floor", refused.code, 3)
    remedies = refused.json()["infeasible"]["remedies"]
    test.that(remedies, "there are remedies where planning has little memory")
    for remedy in remedies:
        fixed = test.succeeds(*deep, *remedy["arguments"], "--json")
        test.that(fixed is not None and fixed["status"] == "fits", f"{remedy['text']} fits")


def more_than_the_budget(test):
    """A model with too many layers for planning within the budget."""
    test.write("adapted.toml", ADAPTED)
    for command in (["plan", "adapted.toml"], ["train", "adapted.toml", "--run", "deep"]):
        error = test.fails(3, "E-MEM-PLAN", *command, *DEEP, "--memory", "64MiB")
        test.that(error and any("--memory" in each for each in error["try"]), f"the remedy: {error}")
    test.that(not test.path("deep").exists(), "no run has begun")


def verdict_first(test):
    test.write("adapted.toml", ADAPTED)
    process = subprocess.Popen(
        [test.binary, "plan", "adapted.toml", "--memory", "1GiB"],
        cwd=test.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
    )
    text = b""
    while b"time bound" not in text:
        piece = process.stdout.read(4096)
        if not piece:
            break
        text += piece
    test.that(process.poll() is None, "the verdict stands before the levers are looked for")
    test.that(b"levers" not in text, "levers come later")
    rest = process.communicate()[0]
    test.that(b"levers, each against this plan" in rest, rest.decode())


def a_limit(test):
    """The skipped alternatives are reported, and are the same each time."""
    test.write("adapted.toml", ADAPTED)
    many = ["--set", "model.layers=96", "--memory", "2GiB"]
    plan = test.succeeds("plan", "adapted.toml", *many, "--json")
    test.that(plan["left_out"], "alternatives are left out of a plan that takes long")
    test.that(len(plan["levers"]) > 5, f"others are not: {plan['levers']}")
    test.equal("what is left out", test.succeeds("plan", "adapted.toml", *many, "--json")["left_out"], plan["left_out"])
    text = test.succeeds("plan", "adapted.toml", *many)
    test.that("not looked at" in text and plan["left_out"][0] in text, text[-2000:])
    test.equal("small models have all", test.succeeds("plan", "config.toml", "--json")["left_out"], [])


def levers_at_the_floor(test):
    """Levers without room for their search are left out. The plan stays that of the training, and its verdict comes once."""
    test.write("adapted.toml", ADAPTED)
    for layers in (16, 24):
        deep = ["adapted.toml", "--set", f"model.layers={layers}"]
        floor = test.succeeds("plan", *deep, "--json")["bounds"]["floor_bytes"]
        budget = [*deep, "--memory", floor]
        plan = test.succeeds("plan", *budget, "--json")
        test.that("floors_alone" not in plan, f"{layers} layers: all plans")
        test.succeeds("train", *budget, "--run", f"levers-{layers}")
        trained = json.loads(test.path(f"levers-{layers}/plan.json").read_text())
        test.equal(f"{layers} layers: the plan", plan["plan_hash"], trained["plan_hash"])
        profile = test.succeeds("profile", *budget, "--updates", 1, "--json")
        test.equal(f"{layers} layers: the profiled plan", profile["plan_hash"], trained["plan_hash"])
        said = test.run("plan", *budget)
        test.equal(f"{layers} layers: verdicts", (said.code, said.text()[0].count("fits: ")), (0, 1))


def interrupted(test):
    test.write("adapted.toml", ADAPTED)
    slow = ["adapted.toml", "--set", "model.layers=240", "--memory", "8GiB"]
    for command in (["train", *slow, "--run", "stopped"], ["plan", *slow, "--json"], ["plan", *slow, "--solve", "context"]):
        process = test.start(*command)
        time.sleep(0.7)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        test.equal(f"exit code of {command[0]}", process.returncode, 6)
        test.that(time.monotonic() - start < 5, f"{command[0]} ends at once: {time.monotonic() - start:.1f} s")
        test.that(b"E-INTERRUPTED" in err, err.decode())
        if "--json" in command:
            test.equal("code", json.loads(out)["code"], "E-INTERRUPTED")
    test.that(not test.path("stopped").exists(), "an interrupted plan leaves no run")


if __name__ == "__main__":
    with_everything = Test("planning")
    with_everything.succeeds("machine", "--json")
    with_everything.run_parts(within_the_budget, floors_alone, more_than_the_budget, verdict_first, a_limit,
                              levers_at_the_floor, interrupted)
    with_everything.finish()
