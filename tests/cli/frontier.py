#!/usr/bin/env python3
"""`plan --frontier` and `plan --diff`: update time against the budget in all forms, and the differences between two plans."""

import json
import os
import xml.etree.ElementTree

from _plimsoll import Test, terminal_pair

POINT = {
    "process_bytes": int,
    "arena_bytes": int,
    "live_bytes": int,
    "update_seconds": float,
    "tokens_per_second": float,
    "micro_batch": int,
    "accumulation": int,
    "loss_chunks": int,
    "seconds_per_mib": (float, None),
}
DIFF = {"schema": "plimsoll.plan-diff/1", "equal": bool, "changes": [{"path": str}]}
SIM = ["plan", "config.toml", "--machine", "sim"]


def points(test):
    plan = test.succeeds(*SIM, "--frontier", "--json")
    frontier = plan["frontier"]
    test.shape("frontier", frontier, [POINT])
    bounds = plan["bounds"]
    test.equal("first point", frontier[0]["process_bytes"], bounds["floor_bytes"])
    test.equal("last point", frontier[-1]["process_bytes"], bounds["ceiling_bytes"])
    for before, after in zip(frontier, frontier[1:]):
        test.that(before["process_bytes"] < after["process_bytes"], "bytes grow")
        test.that(before["update_seconds"] >= after["update_seconds"], "more bytes are never slower")
        mib = (after["process_bytes"] - before["process_bytes"]) / (1 << 20)
        saved = (before["update_seconds"] - after["update_seconds"]) / mib
        test.near("seconds_per_mib", before["seconds_per_mib"], saved, 1e-6)
    test.equal("what more than everything saves", frontier[-1]["seconds_per_mib"], None)
    for budget in (bounds["knee_bytes"], *(point["process_bytes"] for point in frontier)):
        single = test.succeeds(*SIM, "--memory", budget, "--json")
        test.that("frontier" not in single, "the frontier only with --frontier")
        predicted, batch = single["predicted"], single["batch"]
        held = [point for point in frontier if point["process_bytes"] == predicted["process_bytes"]]
        if not test.equal(f"points that planning at {budget} gives", len(held), 1):
            continue
        for key in ("arena_bytes", "live_bytes", "update_seconds", "tokens_per_second"):
            test.equal(f"{key} at {budget}", held[0][key], predicted[key])
        test.equal("batch", (held[0]["micro_batch"], held[0]["accumulation"]), (batch["micro"], batch["accumulation"]))


def given_budget(test):
    bounds = test.succeeds(*SIM, "--json")["bounds"]
    middle = (bounds["floor_bytes"] + bounds["ceiling_bytes"]) // 2
    plan = test.succeeds(*SIM, "--frontier", "--memory", middle, "--json")
    test.that(
        plan["predicted"]["process_bytes"] in [point["process_bytes"] for point in plan["frontier"]],
        "the plan of the budget is a point",
    )
    text = test.succeeds(*SIM, "--frontier", "--memory", middle)
    test.that(text.startswith("fits: ") and "@ this plan" in text, "the plan comes first and is marked")
    table = text.splitlines()
    table = table[next(i for i, line in enumerate(table) if "micro x acc" in line) :]
    test.that(max(map(len, table)) <= 80, "the table is at most 80 columns wide")
    refused = test.run(*SIM, "--frontier", "--memory", bounds["floor_bytes"] - 4096, "--json")
    test.equal("exit code below the floor", refused.code, 3)
    test.shape("frontier of a refusal", refused.json()["frontier"], [POINT])
    text = test.run(*SIM, "--frontier", "--memory", bounds["floor_bytes"] - 4096)
    test.that("E-PLAN-FIT" in text.text()[0] and "K knee" in text.text()[0], "a refusal with the frontier")


