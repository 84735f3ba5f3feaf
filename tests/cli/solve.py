#!/usr/bin/env python3
"""`plan --solve KEY`, through the command: python3 solve.py path/to/plimsoll

The found value fits with the stated arguments, and the next step does not; both agree with `plan`. Rules of the configuration end
the search as well. If nothing fits, the refusal is that of the smallest value. Other keys are refused.
"""

import json
import time

from _plimsoll import CONFIG, Test
from train_conversations import conversations, prepare, sets

SIM = ["plan", "config.toml", "--machine", "sim"]
MIB = 1 << 20
PAGE = 4096

LLAMA = """\
seed = 3
[model]
kind = "llama"
layers = 2
width = 48
heads = 4
kv_heads = 2
mlp_width = 96
context = 32
vocab = 256
"""


def with_value(command, solve, value):
    """The command with the arguments of the solution, for another value."""
    now, last = str(solve["value"]), solve["key"].split(".")[-1]
    arguments = []
    for argument in solve["arguments"]:
        its = argument == now or argument.endswith((f"{last}={now}", f":{now}"))
        arguments.append(argument.removesuffix(now) + str(value) if its else argument)
    return [*command, *arguments, "--json"]


def proved(test, command, key, least=False):
    """Solves, then plans the value and the next step separately. Returns the object `solve`."""
    plan = test.succeeds(*command, "--solve", key, "--json")
    if plan is None:
        return None
    solve = plan["solve"]
    test.equal(f"{key}: status", plan["status"], "fits")
    test.that(plan["levers"], f"{key}: the plan has its levers")
    again = test.succeeds(*command, *solve["arguments"], "--json")
    test.equal(f"{key}: the plan of {solve['arguments']}", again["plan_hash"], plan["plan_hash"])
    value, after = solve["value"], solve["next"]
    test.equal(f"{key}: the step", abs(after["value"] - value), solve["step"])
    test.that((after["value"] < value) == least, f"{key}: {after['value']} is the next one to {value}")
    found = test.run(*with_value(command, solve, after["value"]))
    if after["status"] == "refused":
        test.equal(f"{key}: exit code of the next step", found.code, 2)
        test.equal(f"{key}: its code", found.json()["code"], after["code"])
    else:
        test.equal(f"{key}: exit code of the next step", found.code, 3)
        other = found.json()
        test.equal(f"{key}: its code", (other["infeasible"]["code"], after["code"]), ("E-PLAN-FIT", "E-PLAN-FIT"))
        test.equal(f"{key}: short bytes", other["infeasible"]["short_bytes"], after["short_bytes"])
        test.equal(f"{key}: process bytes", other["bounds"]["floor_bytes"], after["process_bytes"])
        test.that(after["short_bytes"] > 0, f"{key}: something is short: {after}")
    return solve


def sizes(test):
    floor = test.succeeds(*SIM, "--json")["bounds"]["floor_bytes"]
    room = ["--memory", floor + 6 * MIB]
    one = ["--set", "train.micro_batch=1"]
    for key, more in (("context", one), ("model.layers", one), ("width", one), ("micro_batch", []), ("train.micro_batch", [])):
        solve = proved(test, [*SIM, *room, *more], key)
        if solve is None:
            continue
        test.that(solve["key"].endswith(key) and solve["key"].count(".") == 1, f"the whole name: {solve['key']}")
        test.that(2 <= solve["plans"] <= 24, f"{key}: {solve['plans']} plans")
    # Not below what the configuration says, either.
    less = proved(test, [*SIM, *one, "--set", "model.context=4096", *room], "context")
    test.that(less and 32 < less["value"] < 4096, f"a smaller one is found, too: {less}")
    width = test.succeeds(*SIM, *room, "--solve", "width", "--json")["solve"]
    test.equal("widths are multiples of the heads", (width["value"] % 2, width["step"]), (0, 2))


def other_models(test):
    test.write("llama.toml", LLAMA + CONFIG[CONFIG.index("[data]") :])
    command = ["plan", "llama.toml", "--machine", "sim"]
    floor = test.succeeds(*command, "--json")["bounds"]["floor_bytes"]
    command += ["--memory", floor + 2 * MIB, "--set", "train.micro_batch=2"]
    for key in ("mlp_width", "head_size", "context"):
        proved(test, command, key)
    lora = [*command, "--set", "adapter.kind=lora", "--set", "quantize.base=nf4"]
    rank = proved(test, lora, "rank")
    test.equal("memory ends it, not a side of a matrix", rank["next"]["code"], "E-PLAN-FIT")
    test.that(rank["value"] > 24, f"a rank above the smaller side: {rank}")
    tight = test.succeeds(*lora, "--set", "adapter.rank=3", "--json")["bounds"]["floor_bytes"]
    rank = proved(test, [*lora, "--memory", tight], "adapter.rank")
    test.that(3 <= rank["value"] < 24 and rank["next"]["code"] == "E-PLAN-FIT", f"memory ends it: {rank}")


