#!/usr/bin/env python3
"""Every command, option and JSON key that outside scripts rely on, driven through the binary."""

import copy
import csv
import json
import os
import pathlib
import shutil
import struct
import subprocess
import time

from _plimsoll import Test

MAYBE = (int, None)
MAYBE_NUMBER = (float, None)

PHASE = {
    "name": ("load", "first", "steady", "evaluate", "save", "generate"),
    "arena_bytes": int,
    "live_bytes": int,
    "owners": dict,
}
CHANGE = {"arguments": [str], "process_bytes": int, "update_seconds": float, "changes_result": bool}
BATCH = {"effective": int, "micro": int, "accumulation": int, "units_per_update": int}
BUDGET = {"memory": MAYBE, "host_memory": MAYBE, "disk": MAYBE}
TIER = {"name": str, "arena_bytes": int, "live_bytes": MAYBE}
PLAN = {
    "schema": "plimsoll.plan/1",
    "status": "fits",
    "plan_hash": str,
    "graph_hash": str,
    "config_hash": str,
    "machine_hash": str,
    "threads": int,
    "budget": BUDGET,
    "batch": BATCH,
    "precision": dict,
    "decisions": {"loss_chunks": int, "recompute": [{"block": str, "mode": ("keep", "cheap", "recompute")}]},
    "predicted": {
        "process_bytes": int,
        "arena_bytes": int,
        "live_bytes": int,
        "update_seconds": float,
        "tokens_per_second": float,
        "evaluate_seconds": (float, None),
        "save_seconds": float,
        "cost_source": {"measured": float, "recorded": float, "bound": float},
        "reserve": [{"name": str, "bytes": int, "source": str}],
        "tiers": [TIER],
        "phases": [PHASE],
    },
    "bounds": {"floor_bound_bytes": int, "floor_bytes": int, "load_bytes": int, "update_seconds": float},
    "planning_seconds": float,
    "levers": [dict(CHANGE, name=str)],
    "infeasible": None,
}
INFEASIBLE = {
    "schema": "plimsoll.plan/1",
    "status": "infeasible",
    "config_hash": str,
    "threads": int,
    "budget": BUDGET,
    "bounds": {"floor_bound_bytes": int, "floor_bytes": int},
    "planning_seconds": float,
    "levers": list,
    "infeasible": {
        "code": "E-PLAN-FIT",
        "short_bytes": int,
        "phase": str,
        "owners": [{"name": str, "bytes": int, "model_line": (str, None)}],
        "remedies": [dict(CHANGE, text=str)],
    },
}
VALUE = {
    "id": int,
    "name": str,
    "op": (str, None),
    "site": (str, int, None),
    "dtype": str,
    "shape": [int],
    "bytes": int,
    "tier": str,
    "alias_of": MAYBE,
    "action": str,
    "ranges": [{"phase": str, "begin": int, "end": int, "offset": int}],
}
RUN = {
    "schema": "plimsoll.run/1",
    "pid": int,
    "status": ("running", "done", "failed", "interrupted"),
    "exit_code": int,
    "error": (dict, None),
    "command": str,
    "seed": int,
    "config_hash": str,
    "plan_hash": str,
    "graph_hash": str,
    "machine_hash": str,
    "data_hash": str,
    "threads": int,
    "instruction_set": str,
    "libraries": [str],
    "batch": BATCH,
    "budget": BUDGET,
    "predicted": {"process_bytes": int, "arena_bytes": int, "live_bytes": int},
    "measured": {
        "process_hwm_bytes": MAYBE,
        "reserve_bytes": MAYBE,
        "arena_bytes": MAYBE,
        "live_bytes": MAYBE,
        "tiers": [{**TIER, "arena_bytes": MAYBE}],
        "phases": list,
        "method": ("audit", "resident"),
        "grown_after_warmup_bytes": MAYBE,
    },
    "arena": {"base": int, "bytes": int},
    "updates": int,
    "samples": int,
    "units": int,
    "seconds": float,
    "final": {"loss": MAYBE_NUMBER, "loss_bits": (str, None), "parameters_xxh128": (str, None)},
}
METRICS = {
    "update": int,
    "samples": int,
    "units": int,
    "loss": float,
    "loss_bits": str,
    "grad_norm": float,
    "grad_norm_bits": str,
    "learning_rate": float,
    "seconds": float,
    "tokens_per_second": float,
    "vm_hwm_bytes": int,
}
EVAL = {"schema": "plimsoll.eval/1", "units": int, "loss": float, "loss_bits": str}
LAYOUT = {
    "schema": "plimsoll.layout/1",
    "status": ("fits", "impossible", "unknown"),
    "capacity": MAYBE,
    "height": MAYBE,
    "load": int,
    "optimal": bool,
    "cpu_seconds": float,
}


