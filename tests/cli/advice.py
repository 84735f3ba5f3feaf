#!/usr/bin/env python3
"""The advice of errors works: each error is provoked, and each advised command or argument is tried.

An advice that begins with `plimsoll` is run unchanged; an advice that begins with `--` is added to the same command.
"""

import random
import re
import shlex
import shutil
import struct
import subprocess

from _plimsoll import CONFIG, Test, prose

SMALL = CONFIG.replace("updates = 6", "updates = 3").replace("threads = 2", "threads = 1")


def run_words(test, words):
    """Runs a command line with the rules of a shell."""
    text = " ".join(words) if isinstance(words, list) else words
    line = re.sub(r"(^|&& )plimsoll ", lambda at: f"{at[1]}{shlex.quote(test.binary)} ", text)
    return subprocess.run(["sh", "-c", line], cwd=test.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def follows(test, what, advice, command):
    """The commands of an advice end with exit 0."""
    line = advice if advice.startswith("plimsoll ") else shlex.join(["plimsoll", *command]) + " " + advice
    result = run_words(test, line)
    if not test.equal(f"{what}: exit code of `{line}`", result.returncode, 0):
        print(result.stderr.decode("utf-8", "replace")[-1500:])


def provoked(test, exit_code, code, command, only=None, advices=1):
    """Provokes the error, and follows each advice, or those that `only` accepts."""
    command = [str(word) for word in command]
    error = test.fails(exit_code, code, *command)
    if error is None:
        return None
    tried = [advice for advice in error["try"] if only is None or only(advice)]
    test.that(len(tried) >= advices, f"{code} of `{' '.join(command)}` advises {error['try']}")
    for advice in tried:
        if "--resume" not in advice:  # the folder that another advice of the same error has filled
            for folder in test.folder.glob("*-2"):
                shutil.rmtree(folder)
        follows(test, code, advice, command)
    return error


def settings(test):
    """plan: of two contradicting settings, each can be left out; a misspelt name gets the right one."""

    def plan(*sets):
        return ["plan", "config.toml", *(word for one in sets for word in ("--set", one))]

    provoked(test, 2, "E-BATCH-3", plan("train.effective_batch=8", "train.micro_batch=3"))
    provoked(test, 2, "E-BATCH-3", plan("train.effective_batch=8", "train.micro_batch=2", "train.accumulation=2"), advices=2)
    provoked(test, 2, "E-CONFIG-VALUE", plan("optimizer.name=adamv"))
    provoked(test, 2, "E-CONFIG-VALUE", plan("data.format=byte"))
    provoked(test, 2, "E-CONFIG-KEY", plan("train.upd=3"))
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("train.gradient_clip=1", "train.gradient_clip_value=1"), advices=2)
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("optimizer.name=sgd", 'optimizer.half_lives=["9samples", "9samples"]'))
    provoked(test, 2, "E-CONFIG-RANGE", plan("optimizer.ema_half_life=0"))
    provoked(test, 2, "E-CONFIG-RANGE", plan("schedule.name=triangular", "schedule.cycle=1updates"))
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("precision.allow=['bf16']", "precision.compute=fp32"))
    provoked(test, 2, "E-CONFIG-PRECISION", plan("precision.compute=fp8"))
    provoked(test, 2, "E-CONFIG-RANGE", plan("precision.compute=fp16", "precision.loss_scale=3"))
    provoked(test, 2, "E-CONFIG-ROUNDING", plan("precision.optimizer_state=bf16", "precision.rounding=nearest"), advices=2)
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("precision.rounding=nearest", "precision.force_nearest=true"))
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("precision.optimizer_state=bf16", "precision.force_nearest=true"))
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("precision.loss_scale=1024"))
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("precision.parameters=bf16"), advices=2)
    provoked(test, 2, "E-CONFIG-CONFLICT", plan("optimizer.name=sgd", "precision.optimizer_state=bf16"))
    provoked(test, 2, "E-CONFIG-CONFLICT",
             plan("optimizer.name=sgd", "schedule.name=one_cycle", "schedule.momentum_range=[0.9, 0.8]"), advices=2)  # fmt: skip
    provoked(test, 2, "E-CONFIG-FILE", ["plan", "none.toml"])
    provoked(test, 2, "E-CONFIG-SIZE", ["plan", "config.toml", "--memory", ""])
    provoked(test, 2, "E-USAGE", ["plan", "config.toml", "--memry", "1GiB"], only=lambda advice: advice.startswith("plimsoll"))
    provoked(test, 2, "E-CUDA-UNVERIFIED", ["train", "config.toml", "--run", "here", "--device", "cuda"],
             only=lambda advice: advice == "--device cpu")  # fmt: skip
    draw = random.Random(1)
    test.write("large.bin", struct.pack("<600H", *(draw.randrange(256) for _ in range(599)), 299))
    provoked(test, 5, "E-DATA-TOKEN", ["train", "config.toml", "--run", "large", "--set", "data.train=large.bin", "--set",
             "data.validation=large.bin", "--set", "data.format=u16", "--set", "train.evaluate_samples=0"])  # fmt: skip