def rules(test):
    micro = proved(test, [*SIM, "--memory", "1GiB"], "micro_batch")
    test.equal("all of the effective batch", (micro["value"], micro["next"]["code"]), (8, "E-BATCH-3"))
    batch = proved(test, [*SIM, "--memory", "1GiB", "--set", "train.micro_batch=4"], "effective_batch")
    test.equal("in steps of a micro-batch", (batch["value"] % 4, batch["step"]), (0, 4))
    # A model with positions of its own.
    test.succeeds("train", "config.toml", "--updates", 1, "--run", "base", "--json")
    test.write("folder.toml", 'seed = 3\n[model]\ninit = "base/weights"\n' + CONFIG[CONFIG.index("[data]") :])
    context = proved(test, ["plan", "folder.toml", "--machine", "sim", "--memory", "1GiB"], "context")
    test.equal("its positions end it", (context["value"], context["next"]["code"]), (32, "E-CONFIG-INIT"))
    test.fails(2, "E-CONFIG-INIT", "plan", "folder.toml", "--machine", "sim", "--solve", "layers")
    for key, code in (
        ("rank", "E-CONFIG-MISSING"),
        ("disk", "E-CONFIG-MISSING"),
        ("host_memory", "E-CONFIG-MISSING"),
        ("seed", "E-SOLVE-KEY"),
        ("model.heads", "E-SOLVE-KEY"),
        ("contxt", "E-SOLVE-KEY"),
    ):
        command = ["plan", "config.toml", "--solve", key] if key == "host_memory" else [*SIM, "--solve", key]
        error = test.fails(2, code, *command)
        if error and code == "E-SOLVE-KEY":
            for name in ("model.context", "train.micro_batch", "adapter.rank", "memory", "disk", "model.layers"):
                test.that(name in error["expected"], f"{name} is listed: {error['expected']}")
    test.equal("the nearest one", test.fails(2, "E-SOLVE-KEY", *SIM, "--solve", "contxt")["try"][0], "--solve context")
    test.fails(2, "E-USAGE", *SIM, "--solve", "context", "--frontier")
    test.succeeds("explain", "E-SOLVE-KEY")


