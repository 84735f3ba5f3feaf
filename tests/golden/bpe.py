#!/usr/bin/env python3
"""Dumps texts and their GPT-2 tokens to bpe.json, the reference of tests/formats/vocab_merges_test.cpp.

Usage: bpe.py FOLDER [OUT]     FOLDER holds encoder.json and vocab.bpe; needs the packages tiktoken and tokenizers.
Two independent tokenizers must agree on every text before it is written.
"""
import json
import pathlib
import random
import sys

import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
END = "<|endoftext|>"

TEXTS = [
    "", " ", "  ", "\n", "\n\n", "\t", "a", " a", "  a", "a ", "a  ", "Hello, world!", "hello world", "  leading", "trailing   ",
    "don't can't we're I've I'm they'll he'd it's", "DON'T IT'S", "'s't're", "'", "''", "' s", "x'y", "’s",
    "1234567890", "3.14159", "1,000,000", "2²", "½ Ⅷ ٣ 四", "a1b2c3", "  1", "$100", "100%", "foo_bar", "foo-bar", "__init__",
    "def f(x):\n    return x + 1\n\n\nclass A:\n\tpass\n", "line\r\nline\r\n", "\r", "\x00\x01\x02", "a\x00b", "\x1c\x1d\x1e\x1f",
    "tab\tand  two   three    spaces", "   \n   ", "\n a", " \n a", "\n  a", "a\n b", "a \n\n  b",
    "naïve café", "nai\u0308ve", "Ünïcödé", "straße", "ﬁ ligature", "İstanbul", "Привет, мир!", "Здравствуйте", "שלום עולם", "مرحبا بالعالم",
    "नमस्ते दुनिया", "你好，世界", "こんにちは世界", "안녕하세요", "ไทย", "🙂", "🙂🙃", " 🙂", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\u200b", "a\u200bb",
    "\u00a0", "a\u00a0b", "\u00a0\u00a0a", "\u0085", "a\u0085b", "\u180e", "a\u180e b", "\u2003x", "\u3000x", "\u2028x\u2029", "\ufeffx",
    "\u202f1", "\u205f", "\U0001d400\U0001d401", "𠮷野家", "\U0010ffff", "\ud7ff\ue000\ufffd", "a" * 40, "a" * 100, "ab" * 200, "=" * 80, " " * 70, "\n" * 30,
    "aaaaabbbbbaaaaabbbbb" * 20, "the " * 20, "http://example.com/a?b=c&d=e#f", "user@example.com", "C:\\dir\\file.txt", "/usr/bin/env",
    "supercalifragilisticexpialidocious", "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch", " SolidGoldMagikarp", "<|end|>",
    END, END + END, "a" + END + "b", " " + END + " ", "  " + END, END + "  x", "<|endoftext", "|endoftext|>", "x<<|endoftext|>>",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n",
]


def random_texts(count, seed):
    """Mixtures of the classes that the pattern tells apart."""
    rng = random.Random(seed)
    pools = ["abcdefghijklmnopqrstuvwxyzETAOIN", "0123456789²½", " ", " \t\n\r\u00a0\u2003", ".,;:!?'\"-_()[]{}<>|/\\@#$%^&*+=~`",
             "éüßñçøåæ", "абвгдежз", "日本語中文", "\U0001f600\U0001f680\u200d\u2764\ufe0f", "'s't're've'm'll'd"]
    for _ in range(count):
        yield "".join(rng.choice(pools[rng.randrange(len(pools))]) for _ in range(rng.randrange(1, 60)))


def main():
    folder = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).with_name("bpe.json")
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "vocab.bpe"), str(folder / "encoder.json"))
    first = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END: 50256})
    second = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    second.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    second.decoder = decoders.ByteLevel()
    second.add_special_tokens([AddedToken(END, normalized=False)])
    cases = []
    for text in TEXTS + list(random_texts(300, 1)):
        tokens = first.encode(text, allowed_special="all")
        if tokens != second.encode(text).ids:
            print(f"left out, the references disagree: {text!r}", file=sys.stderr)
            continue
        cases.append({"text": text, "tokens": tokens, "ordinary": first.encode(text, disallowed_special=())} if END in text
                     else {"text": text, "tokens": tokens})
    out.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    print(f"{len(cases)} texts, tiktoken {tiktoken.__version__}")


if __name__ == "__main__":
    main()
