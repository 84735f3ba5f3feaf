"""Tools of the tests of data: tiny models with their vocabularies, caches and conversations."""

import json
import os
import pathlib
import random
import shutil

from _plimsoll import byte_letters

SENTENCE = "the quick cat sat on the mat.\n"
BEGIN, END = "<|bos|>", "<|end|>"
ROOM = ["--memory", "1GiB"]  # to measure the machine, where no cache knows it
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def write_bytes_vocabulary(test, folder, first="<|endoftext|>"):
    test.write(f"{folder}/vocab.json", json.dumps({text: i for i, text in enumerate([first, *byte_letters()])}))
    test.write(f"{folder}/merges.txt", "#version: 0.2\n")


def write_tokenizer(test, folder):
    """Writes a tokenizer with bytes as tokens, a begin token before each text, and a template with the same begin token."""
    letters = byte_letters()
    vocab = {BEGIN: 0, END: 1, **{letters[byte]: 2 + byte for byte in range(256)}}
    added = [
        {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, text in enumerate((BEGIN, END))
    ]
    begin = {"SpecialToken": {"id": BEGIN, "type_id": 0}}
    test.write(
        f"{folder}/tokenizer.json",
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": added,
                "normalizer": None,
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                "post_processor": {
                    "type": "TemplateProcessing",
                    "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {BEGIN: {"id": BEGIN, "ids": [0], "tokens": [BEGIN]}},
                },
                "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                "model": {"type": "BPE", "vocab": vocab, "merges": []},
            }
        ),
    )
    names = {"bos_token": BEGIN, "eos_token": END, "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
    test.write(f"{folder}/tokenizer_config.json", json.dumps(names))


def model(test, name, data, updates=3, **shape):
    keys = {"kind": '"gpt2"', "layers": 1, "width": 16, "heads": 2, "context": 32, "vocab": 260, **shape}
    if "llama" in keys["kind"]:
        keys |= {"kv_heads": 1, "mlp_width": 32}
    lines = ["[model]", *(f"{key} = {value}" for key, value in keys.items())]
    lines += ["[data]", *(f'{key} = "{value}"' for key, value in data.items())]
    lines += ["[train]", "effective_batch = 4", "micro_batch = 2", f"updates = {updates}", "[machine]", "threads = 1"]
    return test.write(name, "\n".join(lines) + "\n")


def text_model(test, data="t.txt"):
    write_bytes_vocabulary(test, "words")
    return model(test, "text.toml", {"train": data, "format": "bpe", "vocabulary": "words"})


def packed_chats(test, updates):
    """A model of conversations of their own lengths; a row of batch.packing holds several."""
    write_tokenizer(test, "chat")
    words, rng, lines = "red green sea ship line cargo".split(), random.Random(1), []
    for _ in range(80):
        turns = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(2)]
        messages = [{"role": role, "content": text} for role, text in zip(("user", "assistant"), turns)]
        lines.append(json.dumps({"messages": messages}) + "\n")
    test.write("chats.jsonl", "".join(lines))
    test.write("held_out.jsonl", "".join(lines[:8]))
    data = {"train": "chats.jsonl", "validation": "held_out.jsonl", "format": "chat", "vocabulary": "chat"}
    return model(test, "chat.toml", data, updates, context=96)


def with_cache(test, name):
    """A separate cache that has the measured machine."""
    cache = test.path(name) / "plimsoll"
    cache.mkdir(parents=True)
    for file in pathlib.Path(os.environ["XDG_CACHE_HOME"], "plimsoll").glob("machine-*"):
        shutil.copy(file, cache)
    return cache, {**os.environ, "XDG_CACHE_HOME": str(test.path(name))}


def train(test, config, run, *more, environment=None, code=0):
    result = test.run("train", config, "--memory", "64MiB", "--run", run, *more, environment=environment)
    if not test.equal(f"exit code of {run}", result.code, code):
        print(result.text()[1][-2000:])
    return result.text()[1]


def conversations(count, answer):
    sample = {"messages": [{"role": "user", "content": "where"}, {"role": "assistant", "content": answer}]}
    return (json.dumps(sample) + "\n") * count


def measured(test):
    """Measures the machine once, for one thread and for two."""
    for threads in (1, 2):
        test.succeeds("plan", "config.toml", "--set", f"machine.threads={threads}", *ROOM, "--json")