def budgets(test):
    whole = test.succeeds(*SIM, "--json")["bounds"]
    memory = proved(test, SIM, "memory", least=True)
    test.equal("the least memory is the floor", memory["value"], whole["floor_bytes"])
    test.equal("its next step is a page", (memory["step"], memory["next"]["short_bytes"]), (PAGE, PAGE))
    wide = ["--set", "model.width=256", "--set", "model.heads=4"]
    disk = ["--disk", f"{test.path('spill')}:1GiB"]
    here = ["plan", "config.toml", *wide]
    plain = test.succeeds(*here, "--json")["bounds"]["floor_bytes"]
    low = test.succeeds(*here, *disk, "--json")["bounds"]["floor_bytes"]
    test.that(low < plain - 4 * MIB, f"a disk lowers the floor from {plain} to {low}")
    room = proved(test, [*here, *disk, "--memory", (low + plain) // 2], "disk", least=True)
    test.equal("disks are in steps of a MiB", (room["value"] % MIB, room["step"]), (0, MIB))
    # A disk that is too small is no reason to find nothing.
    small = [*here, "--disk", f"{test.path('spill')}:1MiB", "--memory", (low + plain) // 2, "--solve", "disk", "--json"]
    test.equal("from a small one", test.succeeds(*small)["solve"]["value"], room["value"])
    none = test.succeeds(*here, *disk, "--memory", "1GiB", "--solve", "disk", "--json")["solve"]
    test.equal("where none is needed", (none["value"], none["next"]), (0, None))
    # The simulated machine has other code outside of its arena, and so other floors.
    sim = [*SIM, *wide]
    plain = test.succeeds(*sim, "--json")["bounds"]["floor_bytes"]
    low = test.succeeds(*sim, "--host-memory", "1GiB", "--json")["bounds"]["floor_bytes"]
    proved(test, [*sim, "--memory", (low + plain) // 2, "--host-memory", "1GiB"], "host_memory", least=True)


def refusal(test):
    floor = test.succeeds(*SIM, "--json")["bounds"]["floor_bytes"]
    command = [*SIM, "--memory", floor - 8 * MIB, "--solve", "context"]
    result = test.run(*command, "--json")
    test.equal("exit code where nothing fits", result.code, 3)
    plan = result.json()
    test.equal("status", plan["status"], "infeasible")
    test.equal("no value", (plan["solve"]["key"], plan["solve"]["value"]), ("model.context", None))
    one = test.run(*SIM, "--memory", floor - 8 * MIB, "--set", "model.context=1", "--json").json()
    test.equal("the refusal of the smallest one", plan["infeasible"]["short_bytes"], one["infeasible"]["short_bytes"])
    test.that(plan["infeasible"]["remedies"], "with remedies")
    text = test.run(*command).text()[0]
    for words in ("solve model.context: no value fits", "E-PLAN-FIT", "changes that make it fit"):
        test.that(words in text, f"{words}: {text}")


def text(test):
    floor = test.succeeds(*SIM, "--json")["bounds"]["floor_bytes"]
    command = [*SIM, "--memory", floor + 4 * MIB, "--set", "train.micro_batch=1", "--solve", "context"]
    solve = test.succeeds(*command, "--json")["solve"]
    said = test.succeeds(*command, "--out", "solved.json")
    for words in (
        f"solve model.context: {solve['value']:,} is the largest that fits into",
        f"--set model.context={solve['value']}",
        f"the next step, {solve['next']['value']:,}, does not fit",
        f"short by {solve['next']['short_bytes']:,} B",
        f"{solve['plans']} plans",
        "fits: ",
        "levers, each against this plan",
    ):
        test.that(words in said, f"{words}: {said[:600]}")
    test.equal("the file has the solution", json.loads(test.path("solved.json").read_text())["solve"], solve)


def other_counts(test):
    """The counts of an epoch and a run are those of the found value, equal to its plan; doubts about it are reported."""
    for key, more in (("context", ["--set", "train.micro_batch=1"]), ("effective_batch", ["--set", "train.micro_batch=2"])):
        command = [*SIM, *more, "--set", "train.epochs=2"]
        floor = test.succeeds(*command, "--json")["bounds"]["floor_bytes"]
        command += ["--memory", floor + 4 * MIB]
        found = test.succeeds(*command, "--solve", key, "--json")
        again = test.succeeds(*command, *found["solve"]["arguments"], "--json")
        test.equal(f"the run of {key}", found["run"], again["run"])
        test.that(found["run"]["updates"] != test.succeeds(*command, "--json")["run"]["updates"], "another number of updates")
    config = prepare(test)
    test.write("long.jsonl", "".join(json.dumps(each) + "\n" for each in conversations(40, time.time_ns())))
    chat = ["plan", config, "--machine", "sim", *sets(data__train="long.jsonl", data__validation="", model__context=16,
                                                      train__micro_batch=1, train__effective_batch=4)]  # fmt: skip
    test.succeeds("train", *chat[1:2], *chat[4:], "--updates", 1, "--memory", "2GiB", "--run", "long", "--json")
    epoch = test.succeeds(*chat, "--json")["epoch"]
    test.that(epoch["data"]["cut"] > 0, f"some are cut: {epoch}")
    floor = test.succeeds(*chat, "--json")["bounds"]["floor_bytes"]
    chat += ["--memory", floor + 2 * MIB]
    found = test.succeeds(*chat, "--solve", "context", "--json")
    test.that(found["solve"]["value"] > 16, f"a longer one fits: {found['solve']}")
    test.that("epoch" not in found and found["assumed"], f"counts of 16 tokens are left out: {found.get('epoch')}")
    test.that(any("has not been tokenised" in note for note in found["solve"]["notes"]), f"it is told: {found['solve']}")
    length = sets(model__context=found["solve"]["value"])
    test.succeeds("train", *chat[1:2], *chat[4:-2], *length, "--updates", 1, "--memory", "2GiB", "--run", "longer", "--json")
    found = test.succeeds(*chat, "--solve", "context", "--json")
    again = test.succeeds(*chat, *length, "--json")
    test.equal("counts of the context that was found", found["epoch"], again["epoch"])
    test.that(found["epoch"]["data"]["cut"] < epoch["data"]["cut"], "fewer are cut")
    # Rotary positions go on, past what the model was made for.
    own = [config, *sets(data__validation=""), "--memory", "2GiB"]
    test.succeeds("train", *own, "--updates", 1, "--run", "rotary", "--json")
    keys = {"data": "train = 'train.txt'\nformat = 'bytes'", "train": "effective_batch = 2\nupdates = 2\nmicro_batch = 1",
            "optimizer": "learning_rate = 1e-3", "machine": "threads = 2"}  # fmt: skip
    text = "seed = 1\n[model]\ninit = 'rotary/weights'\n" + "".join(f"[{key}]\n{value}\n" for key, value in keys.items())
    test.write("rotary.toml", text)
    command = ["plan", "rotary.toml", "--machine", "sim", "--memory", "2GiB", "--solve", "context"]
    solve = test.succeeds(*command, "--json")["solve"]
    test.that(solve["value"] > 160, f"past the positions of the model: {solve}")
    test.that(any("was made for at most 160" in note for note in solve["notes"]), f"the doubt is told: {solve['notes']}")
    test.that("note: " in test.succeeds(*command) and "was made for at most 160" in test.succeeds(*command), "in words, too")


def main():
    test = Test("solve")
    test.run_parts(sizes, other_models, rules, budgets, refusal, other_counts, text)
    test.finish()


if __name__ == "__main__":
    main()
