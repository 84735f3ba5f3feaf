#!/usr/bin/env python3
"""Answers of a training to held-out prompts (train.show_samples): python3 samples.py path/to/plimsoll

They change no bit of the training, take the bytes that the plan says, and are those of `generate --chat` with the same weights.
Where they do not fit they are left out, with a reason. A resumed run has each answer once.
"""

import json
import shutil

from _plimsoll import Test
from train_conversations import conversations, prepare, sets

ROOM = ["--memory", "2GiB"]
EACH = sets(train__evaluate_every=2)


def answers_of(test, run):
    path = test.path(run) / "samples.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def bits(run):
    return run["final"]["loss_bits"], run["final"]["parameters_xxh128"]


def same_training(test):
    """The training is that without samples, with a dense model and with adapters, and every byte is as planned."""
    config = prepare(test)
    lora = sets(adapter__kind="lora", adapter__rank=4)
    ways = {
        "dense": [],
        "packed": sets(batch__packing="true"),
        "lora": lora,
        "qlora": [*lora, *sets(quantize__base="nf4")],
        "dora": sets(adapter__kind="dora", adapter__rank=4),
        "again": sets(plan__recompute="all", train__micro_batch=2),
        "bf16": sets(precision__compute="bf16"),
        "fp16": sets(precision__compute="fp16"),
    }
    for name, more in ways.items():
        command = ["train", config, *EACH, *more, *ROOM, "--audit", "--json", "--run"]
        without = test.succeeds(*command, f"{name}-none", *sets(train__show_samples=0))
        run = test.succeeds(*command, name)
        if not run or not without:
            continue
        test.equal(f"bits of {name}", bits(run), bits(without))
        losses = [[line["loss_bits"] for line in test.lines(each)] for each in (name, f"{name}-none")]
        test.equal(f"losses of {name}", losses[0], losses[1])
        for key in ("arena_bytes", "live_bytes"):
            test.equal(f"{key} of {name}", run["measured"][key], run["predicted"][key])
        test.equal(f"decisions of {name}", run["batch"], without["batch"])
        answers = answers_of(test, name)
        test.equal(f"updates with answers of {name}", [each["update"] for each in answers], [2, 2, 4, 4])
        test.equal(f"answers of {name} without samples", answers_of(test, f"{name}-none"), [])


def as_generated(test):
    """The answers of a chat with the saved weights, and of a continuation in plain text."""
    config = prepare(test)
    for name, more in (("whole", []), ("adapter", sets(adapter__kind="lora", adapter__rank=4))):
        more = [*more, *sets(optimizer__learning_rate=3e-3, train__updates=30)]
        run = test.succeeds("train", config, *more, *ROOM, "--run", name, "--json")
        taken, planned = run["measured"]["process_hwm_bytes"], run["predicted"]["process_bytes"]
        test.that(taken <= planned, f"the process of {name} takes {taken} of {planned}")
        answers = answers_of(test, name)
        test.equal(f"updates of {name}", [each["update"] for each in answers], [30, 30])
        weights = ["--weights", f"{name}/weights"] if name == "whole" else []
        if not weights:
            continue  # its base is random numbers, which no command generates from
        held_out = [each for each in conversations(60, 1)]
        for each in answers:
            known = [chat for chat in held_out if chat["messages"][-1]["content"] == each["expected"]]
            shown = [chat for chat in known if rendered(chat["messages"][:-1]) == each["prompt"]]
            if not test.that(shown, f"the prompt and the answer of {each} are those of a conversation"):
                continue
            if len(shown[0]["messages"]) > 2:  # a chat of one turn
                continue
            said = test.succeeds("generate", "--chat", *weights, "--prompt", shown[0]["messages"][0]["content"],
                                 "--temperature", 0, "--tokens", 64, "--memory", "1GiB", "--json")["samples"][0]  # fmt: skip
            test.equal("rendered", said["rendered"], each["prompt"])
            test.equal("the answer of generate --chat", said["text"], each["answer"])
    plain = sets(train__show_samples=3)
    test.succeeds("train", "config.toml", *plain, *ROOM, "--run", "plain", "--json")
    answers = answers_of(test, "plain")
    test.equal("answers from plain text", [each["update"] for each in answers], [6, 6, 6])
    text = test.path("validation.txt").read_text()
    for i, each in enumerate(answers):
        test.equal("the beginning of a sample", each["prompt"], text[32 * i : 32 * i + 16])
        test.equal("its rest", each["expected"], text[32 * i + 16 : 32 * i + 33])
        said = test.succeeds("generate", "--weights", "plain/weights", "--prompt", each["prompt"], "--temperature", 0,
                             "--tokens", 16, "--memory", "1GiB", "--json")["samples"][0]  # fmt: skip
        test.equal("the continuation of generate", said["text"], each["answer"])


def rendered(messages):
    text = "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>" for each in messages)
    return text + "<|im_start|>assistant\n"


