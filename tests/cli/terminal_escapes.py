#!/usr/bin/env python3
"""Text of files, names and models brings no control characters to a terminal: python3 terminal_escapes.py path/to/plimsoll

Escape sequences, C1 controls, marks that change the direction of text and bytes that are not UTF-8 are shown as numbers, for
every source of text. With --json the values are exact, and the JSON text holds no such character either.
"""

import json
import os
import struct
import subprocess

from _plimsoll import Test, byte_letters, shown_on, terminal_pair

EVIL = "\x1b]0;owned\x07\x1b[31m\x7f\u009b2J\u202eback\u2066"
MARKS = ("\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069")


def harmless(raw):
    """Valid UTF-8 without controls except line breaks and tabs."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return not any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c in MARKS for c in text)


def check(test, what, *arguments, code=None, shows="\\x1b"):
    result = test.run(*arguments)
    test.that(harmless(result.out) and harmless(result.err), f"{what}: {result.out[-200:]!r} {result.err[-300:]!r}")
    test.that(shows in "".join(result.text()), f"{what} is shown: {result.text()}")
    if code is not None:
        test.equal(f"exit code of {what}", result.code, code)
    return result


CHAT = """\
model = {layers = 1, width = 16, heads = 2, context = 64, vocab = 260}
data = {train = "good.jsonl", format = "chat", vocabulary = "words", template = "good.jinja"}
train = {effective_batch = 1, updates = 1}
"""


def samples(test):
    words = {token: i for i, token in enumerate(["<|endoftext|>", *byte_letters()])}
    test.write("words/vocab.json", json.dumps(words))
    test.write("words/merges.txt", "#version: 0.2\n")
    test.write("chat.toml", CHAT)
    test.write("good.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}")

    def turns(content, role="user"):
        return [{"role": role, "content": content}, {"role": "assistant", "content": "yes" + content}]

    test.write("good.jsonl", json.dumps({"messages": turns("a\n\tb" + EVIL)}) + "\n")
    show = ("data", "show", "chat.toml")
    result = check(test, "a sample", *show, code=0)
    test.that("a\n\tb" in result.text()[0], "line breaks and tabs of a sample stay")
    shown = test.succeeds(*show, "--json")
    test.that(shown and EVIL in shown["samples"][0]["text"], "JSON has the exact text")
    test.that(harmless(test.run(*show, "--json").out), "the text of the JSON is harmless")
    for what, line in (
        ("a key of a sample", {EVIL: 1}),
        ("a role", {"messages": turns("a", EVIL)}),
    ):
        test.write("bad.jsonl", json.dumps(line) + "\n")
        check(test, what, *show, "--set", "data.train=bad.jsonl", code=5)
    test.write("bad.jinja", "{{ raise_exception('first\\n' ~ " + json.dumps(EVIL) + ") }}")
    result = check(test, "what a template raises", *show, "--set", "data.template=bad.jinja", code=5)
    test.that("first\\n" in result.text()[1], f"a message is one line: {result.text()[1]}")
    name = EVIL.replace("/", "") + ".jsonl"
    test.write(name, json.dumps({"messages": turns("a")}) + "\n")
    check(test, "the name of a file", *show, "--set", f"data.train={name}", code=0)
    test.write("words/merges.txt", "#version: 0.2\n" + EVIL + " x y\n")
    check(test, "a merge", *show, code=5, shows="line 2")
    broken = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [EVIL + " b"]}, "pre_tokenizer": {"type": EVIL}}
    test.write("strange/tokenizer.json", json.dumps(broken))
    check(test, "tokenizer.json", "tokenize", "--tokenizer", "strange", "a", code=5)


def gguf(keys):
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys))
    for key, value in keys.items():
        number = struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<I", 8) + text(value)
        head += text(key) + number
    head += text("token_embd.weight") + struct.pack("<IQQIQ", 2, 8, 26, 0, 0)
    return head + bytes(-len(head) % 32) + bytes(26 * 8 * 4)


def ggufs(test):
    test.write("gguf.toml", 'model = {init = "m.gguf"}\ndata = {train = "train.txt"}\ntrain = {updates = 1}\n')
    keys = {"general.architecture": "llama"} | {
        f"llama.{key}": value
        for key, value in (
            ("block_count", 1), ("context_length", 64), ("embedding_length", 8), ("feed_forward_length", 32),
            ("attention.head_count", 2), ("attention.head_count_kv", 2),
        )
    }  # fmt: skip
    for what, more in (
        ("an architecture", {"general.architecture": EVIL}),
        ("a type of scaling", {"llama.rope.scaling.type": EVIL}),
        ("a key", {"llama." + EVIL: 1}),
        ("a way to cut text", {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": EVIL}),
        ("a kind of tokenizer", {"tokenizer.ggml.model": EVIL}),
    ):
        test.write("m.gguf", gguf({**keys, **more}))
        command = ("tokenize", "--tokenizer", "m.gguf", "a") if "tokenizer.ggml.model" in more else ("plan", "gguf.toml")
        check(test, what, *command, code=5)


def names(test):
    test.write("key.toml", '"\\u001b[31mkey" = 1\n')
    check(test, "a key of a configuration", "plan", "key.toml", code=2)
    check(test, "a value of --set", "plan", "config.toml", "--set", f"optimizer.name={EVIL}", code=2, shows="\\u202e")
    check(test, "an argument", "plan", "config.toml", EVIL, code=2)
    check(test, "a command", EVIL, code=2)
    check(test, "a code to explain", "explain", EVIL)
    test.write("layout.csv", f"id,lower,upper,size\n{EVIL},0,1,5\n")
    check(test, "the id of a buffer", "layout", "layout.csv", "--minimize", code=0)
    check(test, "a file", "layout", EVIL, "--minimize", code=5)
    raw = subprocess.run([test.binary, "layout", b"\x9b31m\xff.csv", "--minimize"], cwd=test.folder, capture_output=True)
    test.that(harmless(raw.stderr) and b"\\x9b31m\\xff.csv" in raw.stderr, f"a name that is not UTF-8: {raw.stderr}")
    odd = test.path("odd" + EVIL.replace("/", ""))
    check(test, "the folder of a run", "train", "config.toml", "--run", odd, "--updates", "1", code=0)
    check(test, "a run that is there", "train", "config.toml", "--run", odd, code=2)
    result = test.run("layout", EVIL, "--minimize", "--json")
    test.that(harmless(result.out) and result.json()["where"] == EVIL, f"an error in JSON: {result.out}")
    result = test.run("init", "gpt2")
    test.that(harmless(result.out), "a configuration")


def generated(test):
    """A model that has learned to write escape sequences."""
    line = "\x1b[31m\u009b\u202e\n".encode() + b"\xff"
    test.write("evil.txt", line * 400)
    sets = ("data.train=evil.txt", "data.validation=evil.txt", "train.updates=150", "optimizer.learning_rate=1e-2",
            "model.dropout=0")  # fmt: skip
    words = [word for each in sets for word in ("--set", each)]
    test.succeeds("train", "config.toml", "--run", "evil", *words)
    generate = ("generate", "--weights", "evil/weights", "--temperature", "0", "--tokens", "24", "--memory", "64MiB")
    exact = test.succeeds(*generate, "--prompt", "\x1b[31m", "--json")
    test.that(exact and "\x1b[31m" in exact["samples"][0]["text"], f"it was learned: {exact and exact['samples']}")
    for more in ((), ("--prompt", "\x1b[3")):
        written = test.run(*generate, "--prompt", "\x1b[31m", *more).out
        test.that(written.startswith(b"\x1b[31m"), f"a file gets the exact text: {written!r}")
    test.that(harmless(test.run(*generate, "--prompt", "\x1b[31m", "--json").out), "the JSON of a text")
    pair = terminal_pair()
    if pair is None:
        return
    master, slave = pair
    process = subprocess.Popen([test.binary, *generate, "--prompt", "\x1b[31m"], cwd=test.folder, stdout=slave,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(slave)
    seen = b"".join(shown_on(master))
    os.close(master)
    process.wait(timeout=60)
    test.that(harmless(seen.replace(b"\r\n", b"\n")) and b"\\x1b[31m" in seen, f"on a terminal: {seen!r}")


def decoded(test):
    letters = byte_letters()
    tokens = {token: i for i, token in enumerate(letters)}
    test.write("bytes/vocab.json", json.dumps(tokens))
    test.write("bytes/merges.txt", "#version: 0.2\n")
    ids = " ".join(str(tokens[letters[byte]]) for byte in EVIL.encode() + "é\n\tb".encode() + b"\xff")
    written = test.run("tokenize", "--tokenizer", "bytes", "--decode", ids).out
    test.that(EVIL.encode() + "é\n\tb".encode() in written, f"a file gets the exact text: {written!r}")


def main():
    test = Test("terminal_escapes")
    test.run_parts(samples, ggufs, names, generated, decoded)
    test.finish()


if __name__ == "__main__":
    main()
