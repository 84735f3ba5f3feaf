#!/usr/bin/env python3
"""Plans for several ranks: bytes of each rank, of its messages, and the budget. No MPI is needed."""

from _plimsoll import Test

CONFIG = ["config.toml", "--set", "machine.threads=1", "--set", "train.micro_batch=2"]
LARGE = [*CONFIG, "--set", "model.vocab=40000", "--set", "model.width=256"]  # one rank more saves more than its messages take
RANK = {
    "rank": int,
    "process_bytes": int,
    "arena_bytes": int,
    "live_bytes": int,
    "shard": {"parameters": int, "gradients": int, "state": int},
    "sent": {"parameters": int, "gradients": int, "control": int},
}


def bytes_of_ranks(test):
    """State is shared, parameters and gradients are whole (ZeRO 1)."""
    one = test.succeeds("plan", *CONFIG, "--json", "--values")
    test.that("ranks" not in one, "one process: no ranks")
    state = sum(value["bytes"] for value in one["values"] if value["role"] == "optimizer state" and not value["alias_of"])
    for ranks in (2, 3, 8):
        plan = test.succeeds("plan", *CONFIG, "--ranks", ranks, "--json")
        test.equal("stage", plan["zero"], 1)
        test.shape(f"{ranks} ranks", plan["ranks"], [RANK])
        test.equal("reduction tree", plan["reduction_tree"], "window")
        test.equal("link", plan["predicted"]["link"]["source"], "assumed")
        test.that(plan["predicted"]["lanes"]["ranks"] > 0, "a lane of exchanges")
        messages = [item["source"] for item in plan["predicted"]["reserve"] if item["name"] == "messages between ranks"]
        test.equal("memory of messages", messages, ["assumed"])
        test.equal("ranks", [each["rank"] for each in plan["ranks"]], list(range(ranks)))
        test.equal("micro-batches of a rank", plan["batch"]["accumulation"], -(-plan["batch"]["effective"] // 2 // ranks))
        held = sum(each["shard"]["state"] for each in plan["ranks"])
        test.that(0.95 * state <= held <= state, f"{held} bytes of state on {ranks} ranks, {state} on one")
        parameters = {each["shard"]["parameters"] for each in plan["ranks"]}
        test.equal("parameters are whole", len(parameters), 1)
        fullest = max(each["process_bytes"] for each in plan["ranks"])
        test.equal("shown is the fullest", plan["predicted"]["process_bytes"], fullest)
        sent = sum(each["sent"]["parameters"] for each in plan["ranks"])
        test.equal("parameters go to all others", sent, (ranks - 1) * parameters.pop())
        test.equal("gradients go to their rank", sum(each["sent"]["gradients"] for each in plan["ranks"]), sent)


def stage_2(test):
    """Gradients are shared as well. They leave once a round, or once a window if its micro-batches are one group."""
    for ranks in (2, 3, 8):
        first = test.succeeds("plan", *CONFIG, "--ranks", ranks, "--json")
        plans = {}
        rounds = first["batch"]["accumulation"]
        for group in sorted({1, rounds}):
            plan = plans[group] = test.succeeds("plan", *CONFIG, "--ranks", ranks, "--json", "--set", "parallel.zero=2", "--set",
                                                f"plan.group={group}")
            test.equal("reduction tree", plan["reduction_tree"], "window" if group == rounds else "round")
            shards = [each["shard"] for each in plan["ranks"]]
            test.equal("state as in stage 1", [of["state"] for of in shards], [each["shard"]["state"] for each in first["ranks"]])
            held, whole = sum(of["gradients"] for of in shards), shards[0]["parameters"]
            test.that(whole <= held <= 1.01 * whole, f"{held} bytes of gradients on {ranks} ranks, {whole} on one")
            sent = [sum(each["sent"][what] for each in plan["ranks"]) for what in ("gradients", "parameters")]
            test.equal("gradients leave in every round", sent[0], sent[1] * (rounds // group))
        test.that(plans[1]["predicted"]["lanes"]["ranks"] >= first["predicted"]["lanes"]["ranks"], "more rounds, more exchanges")
    stage = ["--set", "parallel.zero=2", "--set", "plan.group=2"]
    test.fails(2, "E-PLAN-GROUP", "plan", *CONFIG, "--ranks", 2, *stage)


def stage_3(test):
    """Parameters are shared as well, but for small ones. They come for each pass."""
    wide = ["--set", "model.width=256", "--set", "model.layers=4", "--set", "plan.group=1"]
    for ranks in (2, 3, 6):
        second, third = [
            test.succeeds("plan", *CONFIG, *wide, "--ranks", ranks, "--json", "--set", f"parallel.zero={stage}")
            for stage in (2, 3)
        ]
        for kind in ("state", "gradients"):
            shards = [[each["shard"][kind] for each in plan["ranks"]] for plan in (second, third)]
            test.equal(f"{kind} as in stage 2", shards[1], shards[0])
        whole = second["ranks"][0]["shard"]["parameters"]
        for each in third["ranks"]:
            held = each["shard"]["parameters"]
            test.that(whole / ranks <= held <= 1.5 * whole / ranks, f"{held} of {whole} bytes of parameters on {ranks} ranks")
        sent = [sum(each["sent"]["parameters"] for each in plan["ranks"]) for plan in (second, third)]
        test.that(sent[1] > sent[0], f"parameters come for each pass: {sent}")


def automatic(test):
    """The fastest stage that fits: the first one with much memory, a later one below its floor."""
    floors = [
        test.succeeds("plan", *CONFIG, "--ranks", 2, "--json", "--set", f"parallel.zero={stage}")["bounds"]["floor_bytes"]
        for stage in (1, 2, 3)
    ]
    test.that(floors[2] < floors[1] < floors[0], f"later stages need less memory: {floors}")
    auto = [*CONFIG, "--ranks", 2, "--json", "--set", "parallel.zero=auto"]
    test.equal("with much memory", test.succeeds("plan", *auto)["zero"], 1)
    for stage, memory in ((2, (floors[0] + floors[1]) // 2), (3, floors[2])):
        plan = test.succeeds("plan", *auto, "--memory", memory)
        test.that(plan["zero"] in ((2, 3) if stage == 2 else (3,)), f"with {memory} bytes: stage {plan['zero']}")
        test.that(all(each["process_bytes"] <= memory for each in plan["ranks"]), "each rank holds the budget")
    refused = test.run("plan", *auto, "--memory", floors[2] - 1)
    test.equal("below all floors", (refused.code, refused.json()["bounds"]["floor_bytes"]), (3, floors[2]))


def a_rank(test):
    plan = test.succeeds("plan", *CONFIG, "--ranks", 3, "--rank", 1, "--json")
    test.equal("bytes of rank 1", plan["predicted"]["process_bytes"], plan["ranks"][1]["process_bytes"])
    test.fails(2, "E-USAGE", "plan", *CONFIG, "--ranks", 2, "--rank", 2)
    test.fails(2, "E-USAGE", "plan", *CONFIG, "--rank", 0)
    text = test.run("plan", *CONFIG, "--ranks", 2).text()[0]
    test.that("2 ranks, each with its own memory" in text and "(assumed)" in text, "the ranks are shown")


def budgets(test):
    """The budget holds for each rank, and less than the floor is refused."""
    for stage in (1, 2, 3):
        config = [*CONFIG, "--ranks", 3, "--json", "--set", f"parallel.zero={stage}"]
        floor = test.succeeds("plan", *config)["bounds"]["floor_bytes"]
        for more in (0, 64 << 10, 1 << 20):
            plan = test.succeeds("plan", *config, "--memory", floor + more)
            for each in plan["ranks"]:
                held = each["process_bytes"]
                test.that(held <= floor + more, f"stage {stage}, rank {each['rank']}: {held} of {floor + more}")
        for less in (1 << 20, 1):
            result = test.run("plan", *config, "--memory", floor - less)
            test.equal("exit code below the floor", result.code, 3)
            test.equal("short by", result.json()["infeasible"]["short_bytes"], less)


def fewest(test):
    """`--solve ranks` finds the fewest ranks that fit, and a remedy adds ranks."""
    floors = {n: test.succeeds("plan", *LARGE, "--ranks", n, "--json")["bounds"]["floor_bytes"] for n in (1, 2, 3, 4)}
    for ranks in (1, 2, 3):
        budget = floors[ranks]
        plan = test.succeeds("plan", *LARGE, "--solve", "ranks", "--memory", budget, "--json")
        solve = plan["solve"]
        test.equal(f"the fewest for {budget} bytes", (solve["key"], solve["least"], solve["value"]), ("ranks", True, ranks))
        test.equal("as an option", solve["arguments"], ["--ranks", str(ranks)])
        again = test.succeeds("plan", *LARGE, "--memory", budget, *solve["arguments"], "--json")
        test.equal("its plan", again["plan_hash"], plan["plan_hash"])
        if ranks > 1:
            test.equal("one less", (solve["next"]["value"], solve["next"]["status"]), (ranks - 1, "infeasible"))
            test.equal("is short by", solve["next"]["short_bytes"], floors[ranks - 1] - budget)
    none = test.run("plan", *LARGE, "--solve", "ranks", "--memory", "60MiB", "--json")
    test.equal("too little for any number", (none.code, none.json()["solve"]["value"]), (3, None))
    refused = test.run("plan", *LARGE, "--memory", floors[4], "--json").json()
    remedies = [each["arguments"] for each in refused["infeasible"]["remedies"]]
    test.that(["--ranks", "4"] in remedies, f"a remedy adds ranks: {remedies}")
    test.succeeds("plan", *LARGE, "--memory", floors[4], "--ranks", 4, "--json")


def refusals(test):
    for key, least in (("plan.parameters", 3), ("plan.gradients", 2)):
        disk = ["--set", f"{key}=disk", "--disk", "disk:1GiB", "--ranks", 2]
        for stage in (1, 2, 3):
            command = ["plan", *CONFIG, *disk, "--set", f"parallel.zero={stage}"]
            if stage < least:
                error = test.fails(2, "E-CONFIG-CONFLICT", *command)
                test.that(error and any(f"parallel.zero={least}" in each for each in error["try"]), f"{key}: {error}")
            else:
                test.succeeds(*command, "--json")
        plan = test.succeeds("plan", *CONFIG, *disk, "--json")
        test.that(plan and plan["zero"] >= least, f"{key}: a stage that can: {plan and plan['zero']}")


def main():
    test = Test("plan_ranks")
    test.write("train.txt", "the ship is loaded to the line and not over it. " * 400)
    test.write(
        "config.toml",
        """[model]
kind = "gpt2"
layers = 2
width = 128
heads = 4
context = 32
vocab = 2000
[data]
train = "train.txt"
format = "bytes"
[train]
effective_batch = 16
updates = 4
""",
    )
    test.run_parts(bytes_of_ranks, stage_2, stage_3, automatic, a_rank, budgets, fewest, refusals)
    test.finish()


if __name__ == "__main__":
    main()