def budgets(test):
    """plan, eval, generate: the error of too small a budget names a sufficient one, and its arguments can be pasted."""
    result = test.run("plan", "config.toml", "--memory", "20MiB", "--disk", f"{test.path('a disk')}:1MiB")
    if test.equal("exit code of a small budget", result.code, 3):
        lines = result.text()[0].splitlines() + result.text()[1].splitlines()
        advised = [line.strip() for line in lines if line.startswith("     --")]
        test.that(advised, f"there are remedies: {lines}")
        for arguments in advised[:3]:
            follows(test, "a remedy of plan", arguments, ["plan", "config.toml", "--memory", "20MiB"])
    provoked(test, 3, "E-MEM-MACHINE", ["train", "config.toml", "--run", "huge", "--memory", "900TiB"])
    test.succeeds("train", "config.toml", "--run", "weights of mine")
    folder = "weights of mine/weights"
    generate = ["generate", "--weights", folder, "--prompt", "ab", "--tokens", "2", "--memory", "1MiB"]
    said = test.run(*generate).text()[1]
    for line in said.splitlines():
        if line.startswith("  try: "):
            follows(test, "generate", line.removeprefix("  try: "), generate)
    test.that("E-PLAN-FIT" in said and "  try: --memory" in said, f"a budget is advised: {said}")
    provoked(test, 3, "E-PLAN-FIT", ["eval", "config.toml", "--weights", folder, "--memory", "1MiB"])


def replays(test):
    """train --plan: the advised command makes a plan with the same settings and budgets, which is then replayed."""
    given = ["--set", "train.effective_batch=4", "--memory", "48MiB"]
    test.succeeds("plan", "config.toml", "--out", "plan.json")
    train = ["train", "config.toml", *given, "--plan", "plan.json", "--run", "replay"]
    provoked(test, 2, "E-PLAN-REPLAY", train)
    test.succeeds(*train)
    test.write("plan.json", "{}")
    train[-1] = "replay again"
    provoked(test, 2, "E-PLAN-FILE", train)
    test.succeeds(*train)


def runs(test):
    """train: folders with a run, without one, and with a run that saved nothing."""
    test.succeeds("train", "config.toml", "--run", "a run", "--updates", 1)
    provoked(test, 2, "E-RUN-EXISTS", ["train", "config.toml", "--run", "a run"])
    test.equal("updates", test.report("a run")["updates"], 3)
    provoked(test, 2, "E-RUN-MISSING", ["train", "config.toml", "--run", "no run", "--resume"])
    test.succeeds("train", "config.toml", "--run", "changed", "--updates", 1)
    provoked(test, 2, "E-RESUME", ["train", "config.toml", "--run", "changed", "--resume", "--set", "seed=4"], advices=2)
    provoked(test, 2, "E-RESUME", ["train", "config.toml", "--run", "changed", "--resume", "--set", "model.layers=1"])
    other = test.write("other data.txt", prose(9, 9000))
    provoked(test, 2, "E-RESUME-DATA", ["train", "config.toml", "--run", "changed", "--resume", "--set", f"data.train={other}"])

    test.succeeds("train", "config.toml", "--run", "no checkpoint")
    shutil.rmtree(test.path("no checkpoint/checkpoints"))
    provoked(test, 2, "E-RUN-EXISTS", ["train", "config.toml", "--run", "no checkpoint"])

    # The weights that it begins with are not there at first: no run begins, and the same command trains.
    test.succeeds("train", "config.toml", "--run", "base")
    test.write("tune.toml", SMALL.replace('kind = "gpt2"\nlayers = 2\nwidth = 32\nheads = 2\n', 'init = "base/weights"\n')
               .replace("vocab = 256\n", ""))  # fmt: skip
    weights, aside = test.path("base/weights/model.safetensors"), test.path("aside")
    train = ["train", "tune.toml", "--run", "tuned"]
    weights.rename(aside)
    test.that(test.run(*train).code == 5, "weights that are not there")
    aside.rename(weights)
    test.succeeds(*train)
    test.equal("updates", test.report("tuned")["updates"], 3)

    # A run that was killed before it first saved.
    def killed(folder):
        process = test.start("train", "config.toml", "--run", folder, "--updates", "100000")
        test.wait_for_lines(process, folder, 1)
        process.kill()
        process.communicate()

    killed("killed")
    provoked(test, 5, "E-CKPT-MISSING", ["train", "config.toml", "--run", "killed", "--resume"])
    killed("killed again")
    lines = test.lines("killed again")
    provoked(test, 2, "E-RUN-EXISTS", ["train", "config.toml", "--run", "killed again"])
    test.equal("its lines", test.lines("killed again"), lines)
    process = test.start("train", "config.toml", "--run", "busy one", "--set", "train.updates=100000")
    test.wait_for_lines(process, "busy one", 1)
    provoked(test, 2, "E-RUN-EXISTS", ["train", "config.toml", "--run", "busy one"])
    test.equal("advice to wait", test.fails(2, "E-RUN-BUSY", "train", "--run", "busy one", "--resume")["try"], [])
    process.kill()
    process.communicate()