def check_sums(test, plan):
    predicted = plan["predicted"]
    page = 4096
    test.that(
        predicted["process_bytes"] == predicted["arena_bytes"] + sum(item["bytes"] for item in predicted["reserve"]),
        "process = arena + reserve",
    )
    test.that(predicted["process_bytes"] <= plan["budget"]["memory"], "process <= memory")
    test.equal("arena", predicted["arena_bytes"], max(phase["arena_bytes"] for phase in predicted["phases"]))
    for phase in predicted["phases"]:
        test.equal(f"owners of {phase['name']}", sum(phase["owners"].values()), phase["live_bytes"])
        test.that(phase["live_bytes"] <= phase["arena_bytes"], f"live <= arena in {phase['name']}")
    test.equal("effective batch", plan["batch"]["micro"] * plan["batch"]["accumulation"], plan["batch"]["effective"])
    return page


def plans(test):
    plan = test.succeeds("plan", "config.toml", "--json")
    if plan is None:
        return
    test.shape("plan", plan, PLAN)
    page = check_sums(test, plan)
    test.that("values" not in plan, "values only with --values")
    floor = plan["bounds"]["floor_bytes"]
    exact = test.succeeds("plan", "config.toml", "--memory", floor, "--json")
    test.that(exact is None or exact["predicted"]["process_bytes"] <= floor, "a plan at the floor stays within it")

    below = ["plan", "config.toml", "--set", "train.micro_batch=8", "--set", "plan.recompute=none", "--memory"]
    result = test.run("plan", "config.toml", "--memory", floor - page, "--json")
    test.equal("exit code one page below the floor", result.code, 3)
    test.shape("infeasible plan", result.json(), INFEASIBLE)
    for remedy in result.json()["infeasible"]["remedies"]:
        test.succeeds("plan", "config.toml", "--memory", floor - page, *remedy["arguments"], "--json")
    pinned = test.run(*below, floor, "--json")
    if pinned.code == 3:
        for remedy in pinned.json()["infeasible"]["remedies"]:
            test.succeeds(*below, floor, *remedy["arguments"], "--json")
    text = test.run("plan", "config.toml", "--memory", floor - page)
    test.equal("exit code of the same as text", text.code, 3)
    test.that("E-PLAN-FIT" in "".join(text.text()), "the text of an infeasible plan names E-PLAN-FIT")

    table = test.succeeds("plan", "config.toml")
    for word in ("steady", "floor", "knee", "ceiling", "bound", "levers", "arena", "parameters"):
        test.that(word in table, f"the text of plan says {word}")
    test.that(max(map(len, table.splitlines())) <= 110, "the table of plan is at most 110 columns wide")
    test.that("\033" not in table, "no colours into a pipe")
    # More than this machine has: planning is allowed, training is not.
    test.succeeds("plan", "config.toml", "--memory", "900TiB", "--json")


