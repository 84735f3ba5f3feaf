#!/usr/bin/env python3
"""`plan --export-instance`: files that an independent checker accepts, mutants that it refuses, and the committed suite."""

import importlib.machinery
import json
import os
import pathlib
import subprocess
import sys
import types

from _plimsoll import Test

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIM = ["plan", "config.toml", "--machine", "sim"]
MODELS = {
    "two micro-steps": ["--set", "train.micro_batch=4", "--set", "train.accumulation=2"],
    "one micro-step": ["--set", "model.layers=3", "--set", "train.micro_batch=8", "--set", "train.accumulation=1"],
}
REPRODUCED = ("byte-2", "byte-2-window", "gpt2-256")


def check(path):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check_instance", path], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def checker():
    """The same program as a module: hundreds of mutants would take a minute as processes."""
    loader = importlib.machinery.SourceFileLoader("check_instance", str(ROOT / "scripts" / "check_instance"))
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


def exports(test):
    for name, arguments in MODELS.items():
        bounds = test.succeeds(*SIM, *arguments, "--json")["bounds"]
        floor, ceiling = bounds["floor_bytes"], bounds["ceiling_bytes"]
        for budget in (floor, (floor + ceiling) // 2, ceiling):
            plan = test.succeeds(*SIM, *arguments, "--memory", budget, "--export-instance", "i.json", "--json")
            test.equal("schema of the plan", plan["schema"], "plimsoll.plan/1")
            code, said = check(test.path("i.json"))
            test.that(code == 0, f"{name} at {budget}: {said}")
            instance = json.loads(test.path("i.json").read_text())
            test.equal("arena", instance["result"]["arena_bytes"], plan["predicted"]["arena_bytes"])
            test.equal("live", instance["result"]["live_bytes"], plan["predicted"]["live_bytes"])
            test.near("seconds", instance["result"]["update_seconds"], plan["predicted"]["update_seconds"], 1e-12)
            test.equal("again", len(instance["result"]["recomputed"]) > 0, budget != ceiling)
            owners(test, name, instance)
            if budget == ceiling:
                test.equal("keeping everything", instance["keep_everything"]["live_bytes"], instance["result"]["live_bytes"])
            test.write(f"{name}.{'floor' if budget == floor else 'more'}.json", json.dumps(instance))


def owners(test, name, instance):
    """A backward node names the forward node whose gradient it computes, with the same line, and the same op if names show it.
    Only the loss has no single forward node."""
    kinds, nodes = instance["kinds"], instance["nodes"]
    unnamed, forward = [], set()
    for number, (kind, line, _, _, *of) in enumerate(nodes):
        op = kinds[kind]["op"]
        if not kinds[kind].get("backward"):
            test.equal(f"{name}: elements behind the outputs of node {number} ({op})", len(of), 0)
            continue
        if not of:
            unnamed.append(op)
            continue
        owner = kinds[nodes[of[0]][0]]
        forward.add(of[0])
        test.that(of[0] < number and owner["section"] == "micro" and not owner.get("backward"), f"{name}: {number} of {of[0]}")
        test.equal(f"{name}: line of what node {number} ({op}) is the gradient of", nodes[of[0]][1], line)
        if op.endswith("_backward"):
            test.equal(f"{name}: op of what node {number} is the gradient of", owner["op"] + "_backward", op)
    test.equal(f"{name}: gradients of no single node", unnamed, ["linear_cross_entropy_backward", "sum_losses"])
    computed = [i for i, node in enumerate(nodes) if kinds[node[0]]["op"] in ("matmul", "layer_norm", "attention", "gelu")
                and kinds[node[0]].get("backward") is False]
    test.that(forward.issuperset(computed), f"{name}: each forward node with a gradient is named")


def transient(instance):
    """Buffers of one transient value and no scratch."""
    scratch = {row[2] for row in instance["result"]["steps"] if len(row) > 2}
    return [i for i, row in enumerate(instance["result"]["buffers"]) if row[4] < 0 and i not in scratch]


def mutants(instance):
    """(name, changed copy). Every buffer, address and step is changed by some mutant."""
    buffers, steps, nodes = instance["result"]["buffers"], instance["result"]["steps"], instance["nodes"]
    text = json.dumps(instance)

    def changed(what):
        copied = json.loads(text)
        what(copied)
        return copied

    def buffer(number, field, difference):
        copied = json.loads(text)
        copied["result"]["buffers"][number][field] += difference
        return copied

    for i in transient(instance)[::5]:
        if buffers[i][1] - buffers[i][0] > 1:
            yield f"lifetime of {i} one shorter", buffer(i, 1, -1)
        yield f"lifetime of {i} one longer", buffer(i, 1, 1)
        yield f"size of {i} smaller", buffer(i, 2, -64)
    for i in range(len(buffers)):
        if lies_on_another(buffers, i):
            yield f"offset of {i} lower", buffer(i, 3, -64)
    last_reader = {value: number for number, node in enumerate(nodes) for value in node[2]}
    # A value that lasts, or is read later, is live even if this node does not read it.
    ends = [
        number
        for number, node in enumerate(nodes)
        if node[2] and instance["values"][node[2][-1]][2] == 0 and last_reader[node[2][-1]] == number
    ]
    for number in ends[::4]:
        if instance["kinds"][nodes[number][0]]["op"] not in ("feed", "fetch"):
            yield f"an input of node {number} missing", changed(lambda c, n=number: c["nodes"][n][2].pop())
    for step in range(0, len(steps), 9):
        yield f"step {step} missing", changed(lambda c, s=step: c["result"]["steps"].pop(s))
    named = [number for number, node in enumerate(nodes) if len(node) > 4]
    for number in named[::9]:
        yield f"node {number} is the gradient of itself", changed(lambda c, n=number: c["nodes"][n].__setitem__(4, n))
    for number in named[1::9]:
        yield f"node {number} is the gradient of a gradient", changed(lambda c, n=number: c["nodes"][n].__setitem__(4, named[0]))
    first = next(number for number, node in enumerate(nodes) if nodes[number][1] and len(node) == 4)
    yield "a forward node that is a gradient", changed(lambda c: c["nodes"][first].append(0))
    yield "a peak too low", changed(lambda c: c["result"].__setitem__("live_bytes", c["result"]["live_bytes"] - 64))
    yield "seconds too low", changed(lambda c: c["result"].__setitem__("update_seconds", 0.99 * c["result"]["update_seconds"]))
    yield "nothing again", changed(lambda c: c["result"].__setitem__("recomputed", [*c["result"]["recomputed"], 0]))


def lies_on_another(buffers, number):
    """True if a buffer that lives at the same time ends at the begin of this one."""
    begin, end, _, offset, _ = buffers[number]
    return any(row[3] + row[2] == offset and row[0] < end and begin < row[1] for row in buffers)


def mutations(test):
    program = checker()
    for name in MODELS:
        instance = json.loads(test.path(f"{name}.floor.json").read_text())
        test.equal(f"violations of {name}", program.check(test.path(f"{name}.floor.json"))[0].problems, [])
        for number, (mutant, changed) in enumerate(mutants(instance)):
            path = test.write("mutant.json", json.dumps(changed))
            test.that(program.check(path)[0].problems, f"{name}, {mutant} is caught")
            if number % 100 == 0:
                test.equal(f"exit code for {name}, {mutant}", check(path)[0], 1)
    for content in ("", "[]", '{"schema": "plimsoll.plan/1"}', '{"schema": "plimsoll.instance/1"}'):
        test.write("mutant.json", content)
        test.equal(f"exit code for {content!r}", check(test.path("mutant.json"))[0], 2)


def refusals(test):
    bounds = test.succeeds(*SIM, "--json")["bounds"]
    refused = test.run(*SIM, "--memory", bounds["floor_bytes"] - 4096, "--export-instance", "no.json", "--json")
    test.equal("exit code below the floor", refused.code, 3)
    disk = ["--disk", "spill:1GiB", "--set", "plan.optimizer_state=disk"]
    test.fails(2, "E-EXPORT-DISK", *SIM, *disk, "--export-instance", "no.json")
    group = ["--set", "train.micro_batch=1", "--set", "plan.group=2"]
    test.fails(2, "E-EXPORT-GROUP", *SIM, *group, "--export-instance", "no.json")
    test.fails(5, "E-IO-WRITE", *SIM, "--export-instance", "no/such/folder/i.json")
    test.fails(2, "E-USAGE", "plan", "--diff", "a.json", "b.json", "--export-instance", "no.json")
    test.that(not test.path("no.json").exists(), "nothing is written where nothing is exported")


def suite(test):
    committed = sorted((ROOT / "instances").glob("*.json"))
    test.that(len(committed) >= 12, f"{len(committed)} instances are committed")
    for path in committed:
        code, said = check(path)
        test.that(code == 0, said)
        test.that(path.stat().st_size <= 350 << 10, f"{path.name} has {path.stat().st_size} bytes")
    command = [sys.executable, ROOT / "scripts" / "make_instances", "--binary", test.binary, "--out", test.path("made")]
    for name in REPRODUCED:
        command += ["--only", name]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    test.equal(f"exit code of make_instances ({done.stderr})", done.returncode, 0)
    for name in REPRODUCED:
        same = test.path(f"made/{name}.json").read_bytes() == (ROOT / "instances" / f"{name}.json").read_bytes()
        test.that(same, f"{name} is made again byte for byte")


def lp_bound(test):
    """The bound is never above the bytes of a plan. Without scipy, a message says so."""
    for name in MODELS:
        path = test.path(f"{name}.floor.json")
        instance = json.loads(path.read_text())
        budget = instance["result"]["arena_bytes"]
        command = [sys.executable, ROOT / "scripts" / "lp_bound", path, "--budget", str(budget), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 2:
            test.that("scipy is not installed" in done.stderr, f"lp_bound says why: {done.stderr}")
            continue
        test.equal(f"exit code of lp_bound ({done.stderr})", done.returncode, 0)
        bound = json.loads(done.stdout)
        test.that(0 < bound["recompute_seconds"], "at the floor something is made again")
        test.that(bound["update_seconds"] <= instance["result"]["update_seconds"], f"the bound of {name} is below the plan")


def main():
    test = Test("export_instance")
    test.run_parts(exports, mutations, refusals, suite, lp_bound)
    test.finish()


if __name__ == "__main__":
    main()
