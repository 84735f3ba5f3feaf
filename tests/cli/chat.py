#!/usr/bin/env python3
"""Training on conversations, looked at from outside: python3 chat.py path/to/plimsoll

A file of JSON samples goes in. What an update sees does not depend on micro-batches, batch.tokens or packing; epochs end with
what is left of the data; budgets have equal bits, every byte as planned. What cannot be trained on is refused by name.
"""

import json
import pathlib
import random
import shutil

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
    ways = {
        "alone": sets(train__micro_batch=1),
        "pairs": sets(train__micro_batch=2),
        "tokens": sets(batch__tokens=3 * CONTEXT),
        "packed": sets(batch__packing="true"),
        "packed-tokens": sets(batch__packing="true", batch__tokens=2 * CONTEXT),
    }
    for name, more in ways.items():
        run = test.succeeds("train", config, *more, "--memory", "2GiB", "--run", name, "--json")
        lines = test.lines(name)
        seen = [(line["samples"], line["trained_units"], line["loss"]) for line in lines]
        test.that(all(line["micro_steps"] >= 1 and line["padding"] >= 0 for line in lines), f"{name}: micro-steps are counted")
        reference = reference or (seen, run)
        for got, want in zip(seen, reference[0]):
            test.equal(f"samples and units of {name}", got[:2], want[:2])
            test.near(f"the loss of {name}", got[2], want[2], 1e-6)
    packed = sum(line["padding"] for line in test.lines("packed"))
    alone = sum(line["padding"] for line in test.lines("alone"))
    test.that(packed < alone, f"packing leaves less padding: {packed} of {alone}")


def budgets(test):
    config = prepare(test)
    for name, packing in (("rows", "false"), ("packs", "true")):
        fixed = sets(batch__packing=packing, train__micro_batch=2)
        test.succeeds("train", config, *fixed, "--updates", 1, "--memory", "2GiB", "--run", f"first-{name}", "--json")
        plan = test.succeeds("plan", config, *fixed, "--memory", "2GiB", "--json")
        floor, ceiling = plan["bounds"]["floor_bytes"], plan["predicted"]["process_bytes"]
        bits = set()
        for i in range(5):
            budget = floor + (ceiling - floor) * i // 4
            more = ("--updates", 2, "--memory", budget, "--run", f"{name}-{i}", "--audit", "--json")
            run = test.succeeds("train", config, *fixed, *more)
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
    text = test.run("data", "show", config, "--samples", 1)
    test.equal("exit code", text.code, 0)
    test.that("<|im_end|>⟧" in text.text()[0], "the end of a turn is trained on: " + text.text()[0])


def refused(test):
    config = prepare(test)
    test.fails(2, "E-CONFIG-CONFLICT", "plan", config, *sets(train__effective_tokens=512))
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


def main():
    test = Test("chat")
    test.run_parts(updates_are_equal, budgets, epochs, shown, refused)
    test.finish()


if __name__ == "__main__":
    main()