def options(test):
    plan = test.succeeds("plan", "config.toml", "--memory", "1KiB", "--memory", "48MiB", "--json")
    test.equal("the last --memory", plan["budget"]["memory"], 48 << 20)
    plan = test.succeeds(
        "plan", "config.toml", "--set", "train.effective_batch=4", "--set", "seed=9", "--set", "seed=10", "--json"
    )
    test.equal("--set accumulates", plan["batch"]["effective"], 4)
    noted = test.run("plan", "config.toml", "--host-memory", "1GiB", "--disk", "spill:2GiB", "--json")
    test.that(b"memory.host_memory has no effect" in noted.err, "kernels run in the host's memory")
    resting = ["--host-memory", "1GiB", "--set", "plan.optimizer_state=disk"]
    test.fails(2, "E-CONFIG-MISSING", "plan", "config.toml", *resting)
    plan = noted.json()
    test.equal("budget", plan["budget"], {"memory": 64 << 20, "host_memory": 1 << 30, "disk": 2 << 30})
    test.that(not test.path("spill").exists(), "planning makes no folder")
    test.fails(5, "E-DISK-FOLDER", "plan", "config.toml", "--disk", "no/such/folder:1GiB")
    test.fails(5, "E-DISK-FOLDER", "plan", "config.toml", "--disk", "config.toml:1GiB")
    for command in (
        [],
        ["nonsense"],
        ["plan"],
        ["plan", "config.toml", "--nonsense"],
        ["layout", "x.csv"],
        ["train", "config.toml", "--updates", "x"],
        ["train", "config.toml", "--updates", "0"],
        ["train", "config.toml", "--resume"],
    ):
        test.fails(2, "E-USAGE", *command)
    for command in (["--help"], ["--version"], ["plan", "--help"], ["train", "--help"]):
        test.that(test.succeeds(*command), f"{command} says something")
    version = test.succeeds("--version")
    for word in ("plimsoll", "Highway", "threads"):
        test.that(word in version, f"--version names {word}")
    linked = subprocess.run(["ldd", test.binary], capture_output=True, text=True).stdout
    test.equal("that --version names oneDNN", "oneDNN" in version, "libdnnl" in linked)
    names = {
        "train.per_device_train_batch_size": "2",
        "train.gradient_accumulation_steps": "4",
        "train.max_grad_norm": "0.5",
        "train.max_steps": "7",
        "train.lr": "1e-4",
        "train.warmup_steps": "3",
        "train.adam_epsilon": "1e-7",
    }
    plan = test.succeeds(
        "plan", "config.toml", "--json", *(word for name, value in names.items() for word in ("--set", f"{name}={value}"))
    )
    test.equal("names of other programs", (plan["batch"]["micro"], plan["batch"]["accumulation"]), (2, 4))
    names = {"train.train_batch_size": "8", "train.train_micro_batch_size_per_gpu": "4", "train.gradient_clipping": "1.0"}
    plan = test.succeeds(
        "plan", "config.toml", "--json", *(word for name, value in names.items() for word in ("--set", f"{name}={value}"))
    )
    test.equal("names of DeepSpeed", (plan["batch"]["micro"], plan["batch"]["accumulation"]), (4, 2))
    for preset in ([], ["gpt2"], ["byte-3m"]):
        text = test.succeeds("init", *preset)
        test.write("init.toml", text.replace('"train.bin"', '"train.txt"').replace('"validation.bin"', '"validation.txt"'))
        test.succeeds("plan", "init.toml", "--memory", "900TiB", "--json") if preset != ["gpt2"] else None
    full = pathlib.Path("/dev/full")
    if full.exists():
        with full.open("w") as stdout:
            test.equal("exit code where stdout is full", test.run("--version", stdout=stdout).code, 5)
        with full.open("w") as stdout:
            test.equal("exit code where stdout is full, much text", test.run("init", stdout=stdout).code, 5)


