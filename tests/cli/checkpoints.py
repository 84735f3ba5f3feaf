#!/usr/bin/env python3
"""Checkpoints as folders: which are kept, which are resumed from, and a disk that is full."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import time

from _plimsoll import Test

SAVES = ["--set", "save.every=1"]
SAME = ("update", "samples", "units", "loss_bits", "grad_norm_bits", "learning_rate")


def arguments(run, *more):
    return ["train", "config.toml", "--run", run, *SAVES, *more]


def numbers(test, run):
    return [tuple(line[key] for key in SAME) for line in test.lines(run)]


def same_end(test, run, whole="whole"):
    test.equal(f"metrics of {run}", numbers(test, run) == numbers(test, whole), True)
    for key in ("parameters_xxh128", "loss_bits", "validation_loss"):
        test.equal(f"{key} of {run}", test.report(run)["final"][key], test.report(whole)["final"][key])


def kept(test):
    test.succeeds(*arguments("whole"))
    test.equal("two are kept", test.checkpoints("whole"), [5, 6])
    manifest = json.loads(test.state("whole").with_name("manifest.json").read_text())
    want = {"schema": "plimsoll.checkpoint/2", "update": 6, "samples": 48, "position": 48, "optimizer_updates": 6,
            "loss_bits": test.report("whole")["final"]["loss_bits"]}  # fmt: skip
    test.equal("manifest", {key: manifest[key] for key in want}, want)
    test.equal("its last member", list(manifest)[-1], "xxh128")
    batch = test.report("whole")["batch"]
    test.equal("batch", (manifest["micro_batch"], manifest["accumulation"]), (batch["micro"], batch["accumulation"]))
    for key in ("data_hash", "config_hash", "seed"):
        test.equal(key, manifest[key], test.report("whole")[key])
    state = test.state("whole")
    test.equal("its file", (manifest["files"][0]["name"], manifest["files"][0]["bytes"]), (state.name, state.stat().st_size))
    for settings, want in (
        (["save.keep_last=1"], [6]),
        (["save.keep_last=4"], [3, 4, 5, 6]),
        (["save.keep_last=1", "save.keep_every=2"], [2, 4, 6]),
        (["save.keep_every=2", "save.every=0"], [2, 4, 6]),
        (["save.keep_last=1", "save.every=0"], [6]),
    ):
        run = "-".join(settings).replace("save.", "").replace("=", "")
        test.succeeds(*arguments(run, *(word for each in settings for word in ("--set", each))))
        test.equal(f"checkpoints with {settings}", test.checkpoints(run), want)


def best(test):
    """The checkpoints of the best evaluations, and a run that goes back to the best one."""
    settings = ["--set", "save.every=0", "--set", "save.keep_last=1", "--set", "save.keep_best=2", "--set",
                "train.evaluate_every=1", "--set", "train.updates=12", "--set", "optimizer.learning_rate=0.03"]  # fmt: skip
    test.succeeds(*arguments("best", *settings))
    lines = [json.loads(line) for line in test.path("best/eval.jsonl").read_text().splitlines()]
    ranked = [line["update"] for line in sorted(lines, key=lambda line: (line["loss"], line["update"]))]
    test.equal("checkpoints", test.checkpoints("best"), sorted({*ranked[:2], 12}))
    result = test.run("train", "--run", "best", "--resume", "--checkpoint", "best", "--json")
    test.equal("exit code", result.code, 0)
    if ranked[0] < 12:
        test.that(f"goes back to update {ranked[0]}" in result.text()[1], f"a note: {result.text()[1][-400:]}")
        test.that(12 in [int(path.name) for path in test.path("best/abandoned/1/checkpoints").iterdir()], "the last is set aside")
        aside = [json.loads(line)["update"] for line in test.path("best/abandoned/1/metrics.jsonl").read_text().splitlines()]
        test.equal("lines that are set aside", aside, list(range(ranked[0] + 1, 13)))
    test.equal("lines", [line["update"] for line in test.lines("best")], list(range(1, 13)))


def back(test):
    test.succeeds(*arguments("back", "--set", "save.keep_last=6"))
    error = test.fails(5, "E-CKPT-MISSING", "train", "--run", "back", "--resume", "--checkpoint", "9")
    test.that(error and "1, 2, 3, 4, 5, 6" in error["message"], f"those that are there: {error}")
    for wrong in ("best3", "-1", "03", "1.5"):
        test.fails(2, "E-USAGE", "train", "--run", "back", "--resume", f"--checkpoint={wrong}")
    test.fails(2, "E-USAGE", *arguments("back", "--checkpoint", "3"))
    test.succeeds("train", "--run", "back", "--resume", "--checkpoint", "3")
    same_end(test, "back")
    test.succeeds("train", "--run", "back", "--resume", "--checkpoint", "last", "--updates", "6")
    test.equal("folders that were set aside", [path.name for path in test.path("back/abandoned").iterdir()], ["1"])


def back_twice(test):
    """Best weights of each part that the run has left stay apart; a run without those of its best evaluation says so."""
    settings = ["--set", "schedule.name=constant", "--set", "schedule.warmup=0", "--set", "save.keep_last=30", "--set",
                "train.evaluate_every=2", "--set", "train.updates=20", "--set", "optimizer.learning_rate=0.01"]  # fmt: skip
    test.succeeds(*arguments("left", *settings, "--updates", "12"))
    for update, end in ((5, "8"), (3, "5")):
        test.succeeds("train", "--run", "left", "--resume", "--checkpoint", update, "--updates", end)
    notes = sorted(test.path("left/abandoned").glob("*/weights_best/best.json"))
    left = [json.loads(path.read_text())["update"] for path in notes]
    test.equal("best weights set aside", len(left), 2)
    test.that(left[0] > 5 and left[1] > 3, f"they are of later evaluations: {left}")
    # The rate is too high from here on: the best evaluation is behind, and its weights were replaced.
    change = ["--set", "optimizer.learning_rate=3"]
    test.succeeds(*arguments("past", *settings, "--updates", "12"))
    test.succeeds("train", "--run", "past", "--resume", "--checkpoint", "5", "--updates", "8", *change)
    said = test.run("eval", "config.toml", "--weights", "past").text()[1]
    test.equal("best", test.report("past")["best"]["update"], 4)
    test.that("best evaluation (update 4" in said and "are not kept" in said, f"a note: {said}")


def damaged(test):
    """A damaged checkpoint is refused by name, and the offered command ends with the same bits."""
    test.succeeds(*arguments("damaged", "--updates", "4"))
    draw = random.Random(5)
    newest = test.state("damaged").parent
    for file in sorted(newest.iterdir()):
        whole = file.read_bytes()
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        error = test.fails(5, "E-CKPT-CORRUPT", "train", "--run", "damaged", "--resume")
        test.that(error and file.name in error["where"] and "update 3" in error["expected"], f"its name and another: {error}")
        file.write_bytes(whole)
    (newest / "state.safetensors").write_bytes(b"")
    error = test.fails(5, "E-CKPT-CORRUPT", "train", "--run", "damaged", "--resume")
    if error:
        test.equal("offered command", error["try"], ["plimsoll train --run damaged --resume --checkpoint 3"])
        test.succeeds(*error["try"][0].split()[1:])
        same_end(test, "damaged")


def fork(test):
    """A run with the state of another one's checkpoint."""
    test.succeeds(*arguments("trunk", "--set", "save.keep_last=6"))
    trunk = test.lines("trunk")
    report = test.succeeds(*arguments("fork", "--from", "trunk/3", "--json"))
    first = test.lines("fork")[0]
    test.equal("parent", (pathlib.Path(report["parent"]["run"]).name, report["parent"]["update"]), ("trunk", 3))
    for key in ("loss_bits", "grad_norm_bits"):
        test.equal(f"{key} of the first update", first[key], trunk[3][key])
    test.equal("its counts", (first["update"], first["samples"], report["updates"]), (1, 8, 6))
    test.equal("its rate", first["learning_rate"], trunk[0]["learning_rate"])
    manifest = json.loads(test.state("fork").with_name("manifest.json").read_text())
    test.equal("manifest", [manifest[key] for key in ("update", "samples", "position", "optimizer_updates")], [6, 48, 72, 9])
    test.succeeds(*arguments("halves", "--from", "trunk/3", "--updates", "2"))
    test.succeeds("train", "--run", "halves", "--resume", "--updates", "6")
    same_end(test, "halves", "fork")
    test.succeeds(*arguments("seed", "--from", "trunk", "--set", "seed=9", "--set", "train.effective_batch=4",
                             "--set", "optimizer.learning_rate=1e-4", "--set", "schedule.name=constant"))  # fmt: skip
    manifest = json.loads(test.state("seed").with_name("manifest.json").read_text())
    test.equal("another order", [manifest[key] for key in ("samples", "position", "optimizer_updates")], [24, 24, 12])
    for name, change in (("wide", "model.width=64"), ("heads", "model.heads=4"), ("lion", "optimizer.name=lion")):
        test.fails(5, "E-CKPT-FORMAT", *arguments(name, "--from", "trunk", "--set", change))
        test.that(not test.path(name).exists(), f"no run begins with {change}")
    test.succeeds("train", "--run", "seed", "--resume", "--updates", "7")
    test.equal("the parent stays", pathlib.Path(test.report("seed")["parent"]["run"]).name, "trunk")
    shutil.copytree(test.path("trunk"), test.path("torn"))
    state = test.state("torn")
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    error = test.fails(5, "E-CKPT-CORRUPT", *arguments("again", "--from", "torn"))
    test.equal("offered", error["try"], [f"--from {test.path('torn/5')}"])
    test.that(not test.path("again").exists(), "no run begins with a damaged checkpoint")
    test.fails(5, "E-CKPT-MISSING", *arguments("none", "--from", "trunk/77"))
    test.fails(2, "E-USAGE", "train", "--run", "trunk", "--resume", "--from", "fork")
    test.that(not test.path("none").exists(), "no run begins")