def diverged(test):
    """A diverged run continues from its state, or with a lower rate from the beginning or the last checkpoint."""
    high = ["--set", "optimizer.learning_rate=10", "--set", "schedule.name=constant", "--set", "train.updates=140"]
    error = provoked(test, 4, "E-DIVERGED", ["train", "config.toml", "--run", "wild one", *high], advices=2)
    if error is not None:
        report = test.report("wild one")
        test.equal("the run that goes on", (report["status"], report["updates"]), ("done", 140))
        test.equal("its lines", [line["update"] for line in test.lines("wild one")], list(range(1, 141)))
    test.fails(4, "E-DIVERGED", "train", "config.toml", "--run", "stopped", *high)
    provoked(test, 2, "E-RUN-EXISTS", ["train", "config.toml", "--run", "stopped", *high])
    test.fails(4, "E-DIVERGED", "train", "config.toml", "--run", "again", *high)
    provoked(test, 5, "E-CKPT-MISSING", ["train", "config.toml", "--run", "again", "--resume"], advices=2)
    test.that(not test.path("wild one-3").exists(), "each advice names a folder that was free")
    saving = [*high, "--set", "train.save_every=10"]
    provoked(test, 4, "E-DIVERGED", ["train", "config.toml", "--run", "saved", *saving], advices=2)
    wild = ["--set", "optimizer.learning_rate=1e30", "--set", "train.gradient_clip=0", "--set", "schedule.warmup=0updates"]
    test.succeeds("train", "config.toml", "--run", "no number", "--updates", 2)
    # A tenth of such a rate is none either: the usual one is advised.
    error = test.fails(4, "E-DIVERGED", "train", "config.toml", "--run", "no number", "--resume", "--set", "train.updates=12",
                       *wild)  # fmt: skip
    test.that(error and "--resume --set optimizer.learning_rate=0.0003" in error["try"][0], f"advised: {error}")
    test.succeeds("train", "config.toml", "--run", "no number", "--resume", "--set", "optimizer.learning_rate=3e-4")
    test.fails(4, "E-DIVERGED", "train", "config.toml", "--run", "lost", "--set", "train.updates=12", *wild)
    provoked(test, 5, "E-CKPT-MISSING", ["train", "config.toml", "--run", "lost", "--resume"])
    half = ["--set", "precision.compute=fp16", "--fault", "overflow=1:0:1000"]
    provoked(test, 4, "E-SCALE-FLOOR", ["train", "config.toml", "--run", "scale", *half], advices=2)


def hints(test):
    """The last lines of a run are commands that use its weights or continue it."""

    def said(what, *command):
        result = test.run("train", *command)
        lines = [line.split(": ", 1) for line in result.text()[1].splitlines() if line.startswith(("try: ", "continue: "))]
        if test.equal(f"{what}: hints", len(lines), 1):
            follows(test, what, lines[0][1], [])
        return lines[0][1] if lines else ""

    test.that("generate" in said("bytes", "config.toml", "--run", "it's bytes"), "bytes can be generated")
    draw = random.Random(2)
    test.write("tokens.bin", struct.pack("<3000H", *(draw.randrange(256) for _ in range(3000))))
    test.write("tokens.toml", SMALL.replace('"bytes"', '"u16"').replace("train.txt", "tokens.bin")
               .replace("validation.txt", "tokens.bin"))  # fmt: skip
    test.that("eval" in said("tokens", "tokens.toml", "--run", "my tokens"), "tokens without a vocabulary can be evaluated")
    process = test.start("train", "config.toml", "--run", "cut off", "--updates", "4000", "--set", "train.updates=4000")
    test.wait_for_lines(process, "cut off", 2)
    process.terminate()
    text = process.communicate(timeout=60)[1].decode()
    for line in text.splitlines():
        if line.startswith("continue: "):
            test.that("--updates 4000" in line, f"as far as it was to go: {line}")
            follows(test, "continue", line.split(": ", 1)[1] + f" --updates {test.report('cut off')['updates'] + 1}", [])
    test.write("some buffers.csv", "id,lower,upper,size\na,0,2,64\nb,1,3,64\n")
    provoked(test, 2, "E-USAGE", ["layout", "some buffers.csv"])


def main():
    test = Test("advice")
    test.write("config.toml", SMALL)
    test.run_parts(settings, budgets, replays, runs, diverged, hints)
    test.finish()


if __name__ == "__main__":
    main()