def machines(test):
    machine = test.succeeds("machine", "--json")
    test.that(test.succeeds("machine") != "", "machine says something")
    plans = [test.succeeds("plan", "config.toml", "--machine", where, "--json") for where in ("sim", "sim", machine["file"])]
    test.shape("plan for sim", plans[0], PLAN)
    test.equal("plans for sim", plans[0]["plan_hash"], plans[1]["plan_hash"])
    test.that(plans[0]["machine_hash"] != plans[2]["machine_hash"], "sim is another machine")
    test.fails(2, "E-MACHINE-FILE", "plan", "config.toml", "--machine", "config.toml")
    measured = test.succeeds("machine", "config.toml", "--json")
    test.that(measured["kernels_measured"] > 0, "machine CONFIG measures kernels")
    micros = measured["configuration"]
    test.equal("micro-batches", sorted(micro["micro_batch"] for micro in micros), [1, 2, 4, 8])
    told = test.succeeds("machine", "config.toml")
    for micro in micros:
        test.that(0 < micro["measured"] <= micro["kernels"] and 0 < micro["work_share"] < 1.001, f"some are kept: {micro}")
        test.that(f"micro-batch {micro['micro_batch']}: " in told, f"machine CONFIG says what it kept: {told}")
    if all(micro["measured"] == micro["kernels"] for micro in micros):  # on a machine that others leave time on
        test.that("(from measured kernels)" in test.succeeds("plan", "config.toml"), "a plan from measured kernels says so")
    bounded = test.succeeds("plan", "config.toml", "--machine", "sim")
    test.that("update at least " in bounded and " kernels not measured" in bounded, f"a plan from bounds says so: {bounded}")
    stopped(test, pathlib.Path(machine["file"]))


def stopped(test, file):
    """The measurements of a stopped `machine CONFIG` are kept."""
    cache = test.path("cache")
    (cache / "plimsoll").mkdir(parents=True)
    shutil.copy(file, cache / "plimsoll")
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    other = ["config.toml", "--set", "model.width=72", "--set", "model.heads=3"]
    process = subprocess.Popen(
        [test.binary, "machine", *other], cwd=test.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment,
    )
    micros = 0
    while micros < 2 and (line := process.stderr.readline()):
        micros += line.startswith("measuring ") and " at micro-batch " in line
    process.terminate()
    process.communicate(timeout=60)
    test.that(process.returncode != 0, f"it was stopped: {process.returncode}")
    before, after = (json.loads(each.read_text())["kernels"] for each in (file, cache / "plimsoll" / file.name))
    test.that(len(after) > len(before), f"what was measured until then is kept: {len(before)}, {len(after)}")


def values_and_replay(test):
    plan = test.succeeds("plan", "config.toml", "--values", "--out", "plan.json", "--json")
    for value in plan["values"]:
        test.shape("value", value, VALUE)
    written = json.loads(test.path("plan.json").read_text())
    test.equal("plan.json", written["plan_hash"], plan["plan_hash"])
    name = plan["values"][3]["name"]
    for what in (name, str(plan["values"][3]["id"])):
        test.that(name in test.succeeds("explain", what, "--plan", "plan.json"), f"explain {what} names the value")
    result = test.run("explain", "no-such-value", "--plan", "plan.json")
    test.equal("exit code of explain for an unknown value", result.code, 2)
    test.that("what" in test.succeeds("explain", "E-PLAN-FIT"), "explain E-PLAN-FIT")
    test.equal("exit code of explain for an unknown code", test.run("explain", "E-NO-SUCH").code, 2)

    run = test.succeeds("train", "config.toml", "--plan", "plan.json", "--run", "replayed", "--json")
    test.equal("plan of the replay", run["plan_hash"], plan["plan_hash"])
    test.equal(
        "plan.json of the replay", json.loads(test.path("replayed/plan.json").read_text())["plan_hash"], plan["plan_hash"]
    )
    again = test.succeeds("train", "config.toml", "--plan", "replayed/plan.json", "--run", "again", "--json")
    test.equal("plan of the replay's replay", again["plan_hash"], plan["plan_hash"])
    test.equal("weights of both", again["final"]["parameters_xxh128"], run["final"]["parameters_xxh128"])
    test.fails(
        3,
        "E-PLAN-FIT",
        "train",
        "config.toml",
        "--plan",
        "plan.json",
        "--run",
        "none",
        "--memory",
        plan["predicted"]["process_bytes"] - 4096,
    )
    test.fails(2, "E-PLAN-REPLAY", "train", "config.toml", "--plan", "plan.json", "--run", "none", "--set", "model.layers=3")
    changed_plans(test)