def plot(test):
    no_budget = test.path("config.toml").read_text().replace('budget = "64MiB"', "")
    test.write("open.toml", no_budget)
    text = test.succeeds("plan", "open.toml", "--machine", "sim", "--frontier")
    test.that("at its peak" not in text, "without a budget the frontier alone")
    drawn = text[text.rindex("update", 0, text.index("F floor")) :].splitlines()
    test.that(len(drawn) <= 16 and max(map(len, drawn)) <= 72, "the plot is at most 72 columns x 16 rows")
    for mark in ("F floor", "K knee", "C ceiling"):
        test.that(mark in drawn[0], f"the plot names {mark}")
    test.that("iB" in drawn[-1] and any("s +" in line for line in drawn), "the axes say sizes and times")
    test.that("\033" not in text, "no colours into a pipe")
    for no_color, painted in ((None, True), ("1", False)):
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environment.update({"TERM": "xterm"} if no_color is None else {"TERM": "xterm", "NO_COLOR": no_color})
        pair = terminal_pair()
        if pair is None:
            return
        ours, theirs = pair
        test.run("plan", "open.toml", "--machine", "sim", "--frontier", environment=environment, stdout=theirs)
        os.close(theirs)
        test.equal(f"colours on a terminal, NO_COLOR={no_color}", b"\033[1m" in read_all(ours), painted)


def read_all(terminal):
    output = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed and nothing is left
            part = b""
        if not part:
            os.close(terminal)
            return output
        output += part


def svg(test):
    for config in ("config.toml", "open.toml"):
        test.succeeds("plan", config, "--machine", "sim", "--frontier", "--svg", "f.svg")
        root = xml.etree.ElementTree.parse(test.path("f.svg")).getroot()
        test.equal("root", root.tag, "{http://www.w3.org/2000/svg}svg")
        words = " ".join(root.itertext())
        for word in ("floor", "knee", "ceiling", "MiB", "ms", "memory of the process", "time of an update"):
            test.that(word in words, f"the SVG says {word}")
        for word in ("gpt2 of 2 layers, width 32, 8 samples of 32 tokens an update, sim (2 threads)", "Update time by memory"):
            test.that(word in words, f"the title says {word}")
        test.that(("budget: 64.0 MiB" if config == "config.toml" else "budget: ") in words, "the SVG shows the budget")
    test.fails(2, "E-USAGE", *SIM, "--svg", "g.svg")
    test.fails(5, "E-IO-WRITE", *SIM, "--frontier", "--svg", "no/such/folder/f.svg")
    test.that(not test.path("g.svg").exists(), "nothing is drawn without --frontier")


def diff(test):
    deeper = [*SIM, "--set", "model.layers=3"]  # at the floor the last block need not be recomputed
    bounds = test.succeeds(*deeper, "--json")["bounds"]
    test.succeeds(*deeper, "--out", "a.json")
    test.succeeds(*deeper, "--memory", bounds["floor_bytes"], "--out", "b.json")
    same = test.succeeds("plan", "--diff", "a.json", "a.json", "--json")
    test.equal("a plan against itself", (same["equal"], same["values_compared"], same["changes"]), (True, True, []))
    test.that("equal" in test.succeeds("plan", "--diff", "a.json", "a.json"), "the text of equal plans says so")

    other = test.succeeds("plan", "--diff", "a.json", "b.json", "--json")
    test.shape("diff", other, DIFF)
    test.equal("equal", other["equal"], False)
    changes = {change["path"]: (change["a"], change["b"]) for change in other["changes"]}
    test.equal("budget", changes["/budget/memory"], (64 << 20, bounds["floor_bytes"]))
    test.equal("process", changes["/predicted/process_bytes"], (bounds["ceiling_bytes"], bounds["floor_bytes"]))
    for block in ("h.0", "h.1"):
        a, b = changes[f"/decisions/recompute/{block}"]
        test.that(a == "keep" and b.startswith(("recompute", "cheap (")), f"{block} is {a} and {b}")
    values = [change for path, change in changes.items() if path.startswith("/values/")]
    test.that(any(a is None for a, b in values), "recomputed values appear")
    text = test.succeeds("plan", "--diff", "a.json", "b.json")
    for word in ("h.0", "keep -> ", "budget", "phase steady", "update", "values by action", "appeared"):
        test.that(word in text, f"the text of a diff says {word}")
    back = test.succeeds("plan", "--diff", "b.json", "a.json", "--json")
    test.equal("changes the other way round", len(back["changes"]), len(other["changes"]))


