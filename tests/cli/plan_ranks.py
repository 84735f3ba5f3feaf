#!/usr/bin/env python3
"""Plans for several ranks: bytes of each rank, of its messages, and the budget. No MPI is needed."""

from _plimsoll import Test

CONFIG = ["config.toml", "--set", "machine.threads=1", "--set", "train.micro_batch=2"]
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
    floors = [
        test.succeeds("plan", *CONFIG, "--ranks", 2, "--json", "--set", f"parallel.zero={zero}")["bounds"]["floor_bytes"]
        for zero in (1, 2)
    ]
    test.that(floors[1] < floors[0], f"stage 2 needs less memory than stage 1: {floors}")


def a_rank(test):
    plan = test.succeeds("plan", *CONFIG, "--ranks", 3, "--rank", 1, "--json")
    test.equal("bytes of rank 1", plan["predicted"]["process_bytes"], plan["ranks"][1]["process_bytes"])
    test.fails(2, "E-USAGE", "plan", *CONFIG, "--ranks", 2, "--rank", 2)
    test.fails(2, "E-USAGE", "plan", *CONFIG, "--rank", 0)
    text = test.run("plan", *CONFIG, "--ranks", 2).text()[0]
    test.that("2 ranks, each with its own memory" in text and "(assumed)" in text, "the ranks are shown")


def budgets(test):
    """The budget holds for each rank, and less than the floor is refused."""
    for stage in (1, 2):
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
    floors = {n: test.succeeds("plan", *CONFIG, "--ranks", n, "--json")["bounds"]["floor_bytes"] for n in (1, 2, 3, 4)}
    for ranks in (1, 2, 3):
        budget = floors[ranks]
        plan = test.succeeds("plan", *CONFIG, "--solve", "ranks", "--memory", budget, "--json")
        solve = plan["solve"]
        test.equal(f"the fewest for {budget} bytes", (solve["key"], solve["least"], solve["value"]), ("ranks", True, ranks))
        test.equal("as an option", solve["arguments"], ["--ranks", str(ranks)])
        again = test.succeeds("plan", *CONFIG, "--memory", budget, *solve["arguments"], "--json")
        test.equal("its plan", again["plan_hash"], plan["plan_hash"])
        if ranks > 1:
            test.equal("one less", (solve["next"]["value"], solve["next"]["status"]), (ranks - 1, "infeasible"))
            test.equal("is short by", solve["next"]["short_bytes"], floors[ranks - 1] - budget)
    none = test.run("plan", *CONFIG, "--solve", "ranks", "--memory", "30MiB", "--json")
    test.equal("too little for any number", (none.code, none.json()["solve"]["value"]), (3, None))
    refused = test.run("plan", *CONFIG, "--memory", floors[4], "--json").json()
    remedies = [each["arguments"] for each in refused["infeasible"]["remedies"]]
    test.that(["--ranks", "4"] in remedies, f"a remedy adds ranks: {remedies}")
    test.succeeds("plan", *CONFIG, "--memory", floors[4], "--ranks", 4, "--json")
    average = ["--set", "optimizer.ema_half_life=10updates"]
    test.fails(2, "E-CONFIG-CONFLICT", "plan", *CONFIG, *average, "--solve", "ranks", "--memory", "30MiB")


def refusals(test):
    for key in ("plan.parameters", "plan.gradients"):
        disk = ["--set", f"{key}=disk", "--disk", "disk:1GiB"]
        test.fails(2, "E-CONFIG-CONFLICT", "plan", *CONFIG, "--ranks", 2, *disk)
    test.fails(2, "E-CONFIG-CONFLICT", "plan", *CONFIG, "--ranks", 2, "--set", "optimizer.ema_half_life=10updates")
    test.fails(2, "E-CONFIG-CONFLICT", "plan", *CONFIG, "--ranks", 2, "--set", "precision.compute=bf16", "--set",
               "precision.gradients=bf16")
    test.fails(2, "E-CONFIG-VALUE", "plan", *CONFIG, "--set", "parallel.zero=3")


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
    test.run_parts(bytes_of_ranks, stage_2, a_rank, budgets, fewest, refusals)
    test.finish()


if __name__ == "__main__":
    main()