def changed_plans(test):
    """Decisions that no plan of this graph has."""
    plan = json.loads(test.path("plan.json").read_text())

    def refused(code, change):
        bad = copy.deepcopy(plan)
        change(bad["record"])
        test.write("bad.json", json.dumps(bad))
        test.fails(2, code, "train", "config.toml", "--plan", "bad.json", "--run", "none")

    refused("E-PLAN-FILE", lambda record: record.update(blocks=[{"block": "h.0", "mode": "keep"}]))
    for rows in ([[0, 10**6]], [[10**6, 0]], [[5, 4]]):
        refused("E-PLAN-REPLAY", lambda record, rows=rows: record.update(replays=rows))
    refused("E-PLAN-FILE", lambda record: record.update(replays=[[1]]))
    for rows in ([[0, 1]], [[1]], [["a", 1]], [1]):  # of older plans, whose transfers began later
        refused("E-PLAN-FILE", lambda record, rows=rows: record.update(late=rows))


def averages(test):
    """An EMA of the weights equals constant weights, lies between changing ones, and survives a restart."""

    def run(name, *more, updates=6):
        keys = ["--set", "optimizer.ema_half_life=8samples", "--updates", updates]
        end = test.succeeds("train", "config.toml", "--run", name, *keys, *more, "--json")
        return end, [test.path(f"{name}/{folder}/model.safetensors").read_bytes() for folder in ("weights", "weights_ema")]

    _, (weights, average) = run("ema-still", "--set", "optimizer.learning_rate=0")
    test.that(weights == average, "averages of weights that stay")
    _, (weights, average) = run("ema", "--audit")
    test.that(weights != average, "averages of weights that move")
    plan = json.loads(test.path("ema/plan.json").read_text())
    owners = {phase["name"]: phase["owners"] for phase in plan["predicted"]["phases"]}["steady"]
    test.equal("state of AdamW and the average", owners["optimizer state"], 3 * owners["parameters"])
    run("ema-again", updates=3)
    _, again = run("ema-again", "--resume")
    test.that(again == [weights, average], "a continued run has the same weights and averages")
    test.fails(2, "E-RESUME", "train", "config.toml", "--run", "ema-again", "--resume", "--set", "optimizer.ema_half_life=none")
    lower = test.succeeds("eval", "config.toml", "--weights", "ema/weights_ema", "--json")
    test.shape("eval of averages", lower, EVAL)


