#!/usr/bin/env python3
"""What `plan` offers beside a plan: remedies where nothing fits, levers where something does, what the whole training is, and the
words that explain it."""

import os
import shutil
import tempfile

from _plimsoll import CONFIG, Test

MIB = 1 << 20
# Almost all of it may leave memory.
WIDE = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "model.layers=4"]


def remedies(test):
    """Far below the floor the disk is offered, by a cost that a user sees, without one being measured."""
    # In a cache of its own, so that no disk is known.
    cache = tempfile.mkdtemp(prefix="plimsoll_cache_")
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    known = os.path.join(os.environ["XDG_CACHE_HOME"], "plimsoll")
    test.succeeds("machine", "--json")  # the machine's own file
    os.makedirs(os.path.join(cache, "plimsoll"))
    for name in os.listdir(known):
        if name.startswith("machine-"):
            shutil.copy(os.path.join(known, name), os.path.join(cache, "plimsoll", name))
    bounds = test.succeeds("plan", "config.toml", *WIDE, "--memory", "1GiB", "--json")["bounds"]
    budget = bounds["floor_bytes"] - 20 * MIB  # of 48 MiB that parameters, gradients and optimizer state take
    below = ["plan", "config.toml", *WIDE, "--memory", budget]
    before = sorted(os.listdir(test.folder))
    plan = test.run(*below, "--json", environment=environment).json()
    test.equal("planning creates nothing", sorted(os.listdir(test.folder)), before)
    measured = [name for name in os.listdir(os.path.join(cache, "plimsoll")) if name.startswith("disk-")]
    test.equal("disks that were measured", measured, [])
    offered = plan["infeasible"]["remedies"]
    disks = [remedy for remedy in offered if "--disk" in remedy["arguments"]]
    if test.equal("remedies with a disk", len(disks), 1):
        disk = disks[0]
        test.that(disk["process_bytes"] <= budget, f"it fits: {disk}")
        test.equal("it leaves the result", disk["changes_result"], False)
        test.equal("the rate that is assumed", disk["assumed_disk_bytes_per_second"], 500e6)
        test.that(offered.index(disk) == 0, "what needs no memory comes first")
    memory = [remedy for remedy in offered if "--memory" in remedy["arguments"]]
    if test.equal("remedies with more memory", len(memory), 1):
        floor, knee = bounds["floor_bytes"], bounds["knee_bytes"]
        test.that(floor < memory[0]["process_bytes"] <= knee + MIB and knee > floor, "the knee, not the slowest plan")
        test.that(memory[0]["arguments"][1].endswith(("MiB", "GiB")), f"a size that people read: {memory[0]['arguments']}")
    results = [remedy["changes_result"] for remedy in offered]
    test.equal("what changes results comes last", results, sorted(results))
    for remedy in offered:
        test.succeeds(*below, *remedy["arguments"], "--json")
    text = test.run(*below, environment=environment).text()[0]
    test.that("not measured yet: 500 MB/s each way are assumed" in text, text)
    shutil.rmtree(cache)

    # A disk that is too small is made larger; what is said by hand is taken back beside it.
    small = [*below, "--disk", f"{test.path('spill')}:1MiB", "--set", "train.micro_batch=8"]
    plan = test.run(*small, "--json").json()
    larger = [remedy for remedy in plan["infeasible"]["remedies"] if "--disk" in remedy["arguments"]]
    if test.equal("a larger disk", len(larger), 1):
        test.that(f"{test.path('spill')}:" in larger[0]["arguments"][1], f"the same folder: {larger[0]}")
        test.succeeds(*small, *larger[0]["arguments"], "--json")


def precision_and_context(test):
    """Lower precision of state and shorter samples are offered where they fit."""
    bounds = test.succeeds("plan", "config.toml", "--set", "model.width=128", "--json")["bounds"]
    below = ["plan", "config.toml", "--set", "model.width=128", "--memory", bounds["floor_bytes"] - 4096]
    offered = test.run(*below, "--json").json()["infeasible"]["remedies"]
    words = " ".join(" ".join(remedy["arguments"]) for remedy in offered)
    for word in ("--disk", "--memory", "precision.optimizer_state=", "model.context="):
        test.that(word in words, f"{word} is offered: {words}")
    for remedy in offered:
        changes = any(word in " ".join(remedy["arguments"]) for word in ("precision.", "model.context", "optimizer.name"))
        test.equal(f"'{remedy['text']}' changes results", remedy["changes_result"], changes)


SIM = ["plan", "config.toml", "--machine", "sim"]