def odd_diffs(test):
    plan = test.succeeds(*SIM, "--json")
    plan["predicted"].pop("phases")
    for name, content in (("cut.json", b'{"schema"'), ("list.json", b"[]"), ("part.json", json.dumps(plan))):
        test.write(name, content)
        test.fails(2, "E-PLAN-FILE", "plan", "--diff", "a.json", name)
        test.fails(2, "E-PLAN-FILE", "plan", "--diff", name, "a.json")
    test.fails(2, "E-PLAN-FILE", "plan", "--diff", "a.json", "nowhere.json")
    test.fails(2, "E-USAGE", "plan", "--diff", "a.json")
    test.fails(2, "E-USAGE", "plan", "config.toml", "--diff", "a.json", "b.json")
    test.fails(2, "E-USAGE", "plan", "--diff", "a.json", "b.json", "--memory", "1GiB")
    # A plan as --json prints it, without values.
    test.write("bare.json", test.run(*SIM, "--json").out)
    text = test.succeeds("plan", "--diff", "a.json", "bare.json")
    test.that("values are not compared" in text, "a diff without values says so")
    # The disk: its paging is null on one side.
    test.succeeds(*SIM, "--disk", "spill:1GiB", "--set", "plan.optimizer_state=disk", "--out", "disk.json")
    paths = [change["path"] for change in test.succeeds("plan", "--diff", "a.json", "disk.json", "--json")["changes"]]
    staging = "/predicted/host_reserve/transfers: staging"
    for path in ("/decisions/paging/slots", "/predicted/stall_seconds", staging, "/predicted/tiers/disk"):
        test.that(path in paths, f"{path} differs")


def levers(test):
    """The arguments of a lever lead to its row."""
    pinned = ["--set", "plan.recompute=all", "--set", "plan.loss_chunks=4", "--set", "plan.optimizer_state=memory"]
    for more, disk in ([], False), (["--disk", "spill:1GiB"], True), (pinned, False):
        rows = test.succeeds(*SIM, *more, "--json")["levers"]
        names = [row["name"] for row in rows]
        test.that({"optimizer state in 8bit", "micro-batch 1"} <= set(names), f"levers: {names}")
        test.equal("levers of the disk", "blocks made again from inputs on the disk" in names, disk)
        test.that(all(row["arguments"] for row in rows), "every lever has arguments")
        for row in rows:
            if not row["within_budget"]:
                continue
            found = test.succeeds(*SIM, *more, *row["arguments"], "--json")["predicted"]
            for key in ("process_bytes", "update_seconds"):
                test.equal(f"{row['name']}: {key}", found[key], row[key])


def certificates(test):
    """The lower bounds of load and seconds: text and --json agree."""
    four = [*SIM, "--set", "train.micro_batch=4", "--set", "train.accumulation=2"]
    bounds = test.succeeds(*four, "--json")["bounds"]
    for budget in (bounds["floor_bytes"], bounds["ceiling_bytes"]):
        plan = test.succeeds(*four, "--memory", budget, "--json")
        own, predicted = plan["bounds"], plan["predicted"]
        test.that(own["update_seconds"] <= predicted["update_seconds"] * (1 + 1e-9), f"no plan is faster: {own}")
        test.equal("the lanes' maximum", own["update_seconds"], max(own["lanes"]["compute"], own["lanes"]["transfers"]))
        test.that(0 <= own["lanes"]["again"] <= own["lanes"]["compute"], f"what runs again is of it: {own['lanes']}")
        test.that(own["load_bytes"] <= predicted["arena_bytes"], "the load is below the arena")
    text = test.succeeds(*SIM)
    test.that("live at once; the arena is 0." in text and "each kernel once; plan 0.0 % above it" in text, text)


def main():
    test = Test("frontier")
    test.run_parts(points, given_budget, plot, svg, diff, odd_diffs, levers, certificates)
    test.finish()


if __name__ == "__main__":
    main()