def training(test):
    run = test.succeeds("train", "config.toml", "--run", "run", "--json")
    if run is None:
        return
    test.shape("run", run, RUN)
    test.equal("run.json", test.report("run"), run)
    test.equal("status", (run["status"], run["exit_code"], run["error"]), ("done", 0, None))
    # The last token of the file has no next token to predict.
    test.equal("counters", (run["updates"], run["samples"], run["units"] in (48 * 32, 48 * 32 - 1)), (6, 48, True))
    test.that(run["measured"]["process_hwm_bytes"] <= run["budget"]["memory"], "the process stayed within its budget")
    lines = test.lines("run")
    for i, line in enumerate(lines):
        test.shape("line of metrics", line, METRICS)
        test.equal("update and samples", (line["update"], line["samples"]), (i + 1, 8 * (i + 1)))
        for key in ("loss", "grad_norm"):
            test.equal(key + "_bits", line[key + "_bits"], struct.pack(">d", line[key]).hex())
    test.equal("lines of metrics.jsonl", len(lines), 6)
    test.equal("final loss", (run["final"]["loss"], run["final"]["loss_bits"]), (lines[-1]["loss"], lines[-1]["loss_bits"]))

    plan = json.loads(test.path("run/plan.json").read_text())
    test.equal(
        "hashes of plan.json",
        [plan[key] for key in ("plan_hash", "graph_hash", "config_hash", "machine_hash")],
        [run[key] for key in ("plan_hash", "graph_hash", "config_hash", "machine_hash")],
    )
    resolved = test.succeeds("plan", "run/config.resolved.toml", "--json")
    test.equal("config.resolved.toml is the same configuration", resolved["config_hash"], run["config_hash"])
    test.fails(2, "E-RUN-EXISTS", "train", "config.toml", "--run", "run")
    test.equal("run.json after a refusal", test.report("run"), run)

    config = json.loads(test.path("run/weights/config.json").read_text())
    test.that("byte" in json.dumps(config), "config.json has a marker for bytes")
    evaluated = test.succeeds("eval", "config.toml", "--weights", "run/weights", "--memory", "64MiB", "--json")
    test.shape("eval", evaluated, EVAL)
    test.that(isinstance(test.succeeds("eval", "config.toml", "--weights", "run/weights"), str), "eval as text")
    generate = ["generate", "--weights", "run/weights", "--prompt", "abc", "--tokens", "9", "--memory", "64MiB"]
    drawn = [test.run(*generate, "--seed", "5", "--temperature", "1.0").out for _ in range(2)]
    test.that(
        drawn[0] == drawn[1] and drawn[0].startswith(b"abc") and len(drawn[0]) == 13, f"generate repeats itself: {drawn}"
    )
    test.that(test.run(*generate, "--seed", "6", "--temperature", "1.0").out != drawn[0], "generate follows its seed")
    test.write(
        "tuned.toml",
        test.path("config.toml")
        .read_text()
        .replace("layers = 2\nwidth = 32\nheads = 2\ncontext = 32\nvocab = 256\n", 'init = "run/weights"\n'),
    )
    tuned = test.succeeds("train", "tuned.toml", "--run", "tuned", "--updates", "2", "--json")
    test.that(tuned["updates"] == 2 and tuned["status"] == "done", "--updates ends the run")
    test.that(test.lines("tuned")[0]["loss"] < lines[1]["loss"], "model.init begins where the other run ended")
    if test.succeeds("train", "config.toml", "--run", "cycled", "--set", "schedule.name=one_cycle", "--json") is not None:
        momentum = [line["momentum"] for line in test.lines("cycled")]
        test.that(momentum[0] == momentum[-1] == 0.95 and min(momentum) < 0.9, f"momentum of one cycle: {momentum}")
    still = ["--set", "optimizer.learning_rate=0", "--updates", "1", "--json"]
    plain = test.succeeds("train", "config.toml", "--run", "plain", *still)
    terms = ["--set", "train.label_smoothing=0.5", "--set", "train.z_loss=0.01"]
    smooth = test.succeeds("train", "config.toml", "--run", "smooth", *still, *terms)
    test.that(smooth["final"]["loss"] > plain["final"]["loss"] + 0.1, "terms of the training loss")
    test.equal("validation losses know none", smooth["final"]["validation_loss"], plain["final"]["validation_loss"])
    averages(test)
    audit = test.succeeds("train", "config.toml", "--run", "audit", "--audit", "--updates", "2", "--json")
    if audit is not None:
        test.equal(
            "audit",
            (audit["measured"]["method"], audit["measured"]["arena_bytes"], audit["measured"]["live_bytes"]),
            ("audit", audit["predicted"]["arena_bytes"], audit["predicted"]["live_bytes"]),
        )


def running(test):
    """During a run, run.json has the status `running` and the id of the process."""
    process = test.start("train", "config.toml", "--run", "long", "--updates", "100000")
    deadline = time.monotonic() + 60
    path = test.path("long/run.json")
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    if test.that(path.exists(), "run.json is there while the run lasts"):
        run = test.report("long")
        test.shape("run.json at the start", run, RUN)
        test.equal("status at the start", run["status"], "running")
        test.equal("pid", run["pid"], process.pid)
        metrics = test.path("long/metrics.jsonl")
        while metrics.stat().st_size == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        smaps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        test.that(f"{run['arena']['base']:x}-" in smaps, "arena.base is a mapping of the process")
    process.kill()
    process.communicate()
    test.equal("a run that was killed", test.report("long")["status"], "running")


