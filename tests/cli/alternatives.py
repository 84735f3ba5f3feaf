#!/usr/bin/env python3
"""Output of `plan` in addition to the plan: remedies if nothing fits, levers if something fits, the summary of the training, and
the words that explain it."""

import os
import shutil
import tempfile

from _plimsoll import CONFIG, Test

MIB = 1 << 20
# Almost all of it may leave memory.
WIDE = ["--set", "model.width=256", "--set", "model.heads=4", "--set", "model.layers=4"]


def remedies(test):
    """Far below the floor a disk is offered with its cost. No disk is measured for that."""
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
        # The slowest plan is the knee if it is hardly slower than the fastest one.
        test.that(min(floor + 1, knee) <= memory[0]["process_bytes"] <= knee + MIB, "the knee, not the slowest plan")
        test.that(memory[0]["arguments"][1].endswith(("MiB", "GiB")), f"a size that people read: {memory[0]['arguments']}")
    results = [remedy["changes_result"] for remedy in offered]
    test.equal("what changes results comes last", results, sorted(results))
    for remedy in offered:
        test.succeeds(*below, *remedy["arguments"], "--json")
    text = test.run(*below, environment=environment).text()[0]
    test.that("not measured yet: 500 MB/s each way are assumed" in text, text)
    shutil.rmtree(cache)

    # A disk that is too small is made larger, and explicit keys are taken back in addition.
    small = [*below, "--disk", f"{test.path('spill')}:1MiB", "--set", "train.micro_batch=8"]
    plan = test.run(*small, "--json").json()
    larger = [remedy for remedy in plan["infeasible"]["remedies"] if "--disk" in remedy["arguments"]]
    if test.equal("a larger disk", len(larger), 1):
        test.that(f"{test.path('spill')}:" in larger[0]["arguments"][1], f"the same folder: {larger[0]}")
        test.succeeds(*small, *larger[0]["arguments"], "--json")


def precision_and_context(test):
    """Lower precision of state and shorter samples are offered if they fit."""
    bounds = test.succeeds("plan", "config.toml", "--set", "model.width=128", "--json")["bounds"]
    below = ["plan", "config.toml", "--set", "model.width=128", "--memory", bounds["floor_bytes"] - 4096]
    offered = test.run(*below, "--json").json()["infeasible"]["remedies"]
    words = " ".join(" ".join(remedy["arguments"]) for remedy in offered)
    for word in ("--disk", "--memory", "precision.optimizer_state=", "model.context="):
        test.that(word in words, f"{word} is offered: {words}")
    for remedy in offered:
        changes = any(word in " ".join(remedy["arguments"]) for word in OTHER_RESULTS)
        test.equal(f"'{remedy['text']}' changes results", remedy["changes_result"], changes)


MODEL_WORDS = ("model.", "adapter.", "quantize.")
OTHER_RESULTS = ("precision.", "optimizer.name", *MODEL_WORDS)
SIM = ["plan", "config.toml", "--machine", "sim"]


def levers(test):
    """Each lever is compared with the plan: no row without effect, the fastest first, rows above the budget marked."""
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


LLAMA = {"kind": '"llama"', "layers": 4, "width": 64, "heads": 4, "kv_heads": 2, "mlp_width": 128, "context": 32, "vocab": 256}
LORA = ["--set", "adapter.kind=lora", "--set", "adapter.rank=16"]