def micro_batch(test):
    """A run that goes on with another micro-batch: the next update agrees."""
    eight = ["--set", "train.micro_batch=8", "--set", "train.accumulation=1"]
    two = ["--set", "train.micro_batch=2", "--set", "train.accumulation=4"]
    test.succeeds(*arguments("eight", *eight))
    test.succeeds(*arguments("two", *eight, "--updates", "3"))
    result = test.run("train", "--run", "two", "--resume", *two)
    test.equal("exit code", result.code, 0)
    test.that("train.micro_batch: 8 -> 2" in result.text()[1], f"a note: {result.text()[1][:400]}")
    test.near("loss", test.lines("two")[3]["loss"], test.lines("eight")[3]["loss"], 1e-6)
    test.near("gradient norm", test.lines("two")[3]["grad_norm"], test.lines("eight")[3]["grad_norm"], 1e-5)
    test.equal("batch", test.report("two")["batch"]["micro"], 2)


def state_precision(test):
    """A run that goes on with its optimizer state in another precision, in memory and from a disk."""
    for before, after, dtype in (("fp32", "8bit", "U8"), ("8bit", "bf16", "BF16"), ("bf16", "fp32", "F32")):
        first, then = (f"precision.optimizer_state={each}" for each in (before, after))
        bits = set()
        for place in ([], ["--disk", f"{test.path('pages')}:1GiB", "--set", "plan.optimizer_state=disk"]):
            run = f"{before}-{after}-{len(place)}"
            test.succeeds(*arguments(run, "--set", first, "--updates", "3", *place))
            test.fails(2, "E-CONFIG-PRECISION", "train", "--run", run, "--resume", "--set", "precision.optimizer_state=4bit")
            result = test.run("train", "--run", run, "--resume", "--set", then, "--updates", "6")
            test.equal("exit code", result.code, 0)
            note = f"precision.optimizer_state: \"{before}\" -> \"{after}\""
            test.that(note in result.text()[1] and "rounded to the nearest" in result.text()[1], f"a note: {result.text()[1]}")
            bits.add(tuple(line["loss_bits"] for line in test.lines(run)))
            test.succeeds("train", "--run", run, "--resume", "--updates", "7")  # keeps the new precision
            test.that(f'"wte.weight.m":{{"dtype":"{dtype}"'.encode() in test.state(run).read_bytes(), f"the state is {after}")
        test.equal(f"{before} -> {after}: bits in memory and from a disk", len(bits), 1)


