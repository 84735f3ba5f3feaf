#!/usr/bin/env python3
"""`profile`, through the command: python3 profile.py path/to/plimsoll

It trains as `train` does, its parts add up, planted bottlenecks get their verdict, two profiles compare, and traces are sound.
"""

import functools
import json
import os
import random
import re
import resource
import time

from _data import packed_chats
from _plimsoll import Test
from _shim import environment_of
from _trace import faults_of, read_trace

ONE = ["--set", "machine.threads=1"]
WIDE = [*ONE, "--set", "model.width=256", "--set", "model.heads=4", "--set", "train.effective_batch=32"]
TRIES = 6  # another process on this machine may make an update wait for anything

PROFILE = {
    "schema": "plimsoll.profile/1",
    "verdict": str,
    "why": str,
    "plan_hash": str,
    "update_seconds": float,
    "predicted_seconds": float,
    "parts": {key: float for key in ("kernels", "update", "copies", "data", "feed", "other")},
}


def profile(test, *more, environment=None):
    result = test.run("profile", "config.toml", *more, "--json", environment=environment)
    if not test.equal(f"exit code of `{result.command}`", result.code, 0):
        print("\n".join(result.text())[-2000:])
        return None
    return result.json()


def metrics(test, run):
    lines = (test.path(run) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def owners_of(plan):
    """The live bytes of `plan --values` by phase, step, tier and owner, without the program's own sums."""
    sums = {}
    for value in plan["values"]:
        if value["alias_of"] is not None:
            continue
        for part in value["ranges"]:
            for step in range(part["begin"], part["end"]):
                where = (part["phase"], step, value["tier"], value["role"])
                sums[where] = sums.get(where, 0) + value["bytes"]
    return sums


def adds_up(test, found, plan):
    update = found["update_seconds"]
    test.near("sum of the parts", sum(found["parts"].values()), update, 1e-9)
    test.that(all(seconds >= -1e-9 for seconds in found["parts"].values()), f"no part is negative: {found['parts']}")
    kernels = found["parts"]["kernels"] + found["parts"]["update"]
    test.near("sum of the ops", sum(op["seconds"] for op in found["ops"]), kernels, 1e-9)
    if plan is not None:
        test.near("planned seconds", found["predicted_seconds"], plan["predicted"]["update_seconds"], 1e-9)
        planned = sum(op["predicted"] for op in found["ops"])
        test.near("planned seconds of the ops", planned, plan["predicted"]["lanes"]["compute"], 1e-6)
    measured = [window["seconds"] for window in found["windows"][1:]]
    test.near("mean of the windows", sum(measured) / len(measured), update, 1e-9)


def same_timeline(test, found, plan):
    """Owners add up to the planned live bytes at every step, and `plan --values` says the same."""
    sums = owners_of(plan)
    for phase in found["timeline"]:
        steps = phase["steps"]
        test.equal(f"steps of {phase['phase']}", steps, list(range(steps[0], steps[0] + len(steps))))
        mine = {}
        for tier, owners in phase["tiers"].items():
            for owner, levels in owners.items():
                mine.update({(phase["phase"], step, tier, owner): level for step, level in zip(steps, levels) if level})
        want = {where: level for where, level in sums.items() if where[0] == phase["phase"] and level}
        test.equal(f"timeline of {phase['phase']}", mine, want)
        live = max(sum(levels) for levels in zip(*phase["tiers"][plan["predicted"]["tiers"][0]["name"]].values()))
        planned = next(one["live_bytes"] for one in plan["predicted"]["phases"] if one["name"] == phase["phase"])
        test.equal(f"peak of {phase['phase']}", live, planned)
    test.equal("sum of the live set", sum(value["bytes"] for value in found["peak"]), found["peak_at"]["live_bytes"])
    test.equal("peak", found["peak_at"]["live_bytes"], plan["predicted"]["live_bytes"])


def trains_as_train(test):
    """The plan, the losses and the budget of `train`; nothing stays."""
    before = sorted(path.name for path in test.folder.iterdir())
    found = profile(test, *ONE, "--memory", "48MiB", "--updates", "3")
    test.equal("files", sorted(path.name for path in test.folder.iterdir()), before)
    test.shape("profile", {key: found[key] for key in PROFILE}, PROFILE)
    plan = test.succeeds("plan", "config.toml", *ONE, "--memory", "48MiB", "--values", "--json")
    test.succeeds("train", "config.toml", *ONE, "--memory", "48MiB", "--run", "run", "--json")
    test.equal("plan", found["plan_hash"], json.loads(test.path("run/plan.json").read_text())["plan_hash"])
    losses = [line["loss"] for line in metrics(test, "run")[:4]]
    test.equal("losses", [window["loss"] for window in found["windows"]], losses)
    adds_up(test, found, plan)
    same_timeline(test, found, plan)
    process = found["process"]
    test.that(process["measured_bytes"] <= process["planned_bytes"] <= process["budget_bytes"], f"the process: {process}")
    test.that(found["evaluate_seconds"] > 0 and found["save_seconds"] > 0, "one evaluation, one checkpoint")
    text = test.succeeds("profile", "config.toml", *ONE, "--memory", "48MiB", "--updates", "1")
    for word in ("verdict", "next", "kernels of micro-steps", "waits for data", "live at the peak", "timer of instructions"):
        test.that(word in text, f"the text has '{word}'")


def plans_answers(test):
    """With answers to held-out prompts the plan and the losses are those of `train`, also under the audit."""
    more = [*ONE, "--set", "train.show_samples=1"]
    test.succeeds("train", "config.toml", *more, "--run", "answers", "--updates", "3", "--json")
    plan = json.loads(test.path("answers/plan.json").read_text())
    test.equal("prompts", (plan["samples"]["prompts"], plan["samples"]["left_out"]), (1, None))
    losses = [line["loss"] for line in metrics(test, "answers")]
    for audit in ([], ["--audit"]):
        found = profile(test, *more, *audit, "--updates", "2")
        names = {phase["phase"] for phase in found["audit"] or []}
        test.that(not audit or {"extend", "decode"} <= names, f"the evaluation answers: {names}")
        test.equal(f"plan {audit}", found["plan_hash"], plan["plan_hash"])
        test.equal(f"losses {audit}", [window["loss"] for window in found["windows"]], losses)
        test.equal(f"audit {audit}", found["audit"] is not None, bool(audit))


def continues_a_run(test):
    """--run takes the settings of a run, and the state of its checkpoint; the run stays as it is."""
    test.succeeds("train", "config.toml", *ONE, "--run", "kept", "--updates", "2", "--json")
    before = {path: path.stat().st_mtime_ns for path in test.path("kept").rglob("*") if path.is_file()}
    found = test.succeeds("profile", "--run", "kept", "--updates", "2", "--json")
    after = {path: path.stat().st_mtime_ns for path in test.path("kept").rglob("*") if path.is_file()}
    test.equal("files of the run", after, before)
    test.equal("plan", found["plan_hash"], json.loads(test.path("kept/plan.json").read_text())["plan_hash"])
    test.succeeds("train", "--run", "kept", "--resume", "--json")
    test.equal("updates", [window["update"] for window in found["windows"]], [3, 4, 5])
    # The next step is one that a resume permits; bf16 and 8-bit states, which would save more, are not.
    new = profile(test, *WIDE, "--memory", "1GiB", "--updates", "1")
    test.that(new["next"] and "precision." in " ".join(new["next"]["arguments"]), f"bf16 helps: {new['next']}")
    test.succeeds("train", "config.toml", *WIDE, "--memory", "1GiB", "--run", "wide", "--updates", "1", "--json")
    step = test.succeeds("profile", "--run", "wide", "--updates", "1", "--json")["next"]
    if step:
        test.that("precision." not in " ".join(step["arguments"]), f"a resume refuses {step}")
        applied = test.succeeds("profile", "--run", "wide", *step["arguments"], "--updates", "1", "--json")
        test.near("planned seconds of the step", applied["predicted_seconds"], step["update_seconds"], 1e-3)
    test.equal("losses", [window["loss"] for window in found["windows"]], [line["loss"] for line in metrics(test, "kept")[2:5]])


def continues_a_fallen_rate(test):
    """The schedule plateau continues with the rate that the evaluations of the run left."""
    more = ["--set", "schedule.name=plateau", "--set", "schedule.patience=2", "--set", "schedule.factor=0.25"]
    more += ["--set", "schedule.warmup=0", "--set", "optimizer.learning_rate=0.3", "--set", "train.updates=20"]
    more += ["--set", "train.evaluate_every=2"]
    test.succeeds("train", "config.toml", *ONE, *more, "--run", "fallen", "--updates", "8", "--json")
    found = test.succeeds("profile", "--run", "fallen", "--updates", "1", "--json")
    test.succeeds("train", "--run", "fallen", "--resume", "--updates", "10", "--json")
    lines = metrics(test, "fallen")
    test.that(lines[8]["learning_rate"] < lines[0]["learning_rate"], "the rate has fallen")
    # The second loss follows from the rate of the first update.
    test.equal("losses", [window["loss"] for window in found["windows"]], [line["loss"] for line in lines[8:10]])


def refuses_other_states(test):
    """A run whose data or checkpoint are others is refused, as by a resume."""
    test.write("mine.txt", test.path("train.txt").read_bytes())
    data = ["--set", f"data.train={test.path('mine.txt')}"]
    test.succeeds("train", "config.toml", *ONE, *data, "--run", "mine", "--updates", "2", "--json")
    test.write("mine.txt", test.path("train.txt").read_bytes()[::-1])
    test.fails(2, "E-RESUME-DATA", "profile", "--run", "mine")
    test.write("mine.txt", test.path("train.txt").read_bytes())
    other = test.run("profile", "--run", "mine", "--updates", "1", "--set", "train.micro_batch=1", "--json")
    test.equal("exit code with another micro-batch", other.code, 0)
    test.that("changed since the checkpoint: train.micro_batch" in "".join(other.text()), f"a note tells it: {other.text()}")


def keeps_the_floor(test):
    """At the floor the timer still has room, by the kernel's own count of the process."""
    floor = test.succeeds("plan", "config.toml", *WIDE, "--memory", "1GiB", "--json")["bounds"]["floor_bytes"]
    found = profile(test, *WIDE, "--memory", floor, "--updates", "2")
    plan = test.succeeds("plan", "config.toml", *WIDE, "--memory", floor, "--json")
    test.equal("plan at the floor", found["plan_hash"], plan["plan_hash"])
    process = found["process"]
    test.that(process["measured_bytes"] <= floor and process["planned_bytes"] <= floor, f"within {floor}: {process}")
    timer = [item["bytes"] for item in process["reserve"] if item["name"] == "timer of instructions"]
    test.that(len(timer) == 1 and timer[0] > 0, f"the timer is an item of the reserve: {process['reserve']}")
    test.that(found["verdict"] in ("MEMORY-BOUND", "IO-BOUND") or found["parts"]["data"] > 0, found["verdict"])


def audits(test):
    found = profile(test, *ONE, "--updates", "1", "--audit")
    test.that(found["audit"], "the audit has phases")
    for phase in found["audit"]:
        planned = (phase["planned_live_bytes"], phase["planned_arena_bytes"])
        test.equal(f"audit of {phase['phase']}", (phase["live_bytes"], phase["arena_bytes"]), planned)
    names = {phase["phase"] for phase in found["audit"]}
    test.that({"load", "first", "evaluate", "save"} <= names, f"phases: {names}")


def audits_all_phases(test):
    """Owners add up, `plan --values` says the same, and the audit sees the planned peaks: with other tiers, with passes within a
    window, and with answers."""
    disk = ["--disk", f"{test.path('tiers')}:1GiB", "--set", "plan.optimizer_state=disk", "--set", "plan.parameters=disk"]
    disk += ["--set", "plan.group=1", "--set", "model.width=128", "--memory", "96MiB"]
    several = ["--set", "train.micro_batch=2", "--set", "train.noise_every=2"]
    sim = ["--device", "sim", "--memory", "4MiB", "--host-memory", "8GiB", "--set", "model.width=128"]
    samples = ["--set", "train.show_samples=1"]
    for name, more, passes in (
        ("disk", disk, set()),
        ("disk-noise", [*disk, *several], {"noise"}),
        ("group", [*several, "--set", "plan.group=2"], {"noise"}),
        ("answers", [*several, *samples], {"noise", "extend", "decode"}),
        ("sim", [*sim, *several, "--set", "plan.group=1"], {"noise"}),
    ):
        plan = test.succeeds("plan", "config.toml", *ONE, *more, "--values", "--json")
        found = profile(test, *ONE, *more, "--updates", "2", "--audit")
        if not test.equal(f"plan of {name}", found["plan_hash"], plan["plan_hash"]):
            continue
        same_timeline(test, found, plan)
        tiers = {tier for phase in found["timeline"] for tier in phase["tiers"]}
        test.equal(f"tiers of {name}", len(tiers), 2 if name.startswith(("disk", "sim")) else 1)
        names = {phase["phase"] for phase in found["audit"]}
        test.that(passes | {"load", "first", "evaluate", "save"} <= names, f"phases of {name}: {names}")
        for phase in found["audit"]:
            planned = (phase["planned_live_bytes"], phase["planned_arena_bytes"])
            test.equal(f"audit of {phase['phase']}, {name}", (phase["live_bytes"], phase["arena_bytes"]), planned)


def single_rounds(test):
    """Windows of one micro-step in a plan of two rounds, whose update has more live bytes than a micro-step."""
    config = packed_chats(test, 4)
    more = ["--memory", "512MiB", "--set", "batch.packing=true", "--set", "train.effective_batch=3", "--set", "plan.group=1"]
    more += ["--disk", f"{test.path('singles')}:1GiB", "--set", "plan.optimizer_state=disk", "--set", "plan.loss_chunks=4"]
    more += ["--set", "model.width=128"]
    test.succeeds("train", config, *more, "--updates", "12", "--audit", "--run", "single", "--json")
    phases = {phase["name"]: phase for phase in json.loads(test.path("single/plan.json").read_text())["predicted"]["phases"]}
    test.that(phases["steady"]["live_bytes"] > phases["first"]["live_bytes"], f"the update holds more: {phases}")
    steps = {line["micro_steps"] for line in metrics(test, "single")}
    test.equal("micro-steps of the windows", steps, {1, 2})
    test.succeeds("profile", config, *more, "--updates", "12", "--audit", "--json")


def ragged_windows(test):
    """Samples of their own lengths in packed rows: the windows are those of `train`."""
    config = packed_chats(test, 4)
    more = ["--memory", "96MiB", "--set", "batch.packing=true", "--set", "train.effective_batch=12"]
    found = test.succeeds("profile", config, *more, "--updates", "3", "--json")
    test.succeeds("train", config, *more, "--run", "chats", "--json")
    test.equal("plan", found["plan_hash"], json.loads(test.path("chats/plan.json").read_text())["plan_hash"])
    trained = metrics(test, "chats")
    for window, line in zip(found["windows"], trained, strict=True):
        for key in ("loss", "samples", "micro_steps"):
            test.equal(f"{key} of update {line['update']}", window[key], line[key])
        test.equal("rows", window["rows"], 2 * line["micro_steps"])
    adds_up(test, found, None)
    # Some windows have a single micro-step, although the plan has several rounds: `first` contains their update.
    more[-1] = "train.effective_batch=3"
    audited = test.succeeds("profile", config, *more, "--updates", "12", "--audit", "--json")
    steps = {window["micro_steps"] for window in audited["windows"]}
    test.that(1 in steps and len(steps) > 1, f"micro-steps of the windows: {steps}")
    # The table shows the mean number of runs, with a decimal where it is not whole.
    runs = {(op["op"], op["section"]): op["runs"] for op in audited["ops"]}
    table = test.succeeds("profile", config, *more, "--updates", "12")
    rows = re.findall(r"^  (\S+) +(\w+) +([\d.]+) +\S+ \w+ +[\d.]+ %", table, re.MULTILINE)
    shown = {(op, section): text for op, section, text in rows}
    test.that(any(run % 1 for run in runs.values()), f"means that are not whole: {runs}")
    test.that(len(shown) > 5 and not shown.keys() - runs.keys(), f"rows of the table: {shown}")
    for row, text in shown.items():
        test.equal(f"runs of {row}", text, f"{runs[row]:.{1 if runs[row] % 1 else 0}f}")


# ---- planted bottlenecks ----


def becomes(test, verdicts, *more, environment=None):
    """The profile whose verdict is one of these, if one of a few has it."""
    found = None
    for _ in range(TRIES):
        found = profile(test, *more, environment=environment)
        if found is None or found["verdict"] in verdicts:
            break
    if not test.that(found and found["verdict"] in verdicts, f"verdict {found and found['verdict']}, expected {verdicts}"):
        print(json.dumps({key: found[key] for key in ("why", "parts", "next")}) if found else "")
        return None
    test.that(found["why"][0].isdigit(), f"a number says why: {found['why']}")
    return found


def applies(test, found, *more):
    """The next step is a plan that fits, with the predicted seconds."""
    step = found["next"]
    plan = test.succeeds("plan", "config.toml", *more, *step["arguments"], "--json")
    test.near(f"seconds with {step['arguments']}", plan["predicted"]["update_seconds"], step["update_seconds"], 1e-3)
    test.that(plan["predicted"]["process_bytes"] <= plan["budget"]["memory"], "it fits")
    base = test.succeeds("plan", "config.toml", *more, "--json")["predicted"]["update_seconds"]
    test.that(plan["predicted"]["update_seconds"] <= 0.95 * base, f"it saves 5 %: {base}, {step}")


SLOW = r"""
static int before(size_t* count) {
  (void)count;
  usleep((unsigned)atoi(getenv("SLOW_MICROSECONDS")));
  return 0;
}
"""


def slow_data(test):
    slow = environment_of(test, "slow", SLOW, test.path("train.txt"))
    if slow is None:
        return print("skipped: slow_data, no C compiler")
    slow["SLOW_MICROSECONDS"] = "20000"
    found = becomes(test, ["INPUT-BOUND"], *ONE, environment=slow)
    if found:
        test.equal("next step", found["next"], None)
        waited = sum(window["wait_seconds"] for window in found["windows"][1:]) / (len(found["windows"]) - 1)
        test.near("waits for data", found["parts"]["data"], waited, 1e-6)
        test.that(waited > 0.02, f"the delay shows: {waited}")
        test.that(found["windows"][0]["wait_seconds"] > 0.02, "the first window is shown with its wait")

    # Reading that an update hides is no wait: 32 samples in 6 ms.
    slow["SLOW_MICROSECONDS"] = "200"
    hidden = becomes(test, ["COMPUTE-BOUND", "MEMORY-BOUND"], *WIDE, "--memory", "1GiB", environment=slow)
    if hidden:
        test.that(hidden["parts"]["data"] < 0.15 * hidden["update_seconds"], f"hidden reading: {hidden['parts']}")


def slow_link(test):
    sim = [*ONE, "--device", "sim", "--set", "model.width=256", "--set", "model.heads=4", "--set", "train.micro_batch=4"]
    host = ["--host-memory", "8GiB"]
    floor = test.succeeds("plan", "config.toml", *sim, *host, "--memory", "1GiB", "--json")["bounds"]["floor_bytes"]
    more = [*sim, *host, "--memory", floor, "--set", "machine.host_bytes_per_second=100e6"]
    found = becomes(test, ["IO-BOUND"], *more)
    if found and test.that(found["next"], "a step helps"):
        applies(test, found, *more)


def large_vocabulary(test):
    more = [*ONE, "--memory", "2GiB", "--set", "model.vocab=60000", "--set", "model.context=4"]
    more += ["--set", "train.effective_batch=1"]
    more += ["--set", "model.kind=llama", "--set", "model.tied=false", "--set", "model.layers=1", "--set", "model.dropout=0"]
    more += ["--set", "model.mlp_width=64", "--set", "model.kv_heads=1"]
    more += ["--set", "model.width=64", "--set", "train.evaluate_samples=2"]
    found = becomes(test, ["OPTIMIZER-BOUND"], *more)
    if found and test.that(found["next"], "a step helps"):
        applies(test, found, *more)


def memory_budget(test):
    floor = test.succeeds("plan", "config.toml", *WIDE, "--memory", "1GiB", "--json")["bounds"]["floor_bytes"]
    found = becomes(test, ["MEMORY-BOUND", "IO-BOUND"], *WIDE, "--memory", floor)
    if found and test.that(found["next"], "a step helps"):
        test.equal("what it changes", found["next"]["arguments"][0], "--memory")
        applies(test, found, *WIDE, "--memory", floor)


def large_batch(test):
    found = becomes(test, ["COMPUTE-BOUND"], *WIDE, "--memory", "1GiB")
    if found:
        if test.that(found["next"], "a step helps"):
            applies(test, found, *WIDE, "--memory", "1GiB")
        test.that(all(op["bound"] <= op["seconds"] * 1.5 for op in found["ops"][:3]), "bounds lie below the largest ops")


def other_is_small(test):
    """At most 3 % of an update of 50 ms or more have no name: with one micro-step, with many of them, and with copies."""
    wide = [*WIDE, "--memory", "1GiB", "--set", "train.effective_batch=64"]
    disk = ["--disk", f"{test.path('copies')}:1GiB", "--set", "plan.optimizer_state=disk", "--set", "plan.parameters=disk"]
    for name, more in (
        ("one", [*wide, "--set", "train.micro_batch=64"]),
        ("many", [*wide, "--set", "train.micro_batch=1"]),
        ("copies", [*wide, *disk, "--set", "train.micro_batch=8", "--set", "plan.group=1"]),
    ):
        for _ in range(TRIES):
            found = profile(test, *more, "--updates", "3")
            share = found["parts"]["other"] / found["update_seconds"]
            if share <= 0.03:
                break
        test.that(found["update_seconds"] >= 0.05, f"{name} takes 50 ms: {found['update_seconds']}")
        test.that(share <= 0.03, f"other of {name}: {share}, {found['parts']}")
        test.equal(f"copies of {name}", found["parts"]["copies"] > 0, name == "copies")


# ---- two profiles, and the trace ----


def compares(test):
    for name, more in (("a.json", []), ("b.json", ["--set", "model.layers=3"])):
        test.write(name, test.run("profile", "config.toml", *ONE, *more, "--json").out)
    a, b = (json.loads(test.path(name).read_text()) for name in ("a.json", "b.json"))
    diff = test.succeeds("profile", "--compare", "a.json", "b.json", "--json")
    test.equal("schema", diff["schema"], "plimsoll.profile-diff/1")
    update = b["update_seconds"] - a["update_seconds"]
    test.near("difference", diff["update_seconds"]["difference"], update, 1e-9)
    test.that(abs(sum(row["difference"] for row in diff["seconds"]) - update) < 1e-9, "rows of seconds add up")
    peaks = b["peak_at"]["live_bytes"] - a["peak_at"]["live_bytes"]
    test.equal("rows of bytes", sum(row["difference"] for row in diff["bytes"]), peaks)
    sizes = [abs(row["difference"]) for row in diff["seconds"]]
    test.equal("order", sizes, sorted(sizes, reverse=True))
    text = test.succeeds("profile", "--compare", "a.json", "b.json")
    test.that("matmul" in text and "activations" in text, text)
    for name, content in {"cut.json": test.path("a.json").read_bytes()[:5000], "list.json": b"[]", "none.json": b""}.items():
        test.write(name, content)
        test.fails(2, "E-PROFILE-FILE", "profile", "--compare", "a.json", name)
    test.fails(2, "E-PROFILE-FILE", "profile", "--compare", "absent.json", "a.json")
    test.fails(2, "E-USAGE", "profile", "--compare", "a.json", "b.json", "--updates", "3")
    test.fails(2, "E-USAGE", "profile")
    test.fails(2, "E-RUN-MISSING", "profile", "--run", "nowhere")
    test.fails(2, "E-USAGE", "profile", "config.toml", "--run", "run")


def traces(test):
    disk = ["--disk", f"{test.path('pages')}:1GiB", "--set", "plan.optimizer_state=disk", "--set", "plan.parameters=disk"]
    several = ["--set", "train.micro_batch=2"]
    for name, tracks, more in (
        ("plain", 0, ["--set", "train.micro_batch=8"]),
        ("rounds", 0, several),
        ("pages", 2, [*several, *disk, "--set", "plan.group=1", "--set", "model.width=128"]),
        ("together", 2, [*several, *disk, "--set", "plan.group=2", "--set", "model.width=128"]),
    ):
        plan = test.succeeds("plan", "config.toml", *ONE, *more, "--memory", "96MiB", "--json")
        rounds = plan["batch"]["accumulation"] // plan["decisions"]["group"]
        found = profile(test, *ONE, *more, "--memory", "96MiB", "--updates", "2", "--trace", f"{name}.trace")
        trace = read_trace(test.path(f"{name}.trace"))
        test.equal(f"faults of {name}", faults_of(trace, found, rounds), [])
        events = trace["traceEvents"]
        kernels = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (1, 1)]
        last = max(event["ts"] + event["dur"] for event in kernels)
        [whole] = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (1, 4)]
        test.equal("update", whole["name"], f"update {found['windows'][-1]['update'] + 1}")
        test.that(0 < last <= whole["dur"] + 1, f"{name} ends with the update: {last}, {whole}")
        lanes = {event["args"]["name"] for event in events if event["ph"] == "M" and event["args"]["name"].startswith("copies")}
        test.equal(f"tracks of copies in {name}", len(lanes), tracks)
        planned = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (2, 1)]
        seconds = 1e-6 * max(event["ts"] + event["dur"] for event in planned)
        test.near(f"planned end of {name}", seconds, found["predicted_seconds"], 0.02)
    faulty = read_trace(test.path("plain.trace"))
    slices = [event for event in faulty["traceEvents"] if event["ph"] == "X" and event["dur"] > 0]
    slices[3]["ts"] = slices[2]["ts"] + slices[2]["dur"] / 2
    slices[3]["dur"] = slices[2]["dur"]
    test.that(faults_of(faulty), "the checker finds slices that overlap")
    test.fails(5, "E-IO-WRITE", "profile", "config.toml", *ONE, "--updates", "1", "--trace", "absent/t.json")