def read_layout(path):
    with path.open(newline="") as file:
        return [{key: value for key, value in row.items()} for row in csv.DictReader(file)]


def overlap(a, b):
    return int(a["lower"]) < int(b["upper"]) and int(b["lower"]) < int(a["upper"])


def layouts(test):
    rows = [("b", 0, 4, 30), ("a", 2, 6, 20), ("long name", 4, 9, 30), ("d", 6, 12, 20), ("e", 9, 12, 30)]
    test.write(
        "in.csv", "size,id,upper,lower\n" + "".join(f"{size},{name},{upper},{lower}\n" for name, lower, upper, size in rows)
    )
    for mode in (["--minimize"], ["--capacity", "50"]):
        answer = test.succeeds("layout", "in.csv", *mode, "--out", "out.csv", "--json")
        test.shape("layout", answer, LAYOUT)
        test.equal("height and load", (answer["status"], answer["height"], answer["load"]), ("fits", 50, 50))
        out = read_layout(test.path("out.csv"))
        test.equal("columns", list(out[0]), ["id", "lower", "upper", "size", "offset"])
        test.equal("rows in their order", [(r["id"], int(r["lower"]), int(r["upper"]), int(r["size"])) for r in out], rows)
        for i, a in enumerate(out):
            test.that(0 <= int(a["offset"]) and int(a["offset"]) + int(a["size"]) <= answer["height"], "inside the height")
            for b in out[:i]:
                apart = int(a["offset"]) + int(a["size"]) <= int(b["offset"]) or int(b["offset"]) + int(b["size"]) <= int(
                    a["offset"]
                )
                test.that(apart or not overlap(a, b), f"{a} and {b} are apart")
    alone = test.run("layout", "in.csv", "--minimize")
    test.equal("the addresses alone", alone.out, test.path("out.csv").read_bytes())
    test.that("height 50" in alone.text()[1], "the summary is on stderr")
    test.path("out.csv").unlink()
    result = test.run("layout", "in.csv", "--capacity", "49", "--out", "out.csv", "--json")
    test.equal("too small", (result.code, result.json()["status"], test.path("out.csv").exists()), (3, "impossible", False))
    test.shape("impossible layout", result.json(), LAYOUT)
    test.fails(2, "E-USAGE", "layout", "in.csv")
    hard = pathlib.Path(__file__).resolve().parents[3] / "shared/data/layout/A.1048576.csv"
    if not hard.exists():
        print(f"skipped: a hard layout, {hard} is absent")
        return
    result = test.run("layout", hard, "--capacity", "1048576", "--work-limit", "1", "--json")
    test.that((result.code, result.json()["status"]) in ((0, "fits"), (3, "unknown")), f"a limited search: {result.out!r}")


def vocabulary(test):
    source = pathlib.Path(__file__).resolve().parents[3] / "shared/data/gpt2"
    if not source.is_dir():
        print(f"skipped: the GPT-2 vocabulary, {source} is absent")
        return
    test.write(
        "bpe.toml",
        test.path("config.toml")
        .read_text()
        .replace("vocab = 256", "vocab = 50257")
        .replace("64MiB", "1GiB")
        .replace('format = "bytes"', f'format = "bpe"\nvocabulary = "{source}"')
        .replace("updates = 6", "updates = 2"),
    )
    if test.succeeds("train", "bpe.toml", "--run", "bpe", "--json") is None:
        return
    for name in ("vocab.json", "merges.txt", "config.json", "model.safetensors"):
        test.that(test.path(f"bpe/weights/{name}").is_file(), f"weights hold {name}")
    text = test.succeeds("generate", "--weights", "bpe/weights", "--prompt", "hello", "--tokens", "3", "--temperature", "0")
    test.that(text.startswith("hello"), "generate through the vocabulary")
    test.shape("eval", test.succeeds("eval", "bpe.toml", "--weights", "bpe/weights", "--json"), EVAL)


def main():
    test = Test("contract")
    test.run_parts(plans, options, machines, values_and_replay, training, running, layouts, vocabulary)
    test.finish()


if __name__ == "__main__":
    main()