def other_trainings(test):
    """Adapters, formats of frozen weights, samples, frozen parts: each row and each remedy equals the plan of its arguments."""
    shape = "".join(f"{key} = {value}\n" for key, value in LLAMA.items())
    test.write("llama.toml", "seed = 3\n[model]\n" + shape + CONFIG[CONFIG.index("[data]") :])
    llama = ["plan", "llama.toml", "--machine", "sim"]
    gpt2 = ["--set", "model.width=128", "--set", "model.heads=4", "--set", "model.layers=4"]
    full = ("adapter.kind=lora adapter.rank=16", "adapter.kind=lora adapter.rank=8", "quantize.base=nf4", "model.context=16",
            "model.context=64", "model.freeze=")  # fmt: skip
    bases = tuple(f"quantize.base={base}" for base in ("bf16", "int8", "nf4"))
    adapted = ("adapter.rank=8", "adapter.rank=32", *bases, "model.context=16")
    cases = {
        "gpt2": ([*SIM, *gpt2], full, 'model.freeze=["wte", "wpe", "h[.](0|1)"]'),
        "llama": (llama, full, 'model.freeze=["model[.]embed_tokens", "model[.]layers[.](0|1)"]'),
        "lora": ([*llama, *LORA], adapted, None),
        "frozen": ([*SIM, *gpt2, "--set", 'model.freeze=["h[.]3"]'], bases[2:], '["h[.]3", "wte", "wpe", "h[.](0|1)"]'),
    }
    for name, (command, wanted, freeze) in cases.items():
        plan = test.succeeds(*command, "--set", "train.micro_batch=4", "--memory", "1GiB", "--json")
        words = [" ".join(row["arguments"]).replace("--set ", "") for row in plan["levers"]]
        for want in (*wanted, *([freeze] if freeze else [])):
            test.that(any(want in each for each in words), f"{name}: a lever says {want}: {words}")
        if name == "lora":
            test.that(not any("freeze" in each or "adapter.kind" in each for each in words), f"all is frozen already: {words}")
        for row, said in zip(plan["levers"], words):
            changes = any(word in said for word in (*OTHER_RESULTS, "train.micro_batch"))
            test.equal(f"{name}: {row['name']} changes results", row["changes_result"], changes)
            if name == "llama" or not any(word in said for word in MODEL_WORDS):
                continue
            found = test.succeeds(*command, "--set", "train.micro_batch=4", "--memory", "1GiB", *row["arguments"], "--json")
            for key in ("process_bytes", "update_seconds"):
                test.equal(f"{name}: {row['name']}: {key}", found["predicted"][key], row[key])
        floor = plan["bounds"]["floor_bytes"]
        below = [*command, "--set", "train.micro_batch=4", "--memory", floor - 4096]
        remedies = test.run(*below, "--json").json()["infeasible"]["remedies"]
        words = [" ".join(each["arguments"]) for each in remedies]
        offered = {"lora": ("adapter.rank=8", "quantize.base="), "frozen": ("quantize.base=", "model.freeze=")}
        for want in offered.get(name, ("adapter.kind=lora", "model.freeze=", "model.context=")):
            test.that(any(want in each for each in words), f"{name}: a remedy says {want}: {words}")
        for remedy in remedies:
            if not any(word in " ".join(remedy["arguments"]) for word in MODEL_WORDS):
                continue
            fits = test.succeeds(*below, *remedy["arguments"], "--json")
            test.equal(f"{name}: {remedy['text']}", fits["predicted"]["process_bytes"], remedy["process_bytes"])


def summary(test):
    """The summary: sizes, numbers and times, and the note that the chosen micro-batch fixes the rounding."""
    plan = test.succeeds(*SIM, "--json")
    run = plan["run"]
    width, layers, context = 32, 2, 32
    parameters = (256 + context) * width + layers * (12 * width * width + 13 * width) + 2 * width
    test.equal("parameters", run["parameters"], parameters)
    test.equal("samples", run["samples"], 6 * 8)
    # The last sample of the file is one token short, and this order draws it.
    test.equal("tokens", run["tokens"], 6 * 8 * context - 1)
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
    test.equal("tokens of the training", test.report("chosen")["units"], run["tokens"])


def creates_nothing(test):
    """Planning creates no folder; a folder whose parent exists is accepted. Values go to the file of --out."""
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
    test.run_parts(remedies, precision_and_context, levers, other_trainings, summary, creates_nothing, words)
    test.finish()


if __name__ == "__main__":
    main()
