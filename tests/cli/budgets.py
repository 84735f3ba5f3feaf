#!/usr/bin/env python3
"""Budgets, through the commands: python3 budgets.py path/to/plimsoll

Three small GPT-2 shapes run at five budgets each, from the floor to a plan without recomputation, with a chosen and with a given
micro-batch. The kernel's VmHWM of the process stays within the budget and near the plan. Memory does not grow after warm-up.
Results of one (b, k) have equal bits at every budget. The audit measures the bytes of plan.json in every phase. One page below
the floor, the plan is refused with remedies that fit.
"""

import json
import pathlib
import random
import re
import struct
import subprocess
import time

from _plimsoll import Test

PAGE, MIB = 4096, 1 << 20
UPDATES, BUDGETS = 20, 5
SLACK_BYTES, SLACK_SHARE = 16 * MIB, 0.02  # planned more than this above what was needed is a defect

SHAPES = {
    "deep": dict(layers=4, width=64, heads=4, context=48, vocab=256, effective=8, micro=2),
    "wide": dict(layers=2, width=192, heads=3, context=64, vocab=1009, effective=4, micro=4),
    "vocabulary": dict(layers=3, width=32, heads=2, context=31, vocab=20011, effective=6, micro=1),
}

CONFIG = """\
seed = 5
[model]
kind = "gpt2"
layers = {layers}
width = {width}
heads = {heads}
context = {context}
vocab = {vocab}
dropout = 0.1
[data]
train = "tokens.bin"
validation = "validation.bin"
format = "u16"
[train]
effective_batch = {effective}
updates = {updates}
evaluate_samples = 5
[optimizer]
name = "adamw"
learning_rate = 1e-3
[schedule]
name = "constant"
[memory]
budget = "4GiB"
[machine]
threads = 2
"""


def tokens(count, seed):
    draw = random.Random(seed)
    return struct.pack(f"<{count}H", *(draw.randrange(256) for _ in range(count)))