def segments(test):
    test.succeeds(*arguments("parts", "--updates", "2"))
    test.succeeds("train", "--run", "parts", "--resume", "--updates", "4")
    test.succeeds("train", "--run", "parts", "--resume", "--memory", "50MiB")
    report = test.report("parts")
    shape = {"begun": str, "ended": str, "host": str, "pid": int, "from_update": int, "last_update": int, "exit_code": int,
             "config_hash": str, "plan_hash": str, "budget": int, "threads": int, "instruction_set": str}  # fmt: skip
    for each in report["segments"]:
        test.shape("segment", each, shape)
    spans = [(each["from_update"], each["last_update"], each["exit_code"]) for each in report["segments"]]
    test.equal("segments", spans, [(0, 2, 0), (2, 4, 0), (4, 6, 0)])
    test.equal("budgets", [each["budget"] for each in report["segments"]], [64 << 20, 64 << 20, 50 << 20])
    test.that(report["validation_hash"] and report["validation_hash"] != report["data_hash"], "a hash of the validation data")


def first_format(test):
    """A run folder of an earlier version goes on."""
    golden = pathlib.Path(os.environ["PLIMSOLL_SOURCE_DIR"]) / "tests/golden/run_format_1"
    shutil.copytree(golden, test.path("earlier"))
    before = test.report("earlier/run")
    found = test.succeeds("train", "--run", "earlier/run", "--resume", "--updates", "3", "--json")
    test.equal("its parameters", found["final"]["parameters_xxh128"], before["final"]["parameters_xxh128"])
    test.succeeds("train", "--run", "earlier/run", "--resume", "--json")
    test.equal("checkpoints", test.checkpoints("earlier/run"), [6])
    test.that(test.path("earlier/run/checkpoint.safetensors").exists(), "the old file counts as the second one")
    test.succeeds("train", "earlier/config.toml", "--memory", "256MiB", "--run", "now")
    for old, new in zip(test.lines("earlier/run"), test.lines("now"), strict=True):
        test.near(f"loss of update {new['update']}", old["loss"], new["loss"], 1e-5)
        if before["instruction_set"] == test.report("now")["instruction_set"]:
            test.equal(f"bits of update {new['update']}", old["loss_bits"], new["loss_bits"])