def measures_noise(test):
    """The pass of the noise scale in a window is a part of the update, and of the trace."""
    more = [*ONE, "--set", "train.micro_batch=2", "--set", "train.noise_every=2"]
    found = test.succeeds("profile", "config.toml", *more, "--updates", "4", "--trace", "noise.trace", "--json")
    adds_up(test, found, None)
    test.that(any(op["section"] == "noise" for op in found["ops"]), "the pass has ops of its own")
    trace = read_trace(test.path("noise.trace"))
    test.equal("faults", faults_of(trace, found, 4, noise=True), [])
    plan = test.succeeds("plan", "config.toml", *more, "--json")
    [planned] = [event["dur"] for event in trace["traceEvents"] if event["ph"] == "X" and (event["pid"], event["tid"]) == (2, 4)]
    test.near("planned update and pass", 1e-6 * planned, found["predicted_seconds"] + plan["noise"]["seconds"], 0.02)
    test.succeeds("train", "config.toml", *more, "--run", "noise", "--updates", "5", "--json")
    losses = [line["loss"] for line in metrics(test, "noise")]
    test.equal("losses", [window["loss"] for window in found["windows"]], losses)
    # A window without a measurement.
    short = test.succeeds("profile", "config.toml", *more, "--updates", "1", "--trace", "plain.trace", "--json")
    test.equal("faults of a plain window", faults_of(read_trace(test.path("plain.trace")), short, 4), [])


