#!/usr/bin/env python3
"""Settings of a resumed run: its own settings and budgets, unless they are given anew."""

import json
import os
import shlex
import shutil

from _plimsoll import Test, prose


def settings(test, run):
    lines = (test.path(run) / "config.resolved.toml").read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def continued(test):
    """The command that is printed, word for word: the budget and the rate are those of the run, and so are the bits."""
    given = ["--memory", "40MiB", "--set", "optimizer.learning_rate=1e-4", "--set", "train.gradient_clip=0.5"]
    whole = test.succeeds("train", "config.toml", *given, "--run", "in one piece", "--json")
    process = test.start("train", "config.toml", *given, "--set", "train.updates=3000", "--run", "an odd 'run'")
    test.wait_for_lines(process, "an odd 'run'", 2)
    process.terminate()
    text = process.communicate(timeout=60)[1].decode()
    printed = [line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("continue: ")]
    if not test.equal("commands to continue", len(printed), 1):
        return print(text)
    words = shlex.split(printed[0])
    test.equal("the command", words, ["plimsoll", "train", "config.toml", "--run", "an odd 'run'", "--resume"])
    done = test.report("an odd 'run'")["updates"]
    test.succeeds(*words[1:], "--updates", done + 1)
    report = test.report("an odd 'run'")
    test.equal("budget", report["budget"]["memory"], 40 << 20)
    kept = settings(test, "an odd 'run'")
    test.equal("rate", kept["learning_rate"], "0.0001")
    test.equal("clip", kept["gradient_clip"], "0.5")
    test.equal("updates", kept["updates"], "3000")
    del whole


def own_settings(test):
    """Cut in two, with and without CONFIG, a run has the bits of one piece."""
    given = ["--memory", "40MiB", "--set", "optimizer.learning_rate=1e-4", "--set", "train.save_every=2"]
    whole = test.succeeds("train", "config.toml", *given, "--run", "whole", "--json")
    test.succeeds("train", "config.toml", *given, "--run", "cut", "--updates", 2, "--json")
    test.succeeds("train", "config.toml", "--run", "cut", "--resume", "--updates", 4, "--json")
    test.succeeds("train", "--run", "cut", "--resume", "--updates", 5, "--json")
    report = test.succeeds("train", "cut/config.resolved.toml", "--run", "cut", "--resume", "--json")
    for key in ("parameters_xxh128", "validation_loss"):
        test.equal(key, report["final"][key], whole["final"][key])
    test.equal("budget", report["budget"], whole["budget"])
    test.equal("settings", settings(test, "cut"), settings(test, "whole"))


def given_anew(test):
    """Typed budgets and settings apply, are reported, and stay."""
    test.succeeds("train", "config.toml", "--run", "anew", "--updates", 1, "--memory", "40MiB")
    result = test.run("train", "config.toml", "--run", "anew", "--resume", "--updates", 2, "--memory", "41MiB", "--set",
                      "optimizer.learning_rate=0.002")  # fmt: skip
    test.equal("exit code", result.code, 0)
    for line in ("memory.budget: 41943040 -> 42991616 (--memory)", "optimizer.learning_rate: 0.001 -> 0.002 (--set)"):
        test.that(f"note: changed since the run began: {line}" in result.text()[1], f"told: {line}: {result.text()[1]}")
    result = test.run("train", "config.toml", "--run", "anew", "--resume", "--updates", 3)
    test.that("changed" not in result.text()[1], f"nothing has changed: {result.text()[1]}")
    test.equal("budget", test.report("anew")["budget"]["memory"], 41 << 20)
    test.equal("rate", settings(test, "anew")["learning_rate"], "0.002")
    # If two settings exclude each other, the one typed now counts.
    test.succeeds("train", "config.toml", "--run", "anew", "--resume", "--updates", 4, "--set", "optimizer.betas=[0.8, 0.9]")
    test.succeeds("train", "config.toml", "--run", "anew", "--resume", "--updates", 5, "--set",
                  'optimizer.half_lives=["80samples", "90samples"]')  # fmt: skip
    test.succeeds("train", "config.toml", "--run", "anew", "--resume", "--updates", 6)