def levers(test):
    """Each against this plan: no row without effect, the fastest first, what is above the budget marked."""
    bounds = test.succeeds(*SIM, "--json")["bounds"]
    for budget in (bounds["floor_bytes"], bounds["knee_bytes"], bounds["ceiling_bytes"]):
        plan = test.succeeds(*SIM, "--memory", budget, "--json")
        own, rows = plan["predicted"], plan["levers"]
        test.that(rows, f"levers at {budget}")
        seconds = [row["update_seconds"] for row in rows]
        test.equal("the fastest first", seconds, sorted(seconds))
        for row in rows:
            same = [abs(row[key] / own[key] - 1) <= 1e-3 for key in ("process_bytes", "update_seconds")]
            test.that(not all(same), f"{row['name']} has an effect")
            test.equal(f"{row['name']} is within the budget", row["within_budget"], row["process_bytes"] <= budget)
            if not row["within_budget"]:
                continue
            found = test.succeeds(*SIM, "--memory", budget, *row["arguments"], "--json")
            for key in ("process_bytes", "update_seconds"):
                test.equal(f"{row['name']}: {key}", found["predicted"][key], row[key])
            if not row["changes_result"]:
                test.equal(f"{row['name']} leaves the micro-batch", found["batch"]["micro"], plan["batch"]["micro"])
    text = test.succeeds(*SIM, "--memory", bounds["floor_bytes"])
    test.that("levers, each against this plan" in text and "(above the budget)" in text, text)
    test.that(max(map(len, text.splitlines())) <= 110, "lines are at most 110 columns wide")


def summary(test):
    """What one wants first: how large, how many, how long; and that a chosen micro-batch fixes the rounding."""
    plan = test.succeeds(*SIM, "--json")
    run = plan["run"]
    width, layers, context = 32, 2, 32
    parameters = (256 + context) * width + layers * (12 * width * width + 13 * width) + 2 * width
    test.equal("parameters", run["parameters"], parameters)
    test.equal("samples", run["samples"], 6 * 8)
    test.equal("tokens", run["tokens"], 6 * 8 * context)
    in_file = -(-(test.path("train.txt").stat().st_size - 1) // context)
    test.near("epochs", run["epochs"], 48 / in_file, 1e-9)
    test.near("seconds", run["seconds"], 6 * plan["predicted"]["update_seconds"], 1e-9)
    text = test.succeeds(*SIM)
    micro = plan["batch"]["micro"]
    pinned = f"micro-batch {micro} chosen; `train.micro_batch = {micro}`"
    for word in (f"{parameters:,} parameters; 6 updates, 48 samples", pinned):
        test.that(word in text, f"{word}: {text}")
    test.that("chosen" not in test.succeeds(*SIM, "--set", "train.micro_batch=2"), "a given micro-batch is not chosen")
    long = test.succeeds(*SIM, "--set", "train.updates=1000000000")
    test.that("note: this takes" in long and " days" in long, f"a warning of days: {long[:400]}")
    paged = test.succeeds(*SIM, "--disk", "spill:1GiB", "--set", "plan.parameters=disk", "--json")
    test.equal("parameters beside a disk", paged["run"]["parameters"], parameters)
    started = test.run("train", "config.toml", "--run", "chosen")
    test.that("pins these bits" in started.text()[1], f"training says so, too: {started.text()[1]}")


def creates_nothing(test):
    """Planning makes no folder; one whose parent exists is fine. Values go where --out says."""
    for folder in ("new", "new/"):
        test.succeeds("plan", "config.toml", "--disk", f"{folder}:1GiB", "--json")
        test.that(not test.path("new").exists(), "no folder is made")
    test.fails(5, "E-DISK-FOLDER", "plan", "config.toml", "--disk", "no/such/folder:1GiB")
    test.fails(5, "E-DISK-FOLDER", "plan", "config.toml", "--disk", "config.toml:1GiB")
    test.fails(5, "E-DISK-FOLDER", "plan", "config.toml", "--disk", "config.toml/below:1GiB")
    test.succeeds("machine", "config.toml", "--set", "memory.disk=new:1GiB", "--json")
    test.that(not test.path("new").exists(), "measuring kernels makes none")
    test.succeeds("train", "config.toml", "--run", "paged", "--disk", "new:1GiB", "--updates", "1")
    test.that(test.path("new").is_dir(), "training makes it")
    both = test.succeeds(*SIM, "--values", "--out", "values.json")
    test.equal("the terminal gets the summary", both, test.succeeds(*SIM))
    test.that('"values"' in test.path("values.json").read_text(), "the file gets the values")
    test.that(len(test.succeeds(*SIM, "--values")) > 2 * len(both), "without --out they are printed")


WORDS = """knee floor bound ceiling load stall reserve phases lanes levers live arena cheap joined pieces micro-batch budget
owners process recompute keep""".split()


def words(test):
    for word in (*WORDS, "time bound", "Knee", "phase", "time-bound"):
        test.that("\n  what" in test.succeeds("explain", word), f"explain {word}")
    test.that("no plan" in test.succeeds("explain", "time", "bound").lower(), "two words are one name")
    for code, what, said in (
        ("E-EXPLAIN-VALUE", "h.3.mlp.c_fc", ("--out plan.json", "explain h.3.mlp.c_fc --plan plan.json")),
        ("E-EXPLAIN-CODE", "kneee", ("the nearest is knee",)),
        ("E-EXPLAIN-CODE", "E-PLAN-FITS", ("the nearest is E-PLAN-FIT",)),
    ):
        refused = test.run("explain", what)
        test.equal(f"exit code of explain {what}", refused.code, 2)
        for words in (code, *said):
            test.that(words in refused.text()[1], f"explain {what} says {words}: {refused.text()[1]}")


def main():
    test = Test("alternatives")
    test.write("config.toml", CONFIG)
    test.run_parts(remedies, precision_and_context, levers, summary, creates_nothing, words)
    test.finish()


if __name__ == "__main__":
    main()
