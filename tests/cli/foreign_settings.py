#!/usr/bin/env python3
"""Settings of other programs: names keep their meaning or are refused; all faults are reported; sizes."""

import json

from _plimsoll import Test

BASE = "model={layers=1,width=16,heads=2,context=32,vocab=256}\ndata={train='train.txt',format='bytes'}\n"
BASE += "train={effective_batch=4,updates=5}\n"


def plan(test, lines, *arguments):
    test.write("foreign.toml", lines + BASE)
    return test.run("plan", "foreign.toml", "--memory", "64MiB", *arguments)


def optimizers(test):
    test.write("foreign.toml", 'optim="adamw_8bit"\nlr_scheduler_type="cosine"\n' + BASE)
    result = test.run("train", "foreign.toml", "--memory", "64MiB", "--run", "r")
    test.equal("exit code of adamw_8bit", result.code, 0)
    resolved = test.path("r/config.resolved.toml").read_text()
    for line in (
        'name = "adamw"',
        'optimizer_state = "8bit"',
        "final_fraction = 0.0",
        "learning_rate = 5e-05",
        "betas = [0.9, 0.999]",
        "weight_decay = 0.0",
    ):
        test.that(line in resolved.splitlines(), f"adamw_8bit and cosine: no line {line}")
    for line in ('optim="adafactor"', 'optim="galore_adamw"', 'lr_scheduler_type="inverse_sqrt"'):
        test.equal(f"exit code of {line}", plan(test, line + "\n").code, 2)


def what_is_not_here(test):
    """(line, a text in the answer)."""
    for line, said in (
        ("lora=true", "[adapter]"),
        ("lora={ranks=8}", "[adapter]"),
        ("model_name_or_path='gpt2'", "model.init"),
        ("logging_steps=10", "metrics.jsonl"),
        ("report_to='wandb'", "metrics.jsonl"),
        ("early_stopping_patience=3", "losses of validation data"),
        ("early_stopping=true", "stop.patience"),
        ("greater_is_better=false", "stop.metric"),
        ("optimizer={name='adamw_torch'}", '"adamw"'),
        ("optimizer={name='muon'}", "adafactor"),
    ):
        result = plan(test, line + "\n", "--json")
        error = result.json() or {}
        test.that(result.code == 2 and said in error.get("expected", ""), f"{line}: {result.code} {error}")
        test.that("lion = " not in " ".join(error.get("try", [])), f"{line}: a name that is not close is suggested")
    section = plan(test, "lora={r=8}\n")
    test.equal("exit code of a section of LoRA's names", section.code, 0)
    test.that("lora.r is taken as adapter.rank" in section.text()[1], f"a section of LoRA's names: {section.text()[1]}")


def all_faults(test):
    result = plan(test, "seed='x'\nlogging_steps=1\n", "--set", "model.heads=3", "--set", "optimizer.betas=[2,3]", "--json")
    error = result.json() or {}
    codes = [error.get("code")] + [other["code"] for other in error.get("others", [])]
    test.equal("codes of four faults", sorted(codes), ["E-CONFIG-HEADS", "E-CONFIG-KEY", "E-CONFIG-RANGE", "E-CONFIG-TYPE"])
    err = result.text()[1]
    test.that(all(code in err for code in codes), "stderr tells all of them")
    test.that("expected: expected" not in err, "'expected' is said once")
    error = plan(test, "", "--set", "train.effective_batc=3", "--json").json() or {}
    test.that("others" not in error, f"a misspelt key is one fault: {error}")


def numbers(test):
    for sets, said in (
        (["optimizer.learning_rate=5e5"], "far too high for adamw"),
        (["optimizer.learning_rate=1", "optimizer.weight_decay=1"], "takes off the whole"),
        (["model.dropout=0.95"], "dropout of 0.95"),
        (["optimizer.momentum=0.9"], "momentum is not used"),
        (["train.evaluate_every=2"], "data.validation is not given"),
    ):
        err = plan(test, "", *(word for one in sets for word in ("--set", one))).text()[1]
        test.that(said in err, f"{sets}: {err}")
    test.that("note" not in plan(test, "").text()[1], "an ordinary configuration is planned without a note")
    test.write("foreign.toml", BASE)
    result = test.run("plan", "foreign.toml", "--memory", "512")
    test.that(result.code == 3 and "did you mean 512MiB?" in result.text()[1], f"--memory 512: {result.text()[1]}")


def sizes(test):
    for size, budget in (("2gb", 2 * 10**9), ("2 GB", 2 * 10**9), ("2g", 2**31), ("2gib", 2**31)):
        made = test.run("plan", "foreign.toml", "--memory", size, "--json").json() or {}
        test.equal(f"budget of {size}", (made.get("budget") or {}).get("memory"), budget)
    half = (test.run("plan", "foreign.toml", "--memory", "50%", "--json").json() or {}).get("budget", {}).get("memory")
    whole = (test.run("plan", "foreign.toml", "--memory", "100%", "--json").json() or {}).get("budget", {}).get("memory")
    test.that(half and whole and abs(2 * half - whole) <= 8192, f"50% is {half}, 100% is {whole}")
    for bad in ("0%", "101%", "x%"):
        test.fails(2, "E-CONFIG-SIZE", "plan", "foreign.toml", "--memory", bad)


def evaluating(test):
    test.succeeds("train", "config.toml", "--run", "run", "--json")
    few = test.succeeds("eval", "config.toml", "--weights", "run", "--set", "train.evaluate_samples=2", "--json")
    test.equal("units of 2 samples", (few or {}).get("units"), 64)
    test.fails(2, "E-USAGE", "eval", "config.toml", "--weights", "run", "--set", "optimizer.learning_rate=1")
    err = test.run("train", "config.toml", "--run", "long", "--updates", "8", "--set", "schedule.final_fraction=0").text()[1]
    test.that("nothing is learned" in err and "--updates 8" in err, f"--updates past the schedule: {err}")


def generating(test):
    """Every token of the model is an end token: nothing is generated, except on request."""
    weights = test.path("run/weights/config.json")
    shape = json.loads(weights.read_text())
    weights.write_text(json.dumps({**shape, "eos_token_id": list(range(256))}))
    arguments = ["generate", "--weights", "run", "--prompt", "ab", "--tokens", "3"]
    test.equal("text up to the end token", test.run(*arguments).out, b"ab\n")
    test.equal("bytes without an end", len(test.run(*arguments, "--ignore-eos").out), 6)
    for content, said, expected in (
        (json.dumps({"model_type": "bert", "hidden_size": 64}), '"bert"', '"gpt2"'),
        ('{\n "model_type": "gpt2",\n "n_layer": }\n', "line 3, column", "config.json of a model"),
    ):
        weights.write_text(content)
        result = test.run("generate", "--weights", "run", "--prompt", "x")
        text = result.text()[1]
        test.that(result.code == 5 and said in text and expected in text, f"{said}: {text}")


def main():
    test = Test("foreign_settings")
    test.run_parts(optimizers, what_is_not_here, all_faults, numbers, sizes, evaluating, generating)
    test.finish()


if __name__ == "__main__":
    main()
