#!/usr/bin/env python3
"""The best weights, early stopping and the schedule plateau: all follow from eval.jsonl, also in runs that were killed."""

import hashlib
import json
import math
import random

from _plimsoll import Test

FAST = ["--set", "optimizer.learning_rate=0.03", "--set", "schedule.name=constant", "--set", "model.dropout=0"]
EVALUATES = ["--set", "train.evaluate_every=2"]


def arguments(run, *more):
    return ["train", "config.toml", "--run", run, *FAST, *EVALUATES, *more]


def evaluations(test, run):
    return [json.loads(line) for line in test.path(f"{run}/eval.jsonl").read_text().splitlines()]


def best_of(lines):
    best = None
    for line in lines:
        if best is None or line["units"] != best["units"] or line["loss"] < best["loss"]:
            best = line
    return best


def stop_of(lines, patience, min_delta=0.0):
    """The update at which these evaluations stop a run, or None."""
    improved = None
    for line in lines:
        if improved is None or line["loss"] < improved["loss"] - min_delta:
            improved = line
        elif line["update"] - improved["update"] >= patience:
            return line["update"]
    return None


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def same_best(test, run):
    """run.json, best.json and the loss of the folder say what eval.jsonl says."""
    best, report = best_of(evaluations(test, run)), test.report(run)
    note = json.loads(test.path(f"{run}/weights_best/best.json").read_text())
    for key in ("update", "samples", "loss", "loss_bits"):
        test.equal(f"{key} in run.json of {run}", report["best"][key], best[key])
        test.equal(f"{key} in best.json of {run}", note[key], best[key])
    return best


def stopped(test):
    run = "stopped"
    report = test.succeeds(*arguments(run, "--set", "stop.patience=6", "--set", "train.updates=200", "--json"))
    lines = evaluations(test, run)
    test.equal("the update of the stop", stop_of(lines, 6), lines[-1]["update"])
    test.equal("its report", (report["status"], report["exit_code"], report["stopped"]), ("done", 0, "no_improvement"))
    test.equal("its updates", report["updates"], lines[-1]["update"])
    test.that(report["updates"] < 200, "it ends early")
    best = same_best(test, run)

    found = test.run("eval", "config.toml", "--weights", run, "--json")
    test.equal("bits of eval", (found.json() or {}).get("loss_bits"), best["loss_bits"])
    said = found.text()[1]
    test.that(f"update {best['update']}, validation loss {best['loss']:.4f}" in said, f"eval says which: {said}")
    last = test.run("eval", "config.toml", "--weights", f"{run}/weights", "--json").json() or {}
    test.that(last.get("loss_bits") != best["loss_bits"], "RUN/weights stays the last one")
    said = test.run("generate", "--weights", run, "--prompt", "a", "--tokens", "1").text()[1]
    test.that(f"update {best['update']}" in said, f"generate says which: {said}")

    test.fails(2, "E-RUN-STOPPED", "train", "--run", run, "--resume")
    report = test.succeeds("train", "--run", run, "--resume", "--set", "stop.patience=10", "--json")
    lines = evaluations(test, run)
    test.equal("the stop with more patience", stop_of(lines, 10), report["updates"])
    same_best(test, run)
    report = test.succeeds("train", "--run", run, "--resume", "--set", "stop.patience=0", "--set", "train.updates=40", "--json")
    test.equal("without patience", (report["updates"], report["stopped"]), (40, None))


def plateau(test):
    """The rates of metrics.jsonl follow from eval.jsonl."""
    settings = ["--set", "schedule.name=plateau", "--set", "schedule.patience=4", "--set", "schedule.factor=0.5",
                "--set", "schedule.final_fraction=0.2", "--set", "schedule.warmup=0", "--set", "train.updates=40"]  # fmt: skip
    test.succeeds(*arguments("plateau", *settings, "--updates", "17"))
    test.succeeds("train", "--run", "plateau", "--resume")
    test.succeeds(*arguments("level", *settings))
    falls, rates, since, best = 0, {}, 0, math.inf
    for line in evaluations(test, "plateau"):
        if line["loss"] < best:
            best, since = line["loss"], line["update"]
        elif line["update"] - since >= 4:
            falls, since = falls + 1, line["update"]
        rates[line["update"]] = 0.03 * max(0.2, 0.5**falls)
    test.that(falls >= 2, f"the rate falls {falls} times")
    for line in test.lines("plateau"):
        before = [update for update in rates if update < line["update"]]
        test.near(f"rate of update {line['update']}", line["learning_rate"], rates[max(before)] if before else 0.03, 1e-12)
    events = [json.loads(line) for line in test.path("plateau/events.jsonl").read_text().splitlines()]
    falls = sum(a != b for a, b in zip([0.03, *rates.values()], rates.values()))
    test.equal("events", sum(event["event"] == "PLATEAU" for event in events), falls)
    same = [test.report(run)["final"]["parameters_xxh128"] for run in ("plateau", "level")]
    test.equal("parameters in one piece", same[0], same[1])