def edited(test):
    """An edit of the file is reported; an edit that changes results is refused without --force."""
    text = test.path("config.toml").read_text()
    test.write("edited.toml", text)
    test.succeeds("train", "edited.toml", "--run", "edited", "--updates", 2, "--set", "train.gradient_clip=0.5")
    before = {path.name: path.read_bytes() for path in test.path("edited").iterdir() if path.is_file()}

    def resume(*more):
        return ["train", "edited.toml", "--run", "edited", "--resume", "--updates", 3, *more]

    test.write("edited.toml", text.replace("learning_rate = 1e-3", "learning_rate = 1e-2").replace("seed = 3", "seed = 4"))
    error = test.fails(2, "E-RESUME", *resume())
    for line in ("seed: 3 -> 4", "optimizer.learning_rate: 0.001 -> 0.01"):
        test.that(line in error["message"], f"told: {line}: {error}")
    test.write("edited.toml", text.replace("layers = 2", "layers = 3"))
    test.fails(2, "E-RESUME", *resume("--force"))
    after = {path.name: path.read_bytes() for path in test.path("edited").iterdir() if path.is_file()}
    test.that(before == after, "the run is untouched")
    test.succeeds("train", "--run", "edited", "--resume", "--updates", 3)

    test.write("edited.toml", text.replace("[train]", "[train]\nsave_every = 1\ngradient_clip = 0.7"))
    result = test.run(*resume())
    said = result.text()[1]
    test.equal("exit code", result.code, 0)
    test.that('save.every: "10m" -> 1 (edited.toml' in said, f"told: {said}")
    test.that("train.gradient_clip is ignored" in said, f"the run's own setting counts, and that is told: {said}")
    test.equal("clip", settings(test, "edited")["gradient_clip"], "0.5")
    test.write("edited.toml", text.replace("learning_rate = 1e-3", "learning_rate = 1e-2"))
    test.succeeds("train", "edited.toml", "--run", "edited", "--resume", "--updates", 4, "--force")
    test.equal("rate", settings(test, "edited")["learning_rate"], "0.01")
    test.succeeds("train", "edited.toml", "--run", "edited", "--resume", "--updates", 5)
    test.fails(2, "E-USAGE", "train", "edited.toml", "--run", "other", "--force")


def broken_checkpoint(test):
    """The folder stays as it was where the checkpoint cannot be read to its end."""
    test.succeeds("train", "config.toml", "--run", "broken", "--updates", 2)
    checkpoint = test.state("broken")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole.replace(b'"wpe.weight":', b'"wpE.weight":'))
    before = {path.name: path.read_bytes() for path in test.path("broken").iterdir() if path.is_file()}
    test.fails(5, "E-CKPT-CORRUPT", "train", "config.toml", "--run", "broken", "--resume", "--memory", "50MiB")
    after = {path.name: path.read_bytes() for path in test.path("broken").iterdir() if path.is_file()}
    test.equal("files that changed", [name for name in before if before[name] != after.get(name)], [])
    checkpoint.write_bytes(whole)
    test.succeeds("train", "config.toml", "--run", "broken", "--resume")


def older_run(test):
    """A run folder without settings.json goes on with config.resolved.toml."""
    test.succeeds("train", "config.toml", "--run", "older", "--updates", 2, "--set", "optimizer.learning_rate=1e-4")
    test.path("older/settings.json").unlink()
    for updates in (3, 4):
        test.succeeds("train", "config.toml", "--run", "older", "--resume", "--updates", updates)
        test.equal("rate", settings(test, "older")["learning_rate"], "0.0001")


def vocabulary(folder):
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}
    words = ["<|endoftext|>"] + [letters[byte] for byte in range(256)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def moved(test):
    """A run that began with a folder's weights goes on where all of it was moved, and where that folder is gone."""
    vocabulary(test.path("vocabulary"))
    home = test.path("one")
    home.mkdir()
    test.write("one/t.txt", prose(3, 6000))
    test.write("base.toml", 'model={layers=1,width=16,heads=2,context=32,vocab=260}\n'
               'data={train="one/t.txt",format="bpe",vocabulary="vocabulary"}\n'
               "train={effective_batch=4,updates=2}\n")  # fmt: skip
    test.succeeds("train", "base.toml", "--memory", "64MiB", "--run", "one/b")
    test.write("one/f.toml", 'model={init="b/weights",context=32}\ndata={train="t.txt",format="bpe"}\n'
               'train={effective_batch=4,updates=3}\n')  # fmt: skip
    test.succeeds("train", "one/f.toml", "--memory", "64MiB", "--run", "one/whole", "--json")
    test.succeeds("train", "one/f.toml", "--memory", "64MiB", "--run", "one/r", "--updates", 1)
    for copy in ("there", "elsewhere", "bare"):
        shutil.copytree(home, test.path(copy))
    os.rename(home, test.path("two"))
    want = test.report("two/whole")["final"]["parameters_xxh128"]

    def ends(what, run, *arguments):
        report = test.succeeds("train", *arguments, "--run", run, "--resume", "--json")
        if report is not None:
            test.equal(f"weights: {what}", (report["updates"], report["final"]["parameters_xxh128"]), (3, want))
            test.succeeds("generate", "--weights", f"{run}/weights", "--prompt", "abc", "--tokens", 2)

    ends("all moved", "two/r", "two/f.toml")
    ends("all moved, without CONFIG", "there/r")
    shutil.copytree(test.path("elsewhere/b"), test.path("elsewhere/c"))
    shutil.rmtree(test.path("elsewhere/b"))
    ends("another folder", "elsewhere/r", "elsewhere/f.toml", "--set", "model.init=elsewhere/c/weights")
    shutil.rmtree(test.path("bare/b"))
    ends("the folder is gone", "bare/r", "bare/f.toml")
    test.fails(2, "E-RESUME", "train", "bare/f.toml", "--run", "bare/r", "--resume", "--set", "model.context=16")


def main():
    test = Test("resumed_settings")
    test.run_parts(continued, own_settings, given_anew, edited, broken_checkpoint, older_run, moved)
    test.finish()


if __name__ == "__main__":
    main()
