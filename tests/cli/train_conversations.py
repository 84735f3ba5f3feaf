#!/usr/bin/env python3
"""Training on conversations, through the commands: python3 train_conversations.py path/to/plimsoll

The input is a file of JSON samples. The samples of an update do not depend on micro-batches, batch.tokens or packing. The last
update of an epoch has the rest of the data. All budgets have equal bits, every byte as planned. Unusable data are refused by
name.
"""

import json
import math
import os
import pathlib
import random
import shutil
import struct
import time

from _plimsoll import Test

CHAT = pathlib.Path(__file__).resolve().parent.parent / "chat"
WORDS = "the a red green sea ship line cargo water deck hull load mark north south wind sail port star".split()
CONTEXT = 160
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def conversations(count, seed):
    rng = random.Random(seed)
    words = lambda most: " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))
    for _ in range(count):
        turns = []
        for _ in range(rng.randint(1, 2)):
            turns += [{"role": "user", "content": words(6)}, {"role": "assistant", "content": words(6)}]
        yield {"messages": turns}


def prepare(test):
    """A tokenizer with a template, data, and a configuration of a small model."""
    folder = test.path("tokenizer")
    folder.mkdir(exist_ok=True)
    shutil.copy(CHAT / "tokenizer.json", folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|im_end|>"}))
    vocab = 1 + max(
        max(json.loads((CHAT / "tokenizer.json").read_text())["model"]["vocab"].values()),
        max(each["id"] for each in json.loads((CHAT / "tokenizer.json").read_text())["added_tokens"]),
    )
    test.write("chats.jsonl", "".join(json.dumps(each) + "\n" for each in conversations(60, 1)))
    return test.write(
        "chat.toml",
        f"""seed = 3
[model]
kind = "llama"
layers = 2
width = 64
heads = 4
kv_heads = 2
mlp_width = 128
context = {CONTEXT}
vocab = {vocab}
[data]
train = "chats.jsonl"
format = "chat"
vocabulary = "tokenizer"
validation = "20%"
too_long = "cut_end"
[train]
effective_batch = 6
updates = 4
[optimizer]
learning_rate = 1e-3
[machine]
threads = 2
""",
    )


def sets(**keys):
    return [part for key, value in keys.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]


def updates_are_equal(test):
    config = prepare(test)
    reference = None
    schedule = sets(schedule__name="cosine", schedule__warmup="12samples")
    ways = {
        "alone": sets(train__micro_batch=1),
        "pairs": sets(train__micro_batch=2),
        "tokens": sets(batch__tokens=3 * CONTEXT),
        "packed": sets(batch__packing="true"),
        "packed-tokens": sets(batch__packing="true", batch__tokens=2 * CONTEXT),
    }
    for name, more in ways.items():
        run = test.succeeds("train", config, *schedule, *more, "--memory", "2GiB", "--run", name, "--json")
        lines = test.lines(name)
        seen = [(line["samples"], line["trained_units"], line["learning_rate"], line["loss"]) for line in lines]
        test.equal(f"updates of {name}", len(seen), 4)
        test.that(all(line["micro_steps"] >= 1 and line["padding"] >= 0 for line in lines), f"{name}: micro-steps are counted")
        reference = reference or (seen, run)
        for got, want in zip(seen, reference[0]):
            test.equal(f"samples, units and rate of {name}", got[:3], want[:3])
            test.near(f"the loss of {name}", got[3], want[3], 1e-6)
    test.that(len({rate for _, _, rate, _ in reference[0]}) > 2, "the rate changes from update to update")
    packed = sum(line["padding"] for line in test.lines("packed"))
    alone = sum(line["padding"] for line in test.lines("alone"))
    test.that(packed < alone, f"packing leaves less padding: {packed} of {alone}")


def budgets(test):
    """Ten budgets with an adapter, four without, with one sample per row and packed."""
    config = prepare(test)
    adapter = sets(adapter__kind="lora", adapter__rank=4, adapter__dropout=0.1, quantize__base="bf16")
    for name, packing, more, count in (
        ("adapted-rows", "false", adapter, 10),
        ("adapted-packs", "true", adapter, 10),
        ("rows", "false", [], 4),
        ("packs", "true", [], 4),
    ):
        fixed = [*sets(batch__packing=packing, train__micro_batch=2), *more]
        test.succeeds("train", config, *fixed, "--updates", 1, "--memory", "2GiB", "--run", f"first-{name}", "--json")
        plan = test.succeeds("plan", config, *fixed, "--memory", "2GiB", "--json")
        floor, ceiling = plan["bounds"]["floor_bytes"], plan["predicted"]["process_bytes"]
        bits = set()
        for i in range(count):
            budget = floor + (ceiling - floor) * i // (count - 1)
            run = test.succeeds("train", config, *fixed, "--updates", 2, "--memory", budget, "--run", f"{name}-{i}", "--audit",
                                "--json")  # fmt: skip
            for key in ("arena_bytes", "live_bytes"):
                test.equal(f"{key} of {name} in {budget}", run["measured"][key], run["predicted"][key])
            bits.add((run["final"]["loss_bits"], run["final"]["parameters_xxh128"]))
        test.equal(f"different ends of {name}", len(bits), 1)


def epochs(test):
    config = prepare(test)
    more = sets(train__epochs=2, batch__packing="true")
    run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", "epochs", "--json")
    plan = test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")
    samples = plan["epoch"]["samples"]
    test.equal("samples of two epochs", run["samples"], 2 * samples)
    test.equal("updates of two epochs", run["updates"], -(-2 * samples // 6))
    test.equal("what an epoch trains on", sum(line["trained_units"] for line in test.lines("epochs")),
               2 * plan["epoch"]["trained_units"])  # fmt: skip
    test.that(0.5 < plan["epoch"]["fill"] <= 1, f"packed rows are full: {plan['epoch']['fill']}")
    # The rest of an interrupted run has the same bits.
    test.succeeds("train", config, *more, "--memory", "2GiB", "--run", "part", "--updates", 3, "--json")
    rest = test.succeeds("train", config, "--memory", "2GiB", "--run", "part", "--resume", "--json")
    test.equal("bits behind a pause", rest["final"], run["final"])
    # Windows of tokens.
    tokens = sets(train__effective_batch="auto", train__effective_tokens=4 * CONTEXT, train__updates=4)
    losses = []
    for name, packing in (("tokens-rows", "false"), ("tokens-packs", "true")):
        test.succeeds("train", config, *tokens, *sets(batch__packing=packing), "--memory", "2GiB", "--run", name, "--json")
        losses.append([(line["samples"], line["trained_units"], line["loss"]) for line in test.lines(name)])
    for a, b in zip(*losses):
        test.equal("samples and units of windows of tokens", a[:2], b[:2])
        test.near("their losses", a[2], b[2], 1e-6)


def shown(test):
    config = prepare(test)
    listed = test.succeeds("data", "show", config, "--samples", 2, "--json")
    test.equal("samples that are shown", len(listed["samples"]), 2)
    for sample in listed["samples"]:
        test.that(sample["text"].startswith("<|im_start|>user\n"), "the template is applied")
        test.that(0 < sum(sample["trained"]) < len(sample["ids"]), "a part is trained on")
        test.equal("flags", len(sample["trained"]), len(sample["ids"]))
    twice = test.succeeds("data", "show", config, "--samples", 2, "--samples", 1, "--set", "seed=3", "--set", "seed=4", "--json")
    test.equal("samples of the last option", len(twice["samples"]), 1)
    text = test.run("data", "show", config, "--samples", 1)
    test.equal("exit code", text.code, 0)
    test.that("<|im_end|>⟧" in text.text()[0], "the end of a turn is trained on: " + text.text()[0])


def refused(test):
    config = prepare(test)
    test.fails(2, "E-CONFIG-CONFLICT", "plan", config, *sets(train__effective_tokens=512))
    # Without a format: from the keys for samples, else from the file.
    auto = sets(data__format="auto")
    alone = sets(data__validation="", data__too_long="auto")
    for more in ([], sets(data__validation=""), [*alone, *sets(batch__packing="true")]):
        error = test.fails(2, "E-CONFIG-CONFLICT", "train", config, *auto, *more, "--run", "none")
        test.equal("what helps", error["try"], ["--set data.format=chat"])
    error = test.fails(5, "E-DATA-FORMAT", "train", config, *auto, *alone, "--run", "none")
    test.that('data.format = "chat"' in error["expected"], f"the format is named: {error}")
    test.that(error["try"][0].startswith("--set data.format=chat"), "and what to say")
    test.fails(2, "E-CONFIG-RANGE", "plan", config, *sets(batch__tokens=CONTEXT - 1))
    test.fails(2, "E-CONFIG-RANGE", "plan", config, *sets(train__effective_batch="auto", train__effective_tokens=CONTEXT - 1))
    test.fails(2, "E-CONFIG-CONFLICT", "plan", config, *sets(data__format="bytes", batch__packing="true"))
    for name, code, content in (
        ("prompts", "E-CHAT-UNTRAINED", json.dumps({"messages": [{"role": "user", "content": "only"}]})),
        ("pairs", "E-CHAT-FEATURE", json.dumps({"prompt": "a", "chosen": "b", "rejected": "c"})),
        ("broken", "E-DATA-JSON", '{"messages": ['),
    ):
        data = test.write(f"{name}.jsonl", content + "\n")
        test.fails(5, code, "train", config, *sets(data__train=data, data__validation=""), "--run", "none")


def write_ids(path, ids):
    header = json.dumps({"input_ids": {"dtype": "I64", "shape": [1, len(ids)], "data_offsets": [0, 8 * len(ids)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(ids)}q", *ids))


def losses_of(test, weights, ids):
    """Minus the logarithm of each token's probability, except the first token: from the logits of `forward`, in Python."""
    write_ids(test.path("ids.safetensors"), ids[:-1])
    files = ["--inputs", "ids.safetensors", "--out", "logits.safetensors"]
    test.succeeds("forward", "--weights", weights, *files, "--memory", "2GiB", "--json")
    content = test.path("logits.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])["logits"]
    vocab, start = header["shape"][2], 8 + size + header["data_offsets"][0]
    losses = []
    for i, target in enumerate(ids[1:]):
        row = struct.unpack_from(f"<{vocab}f", content, start + 4 * vocab * i)
        top = max(row)
        losses.append(top + math.log(sum(math.exp(x - top) for x in row)) - row[target])
    return losses


def controls(test):
    """The loss is the mean over the trained tokens of the window. Common wrong means are far from it."""
    config = prepare(test)
    ours = sets(data__order="sequential", data__validation="", optimizer__learning_rate="0.0", train__micro_batch=2)
    test.succeeds("train", config, *ours, "--updates", 1, "--memory", "2GiB", "--run", "still", "--json")
    line = test.lines("still")[0]
    window = test.succeeds("data", "show", config, "--samples", 6, "--json")["samples"]
    sums, counts, every = [], [], []
    for sample in window:
        ids, trained = sample["ids"][: CONTEXT + 1], sample["trained"][1 : CONTEXT + 1]
        losses = losses_of(test, "still/weights", ids)
        sums.append(sum(loss for loss, counted in zip(losses, trained) if counted))
        counts.append(sum(trained))
        every.append((sum(losses), len(losses)))
    test.equal("units of the window", line["trained_units"], sum(counts))
    test.near("the loss of the window", line["loss"], sum(sums) / sum(counts), 1e-5)
    pairs = [sum(sums[i : i + 2]) / sum(counts[i : i + 2]) for i in (0, 2, 4)]
    samples = [s / c for s, c in zip(sums, counts)]
    wrong = {
        "a mean of the means of micro-batches": sum(pairs) / 3,
        "a mean of the means of samples": sum(samples) / 6,
        "loss on prompts": sum(s for s, _ in every) / sum(c for _, c in every),
    }
    for name, loss in wrong.items():
        test.that(abs(line["loss"] / loss - 1) > 1e-4, f"{name} is another number: {loss} {line['loss']}")
    every_token = sets(data__loss="all")
    asked = test.succeeds("train", config, *ours, *every_token, "--updates", 1, "--memory", "2GiB", "--run", "all", "--json")
    test.near("loss on prompts where it is asked for", asked["final"]["loss"], wrong["loss on prompts"], 1e-5)


def spoken(question, answer):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": turns}) + "\n"


def longest(test):
    """The longest sample comes first, or in the last step: no run needs more than planned."""
    config = prepare(test)
    short = [spoken(f"red {word}", f"green {word}") for word in WORDS[:11]]
    long = spoken("sea", "ship line cargo " * 60)
    ways = {"rows": sets(train__micro_batch=2), "packs": sets(batch__packing="true"), "tokens": sets(batch__tokens=2 * CONTEXT)}
    more = sets(data__order="sequential", data__validation="", train__epochs=1, train__effective_batch=4)
    for place, content in (("first", [long, *short]), ("last", [*short, long])):
        data = test.write(f"{place}.jsonl", "".join(content))
        for name, way in ways.items():
            command = ["train", config, *more, *way, *sets(data__train=data)]
            floor = test.succeeds("plan", *command[1:], "--memory", "2GiB", "--json")["bounds"]["floor_bytes"]
            for budget in (floor, "2GiB"):
                run = test.succeeds(*command, "--memory", budget, "--run", f"{name}-{place}-{budget}", "--audit", "--json")
                test.equal(f"updates of {name}, {place}", run["updates"], 3)
                for key in ("arena_bytes", "live_bytes"):
                    what = f"{key} of {name} in {budget}, the longest {place}"
                    test.equal(what, run["measured"][key], run["predicted"][key])
            run = test.succeeds(*command, "--memory", floor, "--run", f"{name}-{place}", "--json")
            test.that(run["measured"]["process_hwm_bytes"] <= floor, f"{name}, the longest {place}: within {floor}")


def counts(test):
    """The counts of a plan equal those of training: updates, samples, tokens and trained tokens, for all ends of windows."""
    config = prepare(test)
    rows = lambda **more: sets(data__validation="", **more)
    tokens = dict(train__effective_batch="auto", train__effective_tokens=3 * CONTEXT)
    ways = {
        "whole": rows(train__epochs=1, train__effective_batch=6),  # 60 samples, 10 updates
        "short": rows(train__epochs=3, train__effective_batch=7),  # 180 samples, 26 updates
        "part": rows(train__epochs=0.5, train__effective_batch=8),
        "packed": rows(train__epochs=3, train__effective_batch=7, batch__packing="true"),
        "updates": rows(train__updates=11, train__effective_batch=7),  # into the second epoch
        "tokens": rows(train__epochs=2, **tokens),
        "packed-tokens": rows(train__updates=9, batch__packing="true", **tokens),
        "held-out": sets(data__validation="20%", train__epochs=3, train__effective_batch=4),
    }
    for name, more in ways.items():
        run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", f"counts-{name}", "--json")
        plan = test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")
        said, epoch, lines = plan["run"], plan.get("epoch"), test.lines(f"counts-{name}")
        made = {"updates": run["updates"], "samples": run["samples"], "trained_units": run["units"],
                "tokens": sum(line["tokens"] for line in lines)}  # fmt: skip
        test.equal(f"counts of {name}", {key: said[key] for key in made}, made)
        test.near(f"epochs of {name}", said["epochs"], run["samples"] / epoch["samples"], 1e-12)
        total = said["seconds"] + said["evaluation_seconds"] + said["save_seconds"]
        test.near(f"all seconds of {name}", said["total_seconds"], total, 1e-9)
        text = test.succeeds("plan", config, *more, "--memory", "2GiB")
        for word in (f"{made['updates']:,} updates, {made['samples']:,} samples", f"({made['trained_units']:,} trained on)",
                     "trained tok/s, ", " of all tokens"):  # fmt: skip
            test.that(word in text, f"{name} says '{word}': {text}")
        if "epochs=1" in " ".join(more):
            test.equal(f"updates of the epoch of {name}", epoch["updates"], run["updates"])
    # Training reports trained tokens, and all tokens in addition.
    told = test.run("train", config, *ways["short"], "--memory", "2GiB", "--run", "counts-told").text()[1]
    test.that("trained tok/s, " in told and " of all tokens" in told, f"training says which tokens: {told}")


def evaluations(test):
    """Evaluation packs rows as training does, and a plan includes its time; `eval` gives the same loss."""
    config = prepare(test)
    seconds = {}
    for packing in ("false", "true"):
        more = sets(batch__packing=packing, train__evaluate_every=2, train__micro_batch=1, data__validation="40%")
        more += sets(train__show_samples=0)  # answers take as long in both ways
        name = f"evaluated-{packing}"
        run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", name, "--json")
        plan = test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")["run"]
        test.equal("evaluations: behind updates 2 and 4", plan["evaluations"], 2)
        seconds[packing] = plan["evaluation_seconds"]
        lines = [json.loads(line) for line in (test.path(name) / "eval.jsonl").read_text().splitlines()]
        test.equal("evaluations that were made", len(lines), plan["evaluations"])
        for say in ("false", "true"):
            how = sets(batch__packing=say, data__validation="40%")
            evaluated = test.succeeds("eval", config, *how, "--weights", test.path(name), "--memory", "2GiB", "--json")
            test.equal(f"units, {packing} and {say}", evaluated["units"], lines[-1]["units"])
            test.near(f"the loss, {packing} and {say}", evaluated["loss"], lines[-1]["loss"], 1e-6)
        test.near("the loss of the run", run["final"]["validation_loss"], lines[-1]["loss"], 1e-12)
    test.that(seconds["true"] < 0.6 * seconds["false"], f"packed rows are fewer: {seconds}")


def rises(test):
    """A rising validation loss is reported once, with the best update; a resumed run does not report it again."""
    config = prepare(test)
    data = test.write("learned.jsonl", spoken("red sea", "green ship") * 6)
    other = test.write("other.jsonl", "".join(spoken("red sea", f"{word} cargo water deck") for word in WORDS))
    more = sets(data__train=data, data__validation=other, train__evaluate_every=2, train__updates=24,
                optimizer__learning_rate=3e-3, schedule__name="constant", train__save_every=2)  # fmt: skip
    result = test.run("train", config, *more, "--memory", "2GiB", "--run", "rises")
    lines = [json.loads(line) for line in (test.path("rises") / "eval.jsonl").read_text().splitlines()]
    events = lambda: [json.loads(line) for line in (test.path("rises") / "events.jsonl").read_text().splitlines()]
    told = [event for event in events() if event["event"] == "VALIDATION_RISES"]
    losses = [line["loss"] for line in lines]
    rising = [i for i in range(3, len(losses)) if losses[i - 3] < losses[i - 2] < losses[i - 1] < losses[i]]
    first = [i for i in rising if i - 1 not in rising]
    test.that(first, f"the loss rises: {losses}")
    test.equal("told at", [event["update"] for event in told], [lines[i]["update"] for i in first])
    for event, i in zip(told, first):
        best = min(lines[: i + 1], key=lambda line: line["loss"])
        test.equal("the best", (event["best_update"], event["best_loss"]), (best["update"], best["loss"]))
        test.equal("the loss", event["loss"], losses[i])
    text = result.text()[1]
    test.equal("lines", text.count("VALIDATION_RISES"), len(told))
    test.that(f"at update {told[0]['best_update']}" in text, f"the best is said: {text}")
    again = test.run("train", "--run", "rises", "--resume", "--updates", 25)
    test.equal("exit code of the rest", again.code, 0)
    test.equal("told once", [event for event in events() if event["event"] == "VALIDATION_RISES"][: len(told)], told)


def validation(test):
    """Validation with long samples and training with short ones, after each update, in the smallest budget."""
    config = prepare(test)
    train = test.write("short.jsonl", "".join(spoken(f"red {word}", f"green {word}") for word in WORDS))
    held = test.write("long.jsonl", "".join(spoken("sea " * 20, f"{word} ship line " * 40) for word in WORDS))
    for name, packing in (("rows", "false"), ("packs", "true")):
        more = sets(data__train=train, data__validation=held, batch__packing=packing, train__evaluate_every=1)
        floor = test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")["bounds"]["floor_bytes"]
        audited = test.succeeds("train", config, *more, "--memory", floor, "--run", f"held-{name}-audit", "--audit", "--json")
        planned = json.loads((test.path(f"held-{name}-audit") / "plan.json").read_text())["predicted"]["phases"]
        planned = {phase["name"]: (phase["arena_bytes"], phase["live_bytes"]) for phase in planned}
        for phase in audited["measured"]["phases"]:  # windows of a single row have no steady phase
            test.equal(f"{phase['name']} of {name}", (phase["arena_bytes"], phase["live_bytes"]), planned[phase["name"]])
        test.that("evaluate" in {phase["name"] for phase in audited["measured"]["phases"]}, "validation is measured")
        run = test.succeeds("train", config, *more, "--memory", floor, "--run", f"held-{name}", "--json")
        test.that(run["measured"]["process_hwm_bytes"] <= floor, f"{name}: within {floor}")
        test.equal("evaluations", len((test.path(f"held-{name}") / "eval.jsonl").read_text().splitlines()), 4)


def zero_tokens(test):
    """Samples without trained tokens are counted and left out. A run without other samples is refused, for any cause."""
    config = prepare(test)
    far = {"prompt": "red sea " * 200, "completion": " ship"}
    hidden = {"cut away": json.dumps(far), "empty": json.dumps({"prompt": "red", "completion": ""})}
    no_weight = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]
    hidden["without weight"] = json.dumps({"messages": no_weight})
    alone = sets(data__validation="", data__too_long="cut_end")
    good = spoken("red", "green") * 3
    for i, (name, content) in enumerate(hidden.items()):
        data = test.write(f"hidden-{i}.jsonl", content + "\n")
        if name != "empty":
            test.fails(5, "E-CHAT-UNTRAINED", "train", config, *alone, *sets(data__train=data), "--run", "none")
        data = test.write(f"mixed-{i}.jsonl", good + content + "\n")
        more = [*alone, *sets(data__train=data, train__effective_batch=2, train__epochs=1)]
        run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", f"mixed-{i}", "--json")
        plan = test.succeeds("plan", config, *more, "--memory", "2GiB", "--json")["epoch"]
        kept = 4 if name == "empty" else 3  # an empty completion has its end token
        test.equal(f"samples, one {name}", (plan["samples"], plan["data"]["untrained"], run["samples"]), (kept, 4 - kept, kept))
    test.fails(5, "E-DATA-EMPTY", "train", config, *alone, *sets(data__train=test.write("no.jsonl", "\n")), "--run", "none")
    # A template that does not show what the assistant says.
    silent = test.write("silent.jinja", "{% for m in messages if m.role == 'user' %}{{ m.content }}\n{% endfor %}")
    data = test.write("good.jsonl", good)
    test.fails(5, "E-CHAT-UNTRAINED", "train", config, *alone, *sets(data__train=data, data__template=silent), "--run", "none")


def ends(test):
    """Every answer trains its end token, even if padding has the same token; a note reports answers without a trained end."""
    config = prepare(test)
    show = ["data", "show", config, "--samples", 20, "--json"]
    plain = test.succeeds(*show)["samples"]
    settings = test.path("tokenizer") / "tokenizer_config.json"
    content = json.loads(settings.read_text())
    ids = {each["content"]: each["id"] for each in json.loads((CHAT / "tokenizer.json").read_text())["added_tokens"]}
    settings.write_text(json.dumps(dict(content, pad_token="<|im_end|>", bos_token="<|im_end|>")))
    test.equal("samples where padding is the end token", test.succeeds(*show)["samples"], plain)
    for sample, each in zip(plain, conversations(20, 1)):
        last = [i for i, token in enumerate(sample["ids"]) if token == ids["<|im_end|>"] and sample["trained"][i]]
        test.equal("ends that are trained on", len(last), sum(turn["role"] == "assistant" for turn in each["messages"]))
    more = sets(data__validation="")
    test.succeeds("train", config, *more, "--updates", 1, "--memory", "2GiB", "--run", "padded", "--json")
    plan = ["plan", config, *more, "--memory", "2GiB"]
    whole = test.succeeds(*plan, "--json")["epoch"]["data"]
    test.equal("answers without an end", whole["unended"], 0)
    # Marks that leave the end of a turn out.
    open_ended = TEMPLATE.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
    test.that(open_ended != TEMPLATE, "another template")
    template = sets(data__template=test.write("open.jinja", open_ended))
    test.succeeds("train", config, *more, *template, "--updates", 1, "--memory", "2GiB", "--run", "open", "--json")
    data = test.succeeds(*plan, *template, "--json")["epoch"]["data"]
    test.equal("answers without an end", data["unended"], data["samples"])
    test.that("train no token that ends an answer" in test.succeeds(*plan, *template), "it is told")


def cache(test):
    """Epochs do not enlarge the cache or memory."""
    config = prepare(test)
    test.write("own.jsonl", "".join(json.dumps(each) + "\n" for each in conversations(40, time.time_ns())))
    folder = pathlib.Path(os.environ["XDG_CACHE_HOME"])
    files = lambda: {str(path): path.stat().st_size for path in folder.rglob("samples-*")}
    seen, grown = [files()], []
    for count in (1, 1, 4):
        more = sets(data__train="own.jsonl", data__validation="", train__epochs=count, batch__packing="true")
        name = f"epochs-{len(seen)}"
        run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", name, "--json")
        seen.append(files())
        grown.append(run["measured"]["grown_after_warmup_bytes"])
        test.that(not list((test.path(name)).rglob("samples-*")), "no copy lies in the run")
    test.equal("files of the first epoch", len(seen[1]) - len(seen[0]), 1)
    test.that(seen[1] == seen[2] == seen[3], "more epochs and runs add none")
    for path in set(seen[3]) - set(seen[0]):
        os.unlink(path)  # no later run has these data
    test.that(grown[2] <= grown[0] + (1 << 20), f"memory does not grow with epochs: {grown}")


def main():
    test = Test("train_conversations")
    test.run_parts(updates_are_equal, budgets, epochs, controls, longest, counts, evaluations, rises, validation, zero_tokens,
                   ends, cache, shown, refused)  # fmt: skip
    test.finish()


if __name__ == "__main__":
    main()