def traces_many_rounds(test):
    """The trace of a window with many micro-steps is written in seconds."""
    more = [*ONE, "--set", "train.effective_batch=256", "--set", "train.micro_batch=1", "--updates", "1"]
    plain = time.monotonic()
    test.succeeds("profile", "config.toml", *more, "--json")
    plain = time.monotonic() - plain
    traced = time.monotonic()
    found = test.succeeds("profile", "config.toml", *more, "--trace", "long.trace", "--json")
    traced = time.monotonic() - traced
    test.equal("faults", faults_of(read_trace(test.path("long.trace")), found, 256), [])
    test.that(traced < 4 * plain + 10, f"{traced:.1f} s with the trace, {plain:.1f} s without")


def refuses(test):
    result = test.run("profile", "config.toml", *WIDE, "--memory", "1MiB", "--json")
    test.equal("exit code below the floor", result.code, 3)
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (2000, 2000))
    small = test.run("profile", "config.toml", *ONE, "--json", before=limit)
    test.that(small.code == 5 and small.json()["code"] == "E-IO-WRITE", f"a full disk: {small.code} {small.out[:200]}")
    test.equal("left behind", [path.name for path in test.folder.iterdir() if path.name.startswith("plimsoll-")], [])


if __name__ == "__main__":
    test = Test("profile")
    test.run_parts(
        trains_as_train,
        plans_answers,
        continues_a_fallen_rate,
        refuses_other_states,
        continues_a_run,
        keeps_the_floor,
        audits,
        audits_all_phases,
        single_rounds,
        ragged_windows,
        slow_data,
        slow_link,
        large_vocabulary,
        memory_budget,
        large_batch,
        other_is_small,
        compares,
        traces,
        measures_noise,
        traces_many_rounds,
        refuses,
    )
    test.finish()