def left_out(test):
    """The plan says why, and is the plan without samples."""
    config = prepare(test)
    test.succeeds("train", config, *sets(train__updates=1), *ROOM, "--run", "first", "--json")  # caches the tokens
    with_samples = test.succeeds("plan", config, *ROOM, "--json")
    test.equal("prompts", with_samples["samples"]["prompts"], 2)
    without = test.succeeds("plan", config, *ROOM, *sets(train__show_samples=0), "--json")
    test.that("samples" not in without, "no samples are asked for")
    needed = with_samples["predicted"]["process_bytes"], without["predicted"]["process_bytes"]
    test.that(needed[0] > needed[1], f"the bytes of answers count: {needed}")
    fixed = sets(train__micro_batch=with_samples["batch"]["micro"])
    for budget in (needed[0], needed[0] - 4096, needed[1]):
        plan = test.succeeds("plan", config, *fixed, "--memory", budget, "--json")
        bare = test.succeeds("plan", config, *fixed, "--memory", budget, *sets(train__show_samples=0), "--json")
        test.near(f"seconds in {budget}", plan["predicted"]["update_seconds"], bare["predicted"]["update_seconds"], 1e-9)
        test.equal(f"recomputation in {budget}", plan["decisions"]["recompute"], bare["decisions"]["recompute"])
        test.that(plan["predicted"]["process_bytes"] <= budget, f"the plan fits {budget}")
        if plan["samples"]["left_out"]:
            test.that("the process would take" in plan["samples"]["left_out"], f"the reason: {plan['samples']}")
            test.equal(f"the plan without answers in {budget}", plan["plan_hash"], bare["plan_hash"])
    test.that(plan["samples"]["left_out"], "they do not fit into the smallest of these budgets")
    floor = with_samples["bounds"]["floor_bytes"]
    tight = test.run("train", config, "--memory", floor, "--audit", "--run", "tight", "--json")
    test.equal("exit code at the floor", tight.code, 0)
    test.that("no answers at evaluations" in tight.text()[1], f"the summary says so: {tight.text()[1][:1000]}")
    test.equal("answers at the floor", answers_of(test, "tight"), [])
    sim = ["--set", "machine.device=sim", "--set", "memory.host_memory=1GiB"]
    for more, reason in (
        (sim, "simulated device"),
        (sets(plan__parameters="disk", plan__optimizer_state="disk") + ["--set", f"memory.disk={test.folder}/disk:1GiB"],
         "weights rest outside memory"),
    ):  # fmt: skip
        plan = test.succeeds("plan", config, *more, *ROOM, "--json")
        test.that(plan and reason in (plan["samples"]["left_out"] or ""), f"{reason}: {plan and plan['samples']}")
    text = test.succeeds("plan", config, *sim, *ROOM)
    test.that("no answers at evaluations (train.show_samples): kernels run on a simulated device" in text, "as text")
    if shutil.which("mpirun"):
        ranks = test.run("plan", config, "--ranks", 2, *sets(machine__threads=1, train__micro_batch=1), *ROOM, "--json")
        said = (ranks.json() or {}).get("samples")
        test.equal("with ranks", said, {"left_out": "several ranks train"})
    test.write("tokens.bin", bytes(4000))
    raw = ["config.toml", *sets(data__train="tokens.bin", data__validation="tokens.bin", data__format="u16")]
    said = test.run("train", *raw, *sets(train__show_samples=1), *ROOM, "--run", "raw")
    test.that("the tokens have no texts" in said.text()[1] and said.code == 0, f"bare tokens: {said.text()[1][-900:]}")
    bare = test.write("bare.toml", test.path("config.toml").read_text().replace('validation = "validation.txt"\n', "")
                      .replace("evaluate_samples = 8", "show_samples = 2"))  # fmt: skip
    plan = test.run("plan", bare, *ROOM, "--json")
    test.equal("without validation data", plan.json()["samples"]["left_out"], "there are no validation data")
    test.that("train.show_samples is not used" in plan.text()[1], "a note tells it")