def killed(test):
    """Killed at random moments, a run ends with the same evaluations, bits and best weights."""
    settings = ["--set", "stop.patience=12", "--set", "train.updates=60", "--set", "save.every=3"]
    test.succeeds(*arguments("whole", *settings))
    rng = random.Random(4)
    kills = 0
    while kills < 12:
        again = ["--resume"] if test.checkpoints("killed") else []
        done = len(test.lines("killed")) if test.path("killed/metrics.jsonl").exists() else 0
        process = test.start(*arguments("killed", *settings, *again))
        test.wait_for_lines(process, "killed", max(5, done + rng.randrange(1, 7)))
        if process.poll() is not None:
            break
        process.kill()
        process.communicate()
        kills += 1
    process.communicate()
    print(f"{kills} kills")
    if test.report("killed")["status"] != "done":
        test.succeeds(*arguments("killed", *settings, "--resume"))
    same = ("update", "samples", "loss_bits", "units")
    rows = [[tuple(line[key] for key in same) for line in evaluations(test, run)] for run in ("whole", "killed")]
    test.equal("evaluations", rows[0] == rows[1], True)
    for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
        test.equal(key, test.report("killed")["final"][key], test.report("whole")["final"][key])
    test.equal("best weights", digest(test.path("killed/weights_best")), digest(test.path("whole/weights_best")))
    same_best(test, "killed")


def last_evaluation(test):
    """Killed between the last evaluation and its weights: a resume writes them."""
    test.succeeds(*arguments("last", "--set", "train.updates=3", "--set", "optimizer.learning_rate=1e-3"))
    best = test.report("last")["best"]
    if not test.equal("the best is the last", best["update"], 3):
        return
    want = digest(test.path("last/weights_best"))
    for name in ("model.safetensors", "best.json", "config.json"):
        test.path(f"last/weights_best/{name}").unlink()
    test.path("last/weights_best").rmdir()
    test.succeeds("train", "--run", "last", "--resume")
    test.equal("the best weights", digest(test.path("last/weights_best")), want)


def of_folder(test, name, folder, more=""):
    """The configuration with the model of a folder instead of a shape."""
    shape = ("kind", "layers", "width", "heads", "vocab", "dropout")
    lines = [line for line in test.path("config.toml").read_text().splitlines() if line.split(" = ")[0] not in shape]
    lines.insert(lines.index("[model]") + 1, f'init = "{folder}"')
    test.write(name, "\n".join(lines) + "\n" + more)


def rounded(test):
    """Where saving rounds, eval says so."""
    narrow = ["--set", "precision.compute=bf16", "--set", "precision.parameters=bf16"]
    test.succeeds(*arguments("origin", "--set", "train.updates=2", *narrow))
    of_folder(test, "folder.toml", "origin/weights")
    test.succeeds("train", "folder.toml", *FAST[:4], *EVALUATES, "--run", "rounded")
    said = test.run("eval", "folder.toml", "--weights", "rounded", "--json").text()[1]
    test.that("rounded ones" in said, f"a loss of rounded weights: {said}")


def adapter(test):
    """The best adapter is a PEFT folder, and it is the one that is opened."""
    test.succeeds(*arguments("base", "--set", "train.updates=2"))
    of_folder(test, "lora.toml", "base/weights", '[adapter]\nkind = "lora"\nrank = 2\n')
    more = ["--set", "train.updates=30", *FAST[:4], *EVALUATES]
    report = test.succeeds("train", "lora.toml", *more, "--run", "lora", "--audit", "--json")
    test.that(test.path("lora/weights_best/adapter_config.json").exists(), "a PEFT folder")
    best = same_best(test, "lora")
    test.equal("audit", report["measured"]["arena_bytes"], report["predicted"]["arena_bytes"])
    found = test.run("eval", "lora.toml", "--weights", "lora", "--json").json() or {}
    test.equal("bits of eval", found.get("loss_bits"), best["loss_bits"])


def going_other_ways(test):
    """Best weights of an evaluation that the run has left behind are set aside, and the evaluation is not made up."""
    more = ["--set", "train.updates=24", "--set", "save.every=5", "--set", "optimizer.learning_rate=1e-3"]
    test.succeeds(*arguments("ways", *more, "--updates", "19"))
    best = test.report("ways")["best"]
    test.equal("the best so far", best["update"], 19)
    error = test.run("train", "--run", "ways", "--resume", "--checkpoint", "15", "--set", "optimizer.learning_rate=1")
    test.equal("exit code", error.code, 0)
    test.that("they are in ways/abandoned/1/weights_best" in error.text()[1], f"a note: {error.text()[1][-500:]}")
    report, best = test.report("ways"), best_of(evaluations(test, "ways"))
    test.equal("the best of the lines", report["best"]["update"], best["update"])
    note = test.path("ways/weights_best/best.json")
    test.that(not note.exists() or json.loads(note.read_text())["update"] == best["update"], "no weights of another evaluation")


def missed(test):
    """An evaluation that was cut off after the checkpoint of its update is made when the run goes on."""
    more = ["--set", "train.updates=12"]
    test.succeeds(*arguments("all", *more))
    test.succeeds(*arguments("some", *more, "--updates", "6"))
    lines = test.path("some/eval.jsonl").read_text().splitlines(keepends=True)
    test.path("some/eval.jsonl").write_text("".join(lines[:-1]))
    test.succeeds("train", "--run", "some", "--resume", "--updates", "12")
    keys = ("update", "loss_bits", "units")
    rows = [[tuple(line[key] for key in keys) for line in evaluations(test, run)] for run in ("all", "some")]
    test.equal("evaluations", rows[1], rows[0])
    same_best(test, "some")


def off(test):
    report = test.succeeds(*arguments("off", "--set", "save.best_weights=false", "--json"))
    test.equal("the best in run.json", report["best"]["update"], best_of(evaluations(test, "off"))["update"])
    test.that(not test.path("off/weights_best").exists(), "no best weights")
    test.equal("opened weights", test.run("eval", "config.toml", "--weights", "off").text()[1].count("best of the run"), 0)


def main():
    test = Test("best_weights")
    test.run_parts(stopped, plateau, killed, last_evaluation, rounded, adapter, going_other_ways, missed, off)
    test.finish()


if __name__ == "__main__":
    main()
