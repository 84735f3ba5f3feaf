#!/usr/bin/env python3
"""`plimsoll init FOLDER DATA`, through the command: python3 init.py path/to/plimsoll

The written configuration trains without changes, within the given budget. All parameters are trained if that fits, to the byte;
else an adapter over ever smaller layers; else with a disk, or shorter samples. Unusable models and data are refused by name.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tomllib

from _plimsoll import Test
from train_conversations import conversations, prepare, sets


def write_folder(test):
    """A folder with weights, tokenizer and template, and 240 conversations."""
    config = prepare(test)
    if not test.path("base").exists():
        test.succeeds("train", config, *sets(data__validation=""), "--updates", 1, "--memory", "2GiB", "--run", "base", "--json")
    test.write("chats.jsonl", "".join(json.dumps(each) + "\n" for each in conversations(240, 5)))
    return test.path("base/weights"), test.path("chats.jsonl")


def begin(test, *arguments, name="begun.toml"):
    """The written file, in a separate folder, and its text."""
    result = test.run("init", *arguments)
    test.equal(f"exit code of init {arguments}", result.code, 0)
    text = result.text()[0]
    test.path("elsewhere").mkdir(exist_ok=True)
    return test.write(f"elsewhere/{name}", text), text


def floor_of(test, config, *more):
    return test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")["bounds"]["floor_bytes"]


def trains(test):
    folder, data = write_folder(test)
    config, text = begin(test, folder, data, "--memory", "1GiB")
    keys = tomllib.loads(text)
    test.equal("keys of the data", keys["data"], {"train": str(data), "format": "chat", "validation": "5%"})
    test.that("240 samples (messages)" in text, "the samples are counted: " + text)
    test.that("adapter" not in keys, "all parameters are trained where that fits")
    longest = max(len(sample["ids"]) for sample in test.succeeds("data", "show", config, "--samples", 240, "--json")["samples"])
    test.that(keys["model"]["context"] >= min(longest - 1, 160), f"the context holds {longest} tokens: {keys['model']}")
    run = test.succeeds("train", config, "--updates", 3, "--run", "begun", "--json")
    test.equal("updates", run["updates"], 3)
    test.that(run["measured"]["process_hwm_bytes"] <= 2**30, "within the budget")
    test.that(0 < run["final"]["validation_loss"] < 20, "a part is held out")


def what_fits(test):
    folder, data = write_folder(test)
    config, _ = begin(test, folder, data, "--memory", "1GiB")
    full = floor_of(test, config)
    _, text = begin(test, folder, data, "--memory", full)
    test.that("adapter" not in tomllib.loads(text), "the floor is enough")
    for number in range(2):  # the same again, from the files of the cache
        adapter, text = begin(test, folder, data, "--memory", full - 4096, name="adapter.toml")
        keys = tomllib.loads(text)
        test.equal("the adapter", keys["adapter"], {"kind": "lora", "rank": 16, "alpha": 32, "targets": "all-linear"})
        test.that(keys["quantize"]["base"] in ("bf16", "nf4"), "the layers are smaller: " + text)
        test.that("training all parameters" in text, "what did not fit is told: " + text)
        plan = test.succeeds("plan", adapter, "--json")
        test.equal("it fits", plan["status"], "fits")
        test.succeeds("train", adapter, "--updates", 1, "--run", f"adapted-{number}", "--json")
    short = test.run("init", folder, data, "--memory", "1MiB")
    test.equal("exit code of what cannot fit", short.code, 3)
    told = short.text()[1]
    test.that("E-PLAN-FIT" in told, told)
    enough = next(line.split()[-1] for line in told.splitlines() if "try: --memory" in line)
    least, text = begin(test, folder, data, "--memory", enough, name="least.toml")
    test.equal("the remedy fits", test.succeeds("plan", least, "--json")["status"], "fits")


def with_a_disk(test):
    """A model that is large compared with the buffers of transfers."""
    _, data = write_folder(test)
    shape = sets(model__layers=6, model__width=512, model__mlp_width=2048, data__validation="")
    test.succeeds("train", test.path("chat.toml"), *shape, "--updates", 1, "--memory", "2GiB", "--run", "large", "--json")
    folder, disk = test.path("large/weights"), f"{test.path('pages')}:1GiB"
    told = test.run("init", folder, data, "--memory", "1MiB").text()[1]
    enough = next(line.split()[-1] for line in told.splitlines() if "try: --memory" in line)
    below = f"{int(enough.removesuffix('MiB')) - 1}MiB"
    config, text = begin(test, folder, data, "--memory", below, "--disk", disk, name="disk.toml")
    test.equal("the disk", tomllib.loads(text)["memory"]["disk"], disk)
    test.equal("it fits with the disk", test.succeeds("plan", config, "--json")["status"], "fits")
    error = test.fails(3, "E-PLAN-FIT", "init", folder, data, "--memory", "1MiB", "--disk", disk)
    test.that(not any("--disk" in line for line in error["try"]), f"a disk is no remedy where there is one: {error['try']}")
    _, text = begin(test, folder, data, "--memory", "1GiB", "--disk", disk, name="roomy.toml")
    test.that("disk" not in tomllib.loads(text)["memory"], "no disk where memory is enough")


def padded(test):
    """A model with more tokens than its tokenizer has: trained, merged, and asked."""
    write_folder(test)
    vocab = tomllib.loads(test.path("chat.toml").read_text())["model"]["vocab"]
    more = sets(model__vocab=vocab + 40, data__validation="")
    test.succeeds("train", test.path("chat.toml"), *more, "--updates", 1, "--memory", "2GiB", "--run", "padded", "--json")
    folder = test.path("padded/weights")
    config, _ = begin(test, folder, test.path("chats.jsonl"), "--memory", "1GiB", name="padded.toml")
    adapter = sets(adapter__kind="lora", adapter__targets="all-linear", adapter__modules_to_save='["model.embed_tokens"]')
    run = test.succeeds("train", config, *adapter, "--updates", 2, "--run", "adapted-padded", "--audit", "--json")
    test.equal("live bytes", run["measured"]["live_bytes"], run["predicted"]["live_bytes"])
    merged = test.path("merged-padded")
    test.succeeds("merge", "--adapter", test.path("adapted-padded"), "--out", merged, "--json")
    test.equal("tokens of the merged model", json.loads((merged / "config.json").read_text())["vocab_size"], vocab + 40)
    prompt = ["--prompt", "the red sea", "--tokens", 8, "--temperature", 0, "--json"]
    answers = [
        test.succeeds("generate", *model, *prompt)["samples"][0]["text"]
        for model in (("--weights", merged), ("--adapter", test.path("adapted-padded")))
    ]
    test.equal("answers, merged and adapted", answers[0], answers[1])
    test.succeeds("export", "--weights", merged, "--gguf", test.path("padded.gguf"), "--type", "F16")


def texts(test):
    folder, _ = write_folder(test)
    words = " ".join(turn["content"] for each in conversations(400, 9) for turn in each["messages"])
    data = test.write("words.txt", words)
    config, text = begin(test, folder, data, "--memory", "1GiB", name="text.toml")
    keys = tomllib.loads(text)
    test.equal("format", keys["data"]["format"], "bpe")
    test.that("batch" not in keys, "a stream of tokens fills its rows")
    test.succeeds("train", config, "--updates", 2, "--run", "text", "--json")


def said_of_data(test):
    """The written file has the keys of the data; the commands of remedies work unchanged."""
    folder, data = write_folder(test)
    bare = test.path("bare")
    shutil.copytree(folder, bare)
    (bare / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    error = test.fails(5, "E-CHAT-TEMPLATE", "init", bare, data, "--memory", "1GiB")
    test.equal("what helps", error["try"], ["--set data.template=FILE"])
    template = test.write("own.jinja", "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
    more = sets(data__template="own.jinja", data__loss="all", data__validation="10%")
    config, text = begin(test, "bare", "chats.jsonl", *more, "--memory", "1GiB", name="own.toml")
    keys = tomllib.loads(text)["data"]
    test.equal("keys that were given", (keys["loss"], keys["validation"]), ("all", "10%"))
    test.that(pathlib.Path(keys["template"]).samefile(template), f"the template is found from anywhere: {keys}")
    test.succeeds("train", config, "--updates", 1, "--run", "own", "--json")
    shutil.copy(data, test.path("chats.txt"))
    error = test.fails(5, "E-DATA-FORMAT", "init", folder, "chats.txt", "--memory", "1GiB")
    test.that(any(line.startswith("--set data.format=chat") for line in error["try"]), f"what helps: {error['try']}")
    _, text = begin(test, folder, "chats.txt", "--set", "data.format=chat", "--memory", "1GiB", name="named.toml")
    test.that("240 samples (messages)" in text, "the file is read as samples")
    test.fails(2, "E-USAGE", "init", folder, data, "--set", "train.epochs=1")
    share = begin(test, folder, data, "--memory", "50%", name="share.toml")[1]
    test.that('budget = "50%"' in share, "init takes a share of the memory")
    for budget in ("memory.budget=1GiB", "budget=1GiB", "memory.disk=pages:1GiB"):
        test.fails(2, "E-USAGE", "init", folder, data, "--set", budget)
    test.fails(2, "E-USAGE", "init", "gpt2", "--set", "data.format=chat")
    test.fails(2, "E-CONFIG-CONFLICT", "init", folder, "train.txt", "--set", "data.template=own.jinja")
    test.fails(5, "E-DATA-MISSING", "init", folder, "train.txt", "--set", "data.validation=none.txt")


def holds_out(test):
    """From 50 samples on, a share is validation, evaluated twice per epoch. Answers on both sides are told. Updates are exact."""
    folder, _ = write_folder(test)
    for count, names in ((49, ()), (50, ("validation",)), (160, ("validation",))):
        data = test.write(f"some-{count}.jsonl", "".join(json.dumps(each) + "\n" for each in conversations(count, count)))
        config, text = begin(test, folder, data, "--memory", "1GiB", name=f"some-{count}.toml")
        keys = tomllib.loads(text)
        test.equal(f"a share of {count} is held out", tuple(name for name in ("validation",) if name in keys["data"]), names)
        plan = test.succeeds("plan", config, "--json")
        run = test.succeeds("train", config, "--run", f"some-{count}", "--json")
        plan = test.succeeds("plan", config, "--json")
        said = int(re.search(r"about ([\d,]+) update", text).group(1).replace(",", ""))
        test.equal(f"updates of {count}", (said, plan["run"]["updates"]), (run["updates"], run["updates"]))
        if not names:
            continue
        test.that(2 <= run["samples"] / keys["train"]["epochs"] < count, "some are left for training")
        made = len((test.path(f"some-{count}") / "eval.jsonl").read_text().splitlines())
        test.that(abs(made - 2 * keys["train"]["epochs"]) <= 1, f"{made} evaluations in {keys['train']['epochs']} epochs")
    # One answer to all questions, and another one to each.
    pair = lambda asked, said: {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]}
    rows = lambda pairs: "".join(json.dumps(pair(*each)) + "\n" for each in pairs)
    own = [f"{a} {b} {c}" for a in "red green blue".split() for b in "sea ship port".split() for c in "one two six ten".split()]
    shared = test.write("shared.jsonl", rows((f"{i} {own[i % 36]}", "the sea") for i in range(180)))
    alone = test.write("alone.jsonl", rows((f"{i} {said}", said) for i, said in enumerate(own)))
    held = sets(data__validation=test.write("held.jsonl", rows([("a", "deck"), ("b", "hull")])))
    for name, data, more in (("shared", shared, []), ("alone", alone, held)):
        result = test.run("init", folder, data, *more, "--memory", "1GiB")
        text, told = result.text()
        test.equal(f"init tells of answers, {name}", "measures memory" in told, name == "shared")
        config = test.write(f"{name}-answers.toml", text)
        told = test.run("train", config, "--updates", 1, "--run", f"{name}-answers").text()[1]
        test.equal(f"train tells of answers, {name}", "measures memory" in told, name == "shared")
        found = test.succeeds("plan", config, "--json")["validation"]
        test.equal(f"recurring, {name}", found["recurring"], found["samples"] if name == "shared" else 0)


def measured(test):
    """A first measurement by init gives the same machine as `machine`: memory that the process keeps changes no budget."""
    folder, data = write_folder(test)
    reserves = []
    for name, command in (("machine", ["machine"]), ("init", ["init", folder, data, "--memory", "1GiB"])):
        environment = {**os.environ, "XDG_CACHE_HOME": str(test.path(f"cache-{name}"))}
        test.equal(f"exit code of {name}", test.run(*command, "--json", environment=environment).code, 0)
        file = next(test.path(f"cache-{name}").glob("plimsoll/machine-*.json"))
        reserves.append(json.loads(file.read_text())["reserve"])
    for key in ("per_step", "per_primitive"):
        low, high = sorted(reserve[key] for reserve in reserves)
        test.that(0 < low and high < 1.5 * low, f"{key}: {low} and {high}")
    low, high = sorted(reserve["code"] for reserve in reserves)
    test.that(high - low <= 3 * 2**20, f"code: {low} and {high}")


def odd_data(test):
    """Equal samples are not split, long texts become many samples, a single sample is accepted, names hold any UTF-8."""
    folder, data = write_folder(test)
    sample = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "red sea"}]}
    test.write("same.jsonl", (json.dumps(sample) + "\n") * 300)
    config, text = begin(test, folder, test.path("same.jsonl"), "--memory", "1GiB", name="same.toml")
    test.that("validation" not in tomllib.loads(text)["data"], "nothing is held out of equal samples")
    test.succeeds("train", config, "--updates", 1, "--run", "same", "--json")
    test.write("one.jsonl", json.dumps(sample))
    config, text = begin(test, folder, test.path("one.jsonl"), "--memory", "1GiB", name="one.toml")
    test.that("# Data: 1 sample (messages) of " in text and "about 1 update\n" in text, "one is one: " + text)
    test.succeeds("train", config, "--run", "one", "--json")
    test.write("long.jsonl", (json.dumps({"text": "red sea " * 2000}) + "\n") * 3)
    config, text = begin(test, folder, test.path("long.jsonl"), "--memory", "1GiB", name="long.toml")
    said, epochs = int(re.search(r"about (\d+) updates", text).group(1)), tomllib.loads(text)["train"]["epochs"]
    run = test.succeeds("train", config, "--run", "long", "--json")
    test.that(abs(said - run["updates"]) <= epochs, f"updates: {said} said, {run['updates']} made")
    name = "a b$x\"'\n\\.jsonl"
    shutil.copy(data, test.path(name))
    config, text = begin(test, folder, test.path(name), "--memory", "1GiB", name="named.toml")
    test.equal("the name", tomllib.loads(text)["data"]["train"], str(test.path(name)))
    test.succeeds("plan", config, "--json")
    broken = os.fsencode(test.folder) + b"/broken\xff.jsonl"
    with open(broken, "wb") as file:
        file.write(data.read_bytes())
    result = subprocess.run([test.binary, "init", folder, broken, "--memory", "1GiB", "--json"], capture_output=True, check=False)
    test.equal("a name that TOML cannot hold", (result.returncode, json.loads(result.stdout)["code"]), (2, "E-USAGE"))


def refused(test):
    folder, data = write_folder(test)
    test.fails(2, "E-USAGE", "init", folder)
    test.fails(2, "E-USAGE", "init", "gpt2", "--memory", "2GiB")
    test.fails(2, "E-CONFIG-PRESET", "init", "gpt3")
    test.fails(5, "E-DATA-MISSING", "init", folder, test.path("none.jsonl"))
    test.fails(2, "E-CONFIG-SIZE", "init", folder, data, "--memory", "much")
    test.fails(5, "E-DATA-FORMAT", "init", folder, data, test.write("more.txt", "words"))
    only = test.write("only.jsonl", json.dumps({"messages": [{"role": "user", "content": "only"}]}) + "\n")
    test.fails(5, "E-CHAT-UNTRAINED", "init", folder, only)
    test.fails(5, "E-IO-MISSING", "init", test.path("tokenizer"), data)
    test.fails(5, "E-DATA-MISSING", "init", folder, test.path("none.txt"))
    test.fails(5, "E-DATA-EMPTY", "init", folder, test.write("empty.jsonl", "\n"))
    error = test.fails(5, "E-IO-MISSING", "init", "gpt2", data)
    test.equal("a preset is no model", error["try"], ["plimsoll init gpt2  # a preset, without data"])
    config, _ = begin(test, folder, data, "--memory", "1GiB", name="tune.toml")
    test.succeeds("train", config, *sets(adapter__kind="lora"), "--updates", 1, "--run", "adapter", "--json")
    error = test.fails(5, "E-ADAPTER-FOLDER", "init", test.path("adapter"), data)
    test.equal("what helps", error["try"], [f"plimsoll init BASE {data}  # BASE: the model of the adapter"])


def main():
    test = Test("init")
    test.run_parts(trains, what_fits, with_a_disk, padded, texts, said_of_data, holds_out, measured, odd_data, refused)
    test.finish()


if __name__ == "__main__":
    main()
