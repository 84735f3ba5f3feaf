#!/usr/bin/env python3
"""tokenizer.json of a folder: the command tokenize, training text in documents, and generation."""

import json
import os
import shutil
import struct

from _plimsoll import Test, byte_letters

BEGIN, END = 257, 258
SHAPE = 'model={layers=1,width=16,heads=2,context=32,vocab=260}\ndata={train="t.bin"}\ntrain={effective_batch=4,updates=2}\n'
FOLDER = 'model={init="init",context=32}\ndata={train="t.txt"}\ntrain={effective_batch=4,updates=2}\n'
MEMORY = ["--memory", "64MiB"]


def tokenizer():
    """Bytes, "ab" as 256, NFC, and begin and end tokens."""
    letters = byte_letters()
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    begin = {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}
    return {
        "version": "1.0",
        "added_tokens": [{"id": BEGIN, "content": "<s>", **special}, {"id": END, "content": "</s>", **special}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<s>": begin},
        },
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "vocab": {**{letters[byte]: byte for byte in range(256)}, "ab": 256},
            "merges": [["a", "b"]],
        },
    }


def command(test):
    """tokenize, both ways."""

    def run(*arguments, folder="init"):
        return test.succeeds("tokenize", "--tokenizer", test.path(folder), "--json", *arguments)

    ids = [BEGIN, 256, ord(" "), 0xC3, 0xA9]
    test.equal("tokens", run("ab e\u0301"), {"schema": "plimsoll.tokens/1", "ids": ids})
    test.equal("tokens without special ones", run("ab e\u0301", "--no-special")["ids"], ids[1:])
    test.equal("tokens by the file", run("ab", folder="init/tokenizer.json")["ids"], [BEGIN, 256])
    test.equal("an added token", run("a</s>b")["ids"], [BEGIN, ord("a"), END, ord("b")])
    text = " ".join(map(str, ids))
    test.equal("text", run("--decode", text), {"schema": "plimsoll.tokens/1", "text": "ab \u00e9"})
    test.equal("text with special tokens", run("--decode", "--keep-special", text)["text"], "<s>ab \u00e9")
    test.write("in.txt", "ab\nab")
    test.equal("tokens of a file", run("--file", test.path("in.txt"))["ids"], [BEGIN, 256, ord("\n"), 256])
    plain = test.run("tokenize", "--tokenizer", test.path("init"), "ab")
    test.equal("plain tokens", plain.text()[0], "257 256\n")
    place = ["tokenize", "--tokenizer", test.path("init")]
    test.fails(2, "E-USAGE", *place)
    test.fails(2, "E-USAGE", *place, "--decode", "1 two")
    test.fails(5, "E-DATA-TOKEN", *place, "--decode", "99999")
    test.fails(5, "E-IO-MISSING", *place, "--file", test.path("nothing"))
    test.fails(5, "E-IO-MISSING", "tokenize", "--tokenizer", test.path("nothing"), "x")
    test.write("in.txt", "a")
    test.path("in.txt").write_bytes(b"a\xff")
    test.fails(5, "E-DATA-TEXT", *place, "--file", test.path("in.txt"))
    bomb = {**tokenizer(), "normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}}
    test.write("bomb/tokenizer.json", json.dumps(bomb))
    test.fails(5, "E-TOKENIZER", "tokenize", "--tokenizer", test.path("bomb"), "a" * 100 + "!")
    test.write("unigram/tokenizer.json", json.dumps({**tokenizer(), "model": {"type": "Unigram", "vocab": [["a", 0.0]]}}))
    test.fails(5, "E-TOKENIZER", "tokenize", "--tokenizer", test.path("unigram"), "x")


def documents(test):
    """Text becomes documents between begin and end tokens, once; the tokens depend on nothing but the text."""
    cache = test.path("cache")
    arguments = ["train", "folder.toml", *MEMORY]

    def tokens(text):
        for old in cache.rglob("tokens-*.bin"):
            old.unlink()
        shutil.rmtree(test.path("run"), ignore_errors=True)
        test.write("t.txt", text)
        ran = test.run(*arguments, "--run", "run", environment={**os.environ, "XDG_CACHE_HOME": str(cache)})
        test.equal(f"exit code for {text[:20]!r}", ran.code, 0)
        files = list(cache.rglob("tokens-*.bin"))
        test.equal("files of tokens", len(files), 1)
        raw = files[0].read_bytes()[256:] if files else b""  # behind the header
        return list(struct.unpack(f"<{len(raw) // 2}H", raw))

    def of(text):
        return [BEGIN, *test.succeeds("tokenize", "--tokenizer", test.path("init"), "--json", "--no-special", text)["ids"], END]

    prose = "ab one two, 3 four. " * 10
    test.equal("one document", tokens(prose), of(prose))
    test.equal("three documents", tokens(f"{prose}</s>xy\n</s>z"), of(prose) + of("xy\n") + of("z"))
    # Longer than a section, with and without line ends.
    lines = [f"line {i} \u00e9ab" + "." * (i % 3) for i in range(20_000)]
    for text in ("\n".join(lines), "".join(lines), "\n\n".join(lines) + "\n"):
        test.write("long.txt", text)
        want = test.succeeds("tokenize", "--tokenizer", test.path("init"), "--json", "--file", test.path("long.txt"))["ids"]
        test.that(tokens(text) == [*want, END], "a long text is the same in sections")
    test.write("t.txt", prose)
    saved = test.path("run/weights")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        test.equal(f"{name} is kept", (saved / name).read_text(), test.path(f"init/{name}").read_text())
    test.path("t.txt").write_bytes(b"ab \xff" + prose.encode())
    error = test.fails(5, "E-DATA-TEXT", *arguments, "--run", "bad")
    test.that(error and "byte 3" in error["message"], "the byte is named")


def generation(test):
    """Prompt and continuation go through the folder's tokenizer."""
    test.write("t.txt", "ab one two, 3 four. " * 100)
    shutil.rmtree(test.path("run"), ignore_errors=True)
    test.succeeds("train", "folder.toml", *MEMORY, "--run", "run", "--json")
    place = ["generate", "--weights", "run", "--prompt", "ab e\u0301", "--tokens", "5", "--memory", "64MiB"]
    result = test.run(*place)
    test.equal("exit code", result.code, 0)
    test.that(result.text()[0].startswith("ab e\u0301"), "the prompt comes first")
    for code, more in (("E-DATA-TEXT", [*place[:3], "--prompt", os.fsdecode(b"\xff"), *place[5:]]), ("E-TOKENIZER", place)):
        if code == "E-TOKENIZER":
            test.write("run/weights/tokenizer.json", json.dumps({**tokenizer(), "decoder": {"type": "CTC"}}))
        refused = test.run(*more)
        test.equal(f"exit code of {code}", refused.code, 5)
        test.that(code in refused.text()[1], f"{code} is named: {refused.text()[1]}")


def main():
    test = Test("tokenizers")
    test.write("t.bin", struct.pack("<4000H", *(i * 31 % 257 for i in range(4000))))
    test.write("base.toml", SHAPE)
    test.write("folder.toml", FOLDER)
    test.succeeds("train", "base.toml", *MEMORY, "--run", "base", "--json")
    shutil.copytree(test.path("base/weights"), test.path("init"))
    config = json.loads(test.path("init/config.json").read_text())
    test.write("init/config.json", json.dumps({**config, "eos_token_id": [END, 0]}))
    test.write("init/tokenizer.json", json.dumps(tokenizer()))
    test.write("init/tokenizer_config.json", '{"add_bos_token": true}')
    test.write("init/vocab.txt", "x")
    test.run_parts(command, documents, generation)
    test.finish()


if __name__ == "__main__":
    main()