def resumes(test):
    """A run that was killed after an evaluation, and one that went back, have each answer once."""
    config = prepare(test)
    more = sets(train__evaluate_every=2, train__updates=12, save__every=4, save__keep_last=3)
    test.succeeds("train", config, *more, *ROOM, "--run", "straight", "--json")
    want = answers_of(test, "straight")
    test.equal("answers", [each["update"] for each in want], [2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12])
    test.succeeds("train", config, *more, *ROOM, "--updates", 6, "--run", "torn", "--json")
    path = test.path("torn") / "samples.jsonl"
    path.write_text(path.read_text() + json.dumps({**want[0], "update": 7}) + "\n" + '{"update": 8, "prom')
    test.succeeds("train", "--run", "torn", "--resume", "--updates", 12, *ROOM, "--json")
    # The last evaluation of the first process was at its end.
    test.equal("answers after a resume", answers_of(test, "torn"), want)
    # A kill between the lines of an evaluation.
    test.succeeds("train", config, *more, *ROOM, "--updates", 6, "--run", "cut", "--json")
    evaluations = test.path("cut") / "eval.jsonl"
    last = evaluations.read_text().splitlines()[-1]
    path = test.path("cut") / "samples.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in want if each["update"] < 6))
    test.succeeds("train", "--run", "cut", "--resume", "--updates", 12, *ROOM, "--json")
    test.equal("answers after a kill before they were written", answers_of(test, "cut"), want)
    test.that(last in evaluations.read_text().splitlines(), "the evaluation at the checkpoint is not made again")
    shutil.copytree(test.path("straight"), test.path("back"))
    test.succeeds("train", "--run", "back", "--resume", "--checkpoint", 8, "--json")
    test.equal("answers of a run that went back", answers_of(test, "back"), want)
    aside = [json.loads(line) for line in (test.path("back/abandoned/1/samples.jsonl")).read_text().splitlines()]
    test.equal("its abandoned answers", aside, want[8:])
    test.succeeds("report", "back")
    page = test.path("back/report.html").read_text()
    test.that("The run went back to an earlier checkpoint once" in page, "the report mentions the abandoned updates")
    test.succeeds("runs", "rm", "back", "--yes")
    test.that(not test.path("back").exists(), "runs rm knows samples.jsonl")


def shown(test):
    """On a terminal, in a log and in the report."""
    config = prepare(test)
    chats = [{"messages": [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": f"{i} {HOSTILE}"}]}
             for i in range(4)]  # fmt: skip
    test.write("hostile.jsonl", "".join(json.dumps(each) + "\n" for each in chats))
    command = ["train", config, *EACH, *sets(data__validation="hostile.jsonl"), *ROOM, "--run"]
    plain = test.run(*command, "hostile")
    test.equal("exit code", plain.code, 0)
    said = plain.text()[1]
    test.that("  sample 2  " in said and "expected: 1 <script>" in said, f"the answers are printed: {said[-2000:]}")
    test.that("\x1b" not in said, "no control characters")
    log = test.run(*command, "log", "--log-format", "json").text()[1]
    events = [json.loads(line) for line in log.splitlines()]
    samples = [each for each in events if each["event"] == "sample"]
    test.equal("answers in the log", [{key: each[key] for key in KEYS} for each in samples], answers_of(test, "log"))
    page = test.path("hostile/report.html").read_text()
    test.that('id="samples"' in page and "Prompt 2" in page, "the report has them")
    test.that("<script" not in page and "alert(1)" in page and "\x1b" not in page, "escaped")
    broken = test.path("hostile/samples.jsonl")
    line = json.dumps({"update": 2, "prompt": "p" * (70 << 10), "answer": "a", "expected": "e"})
    others = ["[" * 100000, "{}", '{"update": -1, "prompt": "", "answer": "", "expected": ""}', '{"update": 4, "prompt": 1}']
    many = [json.dumps({"update": 4, "prompt": f"prompt {i}", "answer": "x", "expected": ""}) for i in range(500)]
    broken.write_text("\n".join([line, *others, *many, '{"upd']))
    test.succeeds("report", "hostile")
    page = test.path("hostile/report.html").read_text()
    test.that("prompt 63" in page and "prompt 64" not in page, "a page of bounded size")


HOSTILE = "<script>alert(1)</script>\x1b[31m"
KEYS = ("update", "prompt", "answer", "expected")


def compared(test):
    """Levers and remedies count the answers as the plans do that they lead to."""
    config = prepare(test)
    command = ["plan", config, *EACH, "--json", "--memory"]
    plan = test.succeeds(*command, "2GiB")
    test.that(plan["samples"]["left_out"] is None and len(plan["levers"]) > 5, "a plan with answers and levers")
    for lever in plan["levers"]:
        arguments = lever["arguments"]
        memory = [] if "--memory" in arguments else ["2GiB"]
        again = test.succeeds(*(command if memory else command[:-1]), *memory, *arguments)
        test.equal(f"bytes of {lever['name']}", lever["process_bytes"], again["predicted"]["process_bytes"])
    short = plan["bounds"]["floor_bytes"] - 4096
    refused = test.run(*command, short).json()
    test.that(refused["infeasible"]["remedies"], "there are remedies")
    for remedy in refused["infeasible"]["remedies"]:
        arguments = remedy["arguments"]
        again = test.succeeds(*(command[:-1] if "--memory" in arguments else [*command, short]), *arguments)
        test.equal(f"bytes of {remedy['text']}", remedy["process_bytes"], again["predicted"]["process_bytes"])


def main():
    test = Test("samples")
    test.run_parts(same_training, as_generated, left_out, resumes, shown, compared)
    test.finish()


if __name__ == "__main__":
    main()