def on_a_disk(test, size, script):
    """Runs a shell script beside a file system of n bytes at `small`; None if that is not permitted."""
    test.path("small").mkdir(exist_ok=True)
    lines = f'mount -t tmpfs -o size={size} none small || exit 97\n{script}'
    wrapped = ["unshare", *(["-m"] if os.geteuid() == 0 else ["-Urm"]), "sh", "-c", lines, test.binary]
    if shutil.which("unshare") is None:
        print("skipped: a small file system, no unshare")
        return None
    process = subprocess.run(wrapped, cwd=test.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    if process.returncode in (1, 97, 125) and b"E-" not in process.stderr:
        print(f"skipped: a small file system, {process.stderr.decode().strip()}")
        return None
    return process


def room(test):
    """With the predicted bytes and 1 MiB a run ends well; with 2 % less than predicted it is refused before the first update."""
    for name, more in (
        ("plain", []),
        ("best", ["--set", "train.evaluate_every=1", "--set", "save.keep_best=1"]),
        ("averages", ["--set", "optimizer.ema_half_life=2updates", "--set", "save.keep_last=1"]),
        ("interval", ["--set", "save.keep_every=2"]),
    ):
        wide = ["--set", "model.width=256", "--set", "memory.budget=256MiB", *SAVES, *more]
        folder = test.succeeds("plan", "config.toml", *wide, "--json")["run_folder"]
        test.shape("run_folder", folder, {"peak_bytes": int, "checkpoint_bytes": int, "checkpoints": int, "weights_bytes": int})
        peak = folder["peak_bytes"]
        command = " ".join(["train", "config.toml", *wide, "--run", "small/run", "--json"])
        ends = on_a_disk(test, peak + (1 << 20), f'"$0" {command}; code=$?; du -sb small >&2; exit $code')
        if ends is None:
            return
        test.equal(f"{name}: exit code with room", ends.returncode, 0)
        refused = on_a_disk(test, int(0.98 * peak), f'exec "$0" {command}')
        error = json.loads(refused.stdout or b"{}")
        test.equal(f"{name}: without", (refused.returncode, error.get("code")), (5, "E-RUN-ROOM"))
        test.that(b"update 1" not in refused.stderr, f"{name}: before the first update")


def on_a_full_disk(test, fill, freed_when, after):
    """A training on a disk that another program fills after the second checkpoint, and frees later; None: not permitted."""
    wide = ["--set", "model.width=256", "--set", "memory.budget=256MiB", "--set", "save.every=20", "--set", "save.keep_last=1",
            "--set", "train.updates=400"]  # fmt: skip
    peak = test.succeeds("plan", "config.toml", *wide, "--json")["run_folder"]["peak_bytes"]
    command = " ".join(["train", "config.toml", *wide, "--run", "small/run", "--json"])
    runs = "kill -0 $pid 2>/dev/null"
    script = (
        f'"$0" {command} 2>said & pid=$!\n'
        f"while [ ! -d small/run/checkpoints/20 ] && {runs}; do sleep 0.01; done\n"
        f"{fill}\nwhile ! {freed_when} && {runs}; do sleep 0.01; done\n"
        f"rm small/other; wait $pid; code=$?; cat said >&2; {after} >&2; exit $code"
    )
    return on_a_disk(test, peak + (1 << 20), script)


def full_disk(test):
    """A disk that fills up in mid-run costs a save, not the run. There is room for lines alone."""
    fill = "head -c 1000000000 /dev/zero >small/other 2>/dev/null; truncate -s -262144 small/other"
    after = "cat small/run/events.jsonl; ls small/run/checkpoints"
    process = on_a_full_disk(test, fill, "[ -s small/run/events.jsonl ]", f"{{ {after}; }}")
    if process is None:
        return
    said = process.stderr.decode()
    test.equal(f"exit code after {said[-600:]}", process.returncode, 0)
    test.that("the training goes on" in said and "NOT_SAVED" in said, f"a note and an event: {said[-600:]}")
    test.that(said.rstrip().endswith("400"), f"the last checkpoint is there: {said[-100:]}")


def no_byte(test):
    """A disk without a single byte left: the lines have their room, and the run goes on."""
    fill = "cat /dev/zero >small/other 2>/dev/null"
    process = on_a_full_disk(test, fill, 'grep -q "could not be saved" said', "wc -l <small/run/metrics.jsonl")
    if process is None:
        return
    said = process.stderr.decode()
    test.equal(f"exit code after {said[-600:]}", process.returncode, 0)
    test.that("could not be saved" in said, f"a note: {said[-500:]}")
    test.equal("lines", said.split()[-1], "400")


def replaced(test):
    """Nothing is removed from a folder that took the place of the run's."""
    process = test.start(*arguments("mine", "--set", "train.updates=100000", "--set", "save.keep_last=1"))
    test.wait_for_lines(process, "mine", 5)
    test.path("mine").rename(test.path("moved"))
    shutil.copytree(test.path("moved"), test.path("mine"), ignore=shutil.ignore_patterns("*partial*"))
    for update in (1, 2, 3):
        test.path(f"mine/checkpoints/{update}").mkdir(parents=True, exist_ok=True)
    before = test.checkpoints("mine")
    deadline = time.monotonic() + 30
    while test.path("moved").exists() and time.monotonic() < deadline:  # the run may add to it meanwhile
        shutil.rmtree(test.path("moved"), ignore_errors=True)
    _, said = process.communicate(timeout=60)
    test.equal("exit code", process.returncode, 5)
    test.that(b"removed or replaced" in said, f"the reason: {said[-300:]}")
    test.equal("checkpoints of the other folder", test.checkpoints("mine"), before)


def planted(test):
    """Links under the folders of a run are refused, and nothing is written through them."""
    test.succeeds(*arguments("planted", "--updates", "4"))
    test.write("victim/precious", "precious")
    for name in ("checkpoints/5", "abandoned", "diverged"):
        test.path(f"planted/{name}").symlink_to(test.path("victim"))
        error = test.fails(5, "E-IO-WRITE", "train", "--run", "planted", "--resume")
        test.that(error and error["where"].endswith(name), f"the link {name}: {error}")
        test.path(f"planted/{name}").unlink()
    test.equal("the folder behind it", [path.name for path in test.path("victim").iterdir()], ["precious"])


def main():
    test = Test("checkpoints")
    test.run_parts(kept, best, back, back_twice, damaged, fork, micro_batch, state_precision, segments, first_format)
    test.run_parts(room, full_disk, no_byte, replaced, planted)
    test.finish()


if __name__ == "__main__":
    main()