def high_water(pid):
    """VmHWM of a process in bytes; 0 when it is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
        return int(found.group(1)) * 1024 if found else 0
    except OSError:
        return 0


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def watched(test, *arguments):
    """Runs a training under observation. Returns run.json, the peak bytes of the process and the peak bytes of its children."""
    command = [test.binary, *(str(argument) for argument in arguments)]
    with open(test.path("stdout"), "wb") as out, open(test.path("stderr"), "wb") as err:
        process = subprocess.Popen(command, cwd=test.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        own = helpers = 0
        # Before the first exec of the binary, the process is a copy of this one.
        while process.poll() is None:
            try:
                started = "plimsoll" in pathlib.Path(f"/proc/{process.pid}/comm").read_text()
            except OSError:
                break
            if started:
                own = max(own, high_water(process.pid))
                helpers = max([helpers, *(high_water(child) for child in children(process.pid))])
            time.sleep(0.003)
        process.wait()
    if not test.equal(f"exit code of `{' '.join(command[1:])}`", process.returncode, 0):
        print(test.path("stderr").read_text()[-2000:])
        return None, own, helpers
    return json.loads(test.path("stdout").read_text()), own, helpers


def given(shape):
    return [
        "--set",
        f"train.micro_batch={shape['micro']}",
        "--set",
        f"train.accumulation={shape['effective'] // shape['micro']}",
    ]


def bounds_of(test, config, extra):
    plan = test.succeeds("plan", config, *extra, "--json")
    return (plan["bounds"]["floor_bytes"], plan["predicted"]["process_bytes"]) if plan else (0, 0)


def check_memory(test, where, run, budget, outside):
    predicted, measured = run["predicted"], run["measured"]
    hwm = max(outside, measured["process_hwm_bytes"])
    test.that(hwm <= budget, f"{where}: the process held {hwm}, the budget is {budget}")
    test.that(predicted["process_bytes"] <= budget, f"{where}: planned {predicted['process_bytes']} of {budget}")
    over = predicted["process_bytes"] - hwm
    limit = SLACK_BYTES + SLACK_SHARE * predicted["process_bytes"]
    test.that(over <= limit, f"{where}: planned {over} more than the process needed")
    test.equal(f"{where}: grown after warm-up", measured["grown_after_warmup_bytes"], 0)
    test.that(
        measured["arena_bytes"] >= predicted["arena_bytes"] - PAGE,
        f"{where}: {measured['arena_bytes']} of the arena are resident",
    )
    return over


def check_budgets(test, label, shape, config, extra, results):
    floor, ceiling = bounds_of(test, config, extra)
    worst = helpers_most = 0
    for i in range(BUDGETS):
        budget = floor + (ceiling - floor) * i // (BUDGETS - 1)
        where, folder = f"{label} at {budget}", f"{label}-{i}"
        run, outside, helpers = watched(test, "train", config, *extra, "--memory", budget, "--run", folder, "--json")
        if run is None:
            continue
        worst = max(worst, check_memory(test, where, run, budget, outside))
        helpers_most = max(helpers_most, helpers - budget)
        losses = tuple((line["loss_bits"], line["grad_norm_bits"]) for line in test.lines(folder))
        test.equal(f"{where}: updates", len(losses), UPDATES)
        key = (shape, run["batch"]["micro"], run["batch"]["accumulation"])
        results.setdefault(key, set()).add((losses, run["final"]["parameters_xxh128"]))
    print(
        f"{label}: floor {floor / MIB:.2f} MiB, ceiling {ceiling / MIB:.2f} MiB, reserve at most {worst / MIB:.2f} MiB too large"
        + (f", helper processes {helpers_most / MIB:.2f} MiB above a budget" if helpers_most > 0 else ""),
        flush=True,
    )
    return floor, ceiling


def check_audit(test, where, config, arguments, folder):
    run = test.succeeds("train", config, *arguments, "--run", folder, "--audit", "--json")
    if run is None:
        return
    planned = {
        phase["name"]: phase for phase in json.loads((test.path(folder) / "plan.json").read_text())["predicted"]["phases"]
    }
    test.equal(f"{where}: method", run["measured"]["method"], "audit")
    wanted = {"load", "first", "save"} | ({"steady"} if run["batch"]["accumulation"] > 1 else set())
    names = {phase["name"] for phase in run["measured"]["phases"]}
    test.that(wanted <= names, f"{where}: the audit saw {names}")
    for phase in run["measured"]["phases"]:
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{where}: {phase['name']} {key}", phase[key], planned[phase["name"]][key])
    for key in ("arena_bytes", "live_bytes"):
        test.equal(f"{where}: {key}", run["measured"][key], run["predicted"][key])


def check_refusal(test, label, config, extra, floor):
    """At the floor there is a plan. One page below, exit 3 with remedies, each of which fits as promised."""
    test.succeeds("plan", config, *extra, "--memory", floor, "--json")
    below = [config, *extra, "--memory", floor - PAGE]
    result = test.run("plan", *below, "--json")
    test.equal(f"{label}: exit code below the floor", result.code, 3)
    plan = result.json()
    test.equal(f"{label}: status", plan["status"], "infeasible")
    test.equal(f"{label}: code", plan["infeasible"]["code"], "E-PLAN-FIT")
    test.equal(f"{label}: short by", plan["infeasible"]["short_bytes"], PAGE)
    offered = plan["infeasible"]["remedies"]
    test.that(offered, f"{label}: there are remedies")
    for remedy in offered:
        fixed = test.succeeds("plan", *below, *remedy["arguments"], "--json")
        said = f"{label}: remedy '{remedy['text']}'"
        if fixed is None or not test.equal(f"{said}: status", fixed["status"], "fits"):
            continue
        if not remedy.get("floors_alone"):  # memory for the smallest plan alone: a command of its own has more
            test.equal(f"{said}: process bytes", fixed["predicted"]["process_bytes"], remedy["process_bytes"])
        test.that(fixed["predicted"]["process_bytes"] <= fixed["budget"]["memory"], f"{said}: within the budget")
    result = test.run("train", *below, "--run", f"{label}-refused", "--json")
    test.equal(f"{label}: exit code of training below the floor", result.code, 3)


def check_shape(test, name):
    config, shape, results = f"{name}.toml", SHAPES[name], {}
    test.write(config, CONFIG.format(**shape, updates=UPDATES))
    for label, extra in ((f"{name}-auto", []), (f"{name}-given", given(shape))):
        floor, ceiling = check_budgets(test, label, name, config, extra, results)
        for i, budget in enumerate((floor, (floor + ceiling) // 2, ceiling)):
            check_audit(
                test,
                f"{label} audited at {budget}",
                config,
                [*extra, "--memory", budget, "--updates", 2],
                f"{label}-audit-{i}",
            )
        if not extra:
            check_refusal(test, label, config, extra, floor)
    keep = [*given(shape), "--set", 'plan.recompute="none"', "--set", "plan.loss_chunks=1"]
    check_refusal(test, f"{name}-keep", config, keep, bounds_of(test, config, keep)[0])
    for (_, micro, accumulation), outcomes in results.items():
        test.equal(f"different results of {name} at {micro} x {accumulation}", len(outcomes), 1)
    print(f"{name}: {len(results)} splits, each the same bits at every budget")


def deep(test):
    check_shape(test, "deep")


def wide(test):
    check_shape(test, "wide")


def vocabulary(test):
    check_shape(test, "vocabulary")


EDGES = {
    "one-sample": ["train.effective_batch=1"],
    "one-block": ["model.layers=1", "train.micro_batch=2", "train.accumulation=3"],
    "one-token": ["model.context=1"],
    "context-7": ["model.context=7", "model.vocab=257"],
    "sgd": ['optimizer.name="sgd"', "optimizer.momentum=0"],
    "momentum": ['optimizer.name="sgd"', "optimizer.momentum=0.9", "train.gradient_clip=0"],
    "lion": ['optimizer.name="lion"'],
    "lion-by-value": ['optimizer.name="lion"', "train.gradient_clip_value=0.01", "train.micro_batch=6"],
    "no-validation": ['data.validation=""'],
    "recompute-all": ['plan.recompute="all"', "train.micro_batch=1"],
    "chunks": ["plan.loss_chunks=5"],
    "micro-alone": ["train.micro_batch=3"],
}


def edges(test):
    shape = dict(layers=3, width=24, heads=3, context=9, vocab=307, effective=6)
    test.write("edge.toml", CONFIG.format(**shape, updates=3))
    for name, settings in EDGES.items():
        extra = [word for setting in settings for word in ("--set", setting)]
        floor, ceiling = bounds_of(test, "edge.toml", extra)
        for i, budget in enumerate({floor, ceiling}):
            arguments = [*extra, "--memory", budget]
            check_audit(test, f"{name} audited at {budget}", "edge.toml", arguments, f"edge-{name}-audit-{i}")
            run, outside, _ = watched(test, "train", "edge.toml", *arguments, "--run", f"edge-{name}-{i}", "--json")
            if run is not None:
                check_memory(test, f"{name} at {budget}", run, budget, outside)


def remedies(test):
    """Configurations whose remedies need more than one word: a window from its parts, a preset, another optimizer."""
    base = CONFIG.format(layers=3, width=24, heads=3, context=32, vocab=307, effective=6, updates=3)
    parts = base.replace("effective_batch = 6\n", "micro_batch = 3\naccumulation = 2\n")
    preset = re.sub(r"\[model\].*?dropout", '[model]\npreset = "byte-3m"\ndropout', base, flags=re.S)
    betas = base.replace(
        "learning_rate = 1e-3", "learning_rate = 1e-3\nbetas = [0.9, 0.99]\nepsilon = 1e-7\nweight_decay = 0.1"
    )
    swing = re.sub(r"\[schedule\][^\[]*", '[schedule]\nname = "one_cycle"\nmomentum_range = [0.95, 0.85]\n', base)
    lives = betas.replace("betas = [0.9, 0.99]", 'half_lives = ["40samples", "400samples"]')
    for name, text in {"parts": parts, "preset": preset, "betas": betas, "swing": swing, "lives": lives}.items():
        test.write(f"{name}.toml", text)
        check_refusal(test, name, f"{name}.toml", [], bounds_of(test, f"{name}.toml", [])[0])


def options(test):
    """A budget's own option wins over --set, at any place, and errors name what was typed."""
    test.write("options.toml", CONFIG.format(layers=2, width=24, heads=3, context=32, vocab=307, effective=6, updates=3))
    option, changed = ["--memory", "2GiB"], ["--set", "memory.budget=1GiB"]
    for typed in (option + changed, changed + option):
        plan = test.succeeds("plan", "options.toml", *typed, "--json")
        test.equal(f"budget of {typed}", plan["budget"]["memory"], 2 << 30)
    for where, typed in {"--memory": ["--memory", "1XB"], "--set": ["--set", "memory.budget=1XB"]}.items():
        error = test.fails(2, "E-CONFIG-SIZE", "plan", "options.toml", *typed)
        test.that(error["where"].startswith(where), f"{typed}: at {error['where']}")
    error = test.fails(2, "E-CONFIG-VALUE", "plan", "options.toml", "--set", "machine.device=foo")
    test.equal("place of a device in --set", error["where"], "--set")
    test.fails(2, "E-USAGE", "machine", "--set", "train.updates=3")


def main():
    test = Test("budgets")
    test.write("tokens.bin", tokens(6000, 1))
    test.write("validation.bin", tokens(700, 2))
    test.run_parts(deep, wide, vocabulary, edges, remedies, options)
    test.finish()


if __name__ == "__main__":
    main()
