#!/usr/bin/env python3
"""Compares `plimsoll tokenize` with the Python package `tokenizers` on generated text, for the tokenizers of known families.

    python3 tests/tokenizers/compare.py BINARY [--lines 100000] [--kinds gpt2,llama3,...] [--folder DIR] [--seed N]

Needs the package `tokenizers`, so it is no part of the test suite. Vocabularies are trained on generated text with each family's
normalizer, pre-tokenizer, model and post-processor. Lines are of many scripts, code, emoji, combining marks, spaces, controls and
rare code points that Unicode 14 has. Ids, and text decoded with and without special tokens, must be equal. --folder keeps the
vocabularies.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

R2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
R3 = R2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
RT = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
      r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
      r"\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
RO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS +
      r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS +
      r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
MARK = "\u2581"


def ranges(text):
    """The ranges of code points in "41-5A 61-7A"."""
    return [(int(low, 16), int(high, 16) + 1) for low, high in (each.split("-") for each in text.split())]


class Lines:
    """Generated lines of text."""

    SCRIPTS = ranges(
        "41-5A 61-7A C0-17F 370-3FF 400-4FF 531-589 5B0-5F4 600-6FF 900-97F 980-9FF B80-BFF E00-E7F 10A0-10FF 1100-11FF "
        "1200-137F 1780-17FF 1800-18AF 1E00-1EFF 1F00-1FFF 2C00-2C5F 3040-30FF 3105-312F 4E00-9FFE AC00-D7A3 F900-FAFF "
        "FB00-FB4F FB50-FDFF FE70-FEFE FF00-FFEF"
    )
    ASTRAL = ranges(
        "10000-100FF 10400-1044F 10900-109FF 11000-110FF 11100-11DFF 12000-123FF 16A00-16FFF 1B000-1B16F 1D100-1D7FF "
        "1E000-1EEFF 1F000-1FAFF 20000-203FF 2F800-2FA1F E0020-E007F"
    )
    MARKS = ranges(
        "300-36F 483-487 591-5BF 64B-65F 6D6-6DF 93C-94C E34-E4D 1AB0-1AFE 1DC0-1DFF 20D0-20F0 302A-302F FE00-FE0F "
        "FE20-FE2F 1D165-1D169 10A38-10A3A"
    )
    SPACES = [
        ' ', '  ', '   ', '\t', '\n', '\r\n', '\n\n', '\r', '\x0b', '\x0c', '\x85', '\xa0', '\u1680', '\u180e',
        '\u2000', '\u2003', '\u200a', '\u200b', '\u2028', '\u2029', '\u202f', '\u205f', '\u3000', '\ufeff', '\u2060',
        '\xad',
    ]
    CONTROLS = [
        '\x00', '\x01', '\x07', '\x1b', '\x1f', '\x7f', '\x80', '\x9f', '\u200c', '\u200d', '\u200e', '\u202e',
        '\u2066', '�', '\uffff', '\ue000', '\U000f0000', '\U0010ffff', '\u0890', '\u08e2', '\u061c',
    ]
    WORDS = (
        'the of and to in is that it was for on are with as his they at be this from have or by one had not but what '
        'all were when we there can an your which their said if do will each about how up out them then she many some '
        'so these would other into has more her two like him see time could no make than first been its who now '
        'people my made over did down only way find use may water long little very after words called just where most '
        "know don't I'm you're we've he'll she'd it's DON'T I'LL naïve café Straße Ελλάδα Москва"
    ).split()
    CODE = [
        'def f(x):\n    return x**2', 'for (int i = 0; i < n; ++i) { a[i] += b[i]; }', "if __name__ == '__main__':",
        '#include <vector>', '\t\tconst auto& y = x->z;', 'SELECT * FROM t WHERE id = 42;',
        '<div class="a">&nbsp;</div>', 'x = {\'a\': [1, 2.5e-3], "b": None}', '//---- !!! ????',
        "git commit -m 'x' && make -j8", 'λ x. x → y', 'https://example.org/a?b=c&d=%20#e',
        'snake_case camelCase SCREAMING_CASE', '0x1F, 0b101, 1_000_000, 3.14159, 1e10', '...', '``` \\n \\t ```',
        '$x^2 + y_1$',
    ]
    EMOJI = [
        '😀', '👍🏽', '\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466', '\U0001f3f3\ufe0f\u200d\U0001f308',
        '🇩🇪', '1️⃣', '❤️', '☕', '\U0001f937\U0001f3fe\u200d\u2640\ufe0f', '🫠', '\U0001f9d1\u200d\U0001f680',
    ]
    SPECIALS = [
        '<s>', '</s>', '<unk>', '<|endoftext|>', '<|im_start|>', '[CLS]', '[SEP]', '[MASK]', '[UNK]', '<0x41>', '▁',
        '<tool>', 'Ġ', 'ſ', "'ſ", 'K', 'İ', 'ß', 'ẞ', 'ﬁ', 'ﬅ', 'Ω', 'Å', '½', '²', 'Ⅷ', 'ǅ', 'ͅ', '각', '각', 'ﷺ', '㌀',
        'A͟', 'x̛̣', 'q̣̇', 'é', 'ẛ̣', '각',
    ]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
        self.rare = self.assigned[:]
        self.random.shuffle(self.rare)
        self.next_rare = 0

    def range(self, ranges):
        for _ in range(100):
            c = self.random.randrange(*self.random.choice(ranges))
            if unicodedata.category(chr(c)) not in ("Cn", "Cs"):
                return chr(c)
        return "?"

    def word(self):
        r = self.random
        ranges = [r.choice(self.SCRIPTS)]
        return "".join(self.range(ranges) for _ in range(r.randrange(1, 9)))

    def rarest(self):
        # Every code point comes once before any comes twice.
        self.next_rare += 1
        return chr(self.rare[self.next_rare % len(self.rare)])

    def piece(self):
        r = self.random
        k = r.randrange(20)
        if k < 5:
            return r.choice(self.WORDS)
        if k < 8:
            return self.word()
        if k == 8:
            return r.choice(self.CODE)
        if k == 9:
            return r.choice(self.EMOJI)
        if k == 10:
            return r.choice(self.WORDS) + "".join(self.range(self.MARKS) for _ in range(r.randrange(1, 4)))
        if k == 11:
            return "".join(r.choice(self.SPACES) for _ in range(r.randrange(1, 5)))
        if k == 12:
            return r.choice(self.CONTROLS)
        if k == 13:
            return "".join(self.range(self.ASTRAL) for _ in range(r.randrange(1, 4)))
        if k == 14:
            return str(r.randrange(10**r.randrange(1, 12)))
        if k == 15:
            return r.choice(self.SPECIALS)
        if k == 16:
            return "".join(self.rarest() for _ in range(r.randrange(1, 5)))
        if k == 17:
            return self.word() + "".join(self.range(self.MARKS) for _ in range(r.randrange(1, 3))) + self.word()
        if k == 18:
            return "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ab1 ") for _ in range(r.randrange(1, 8)))
        return r.choice(self.WORDS).upper()

    def line(self):
        r = self.random
        out = ""
        for _ in range(r.randrange(1, 12)):
            out += self.piece() + r.choice(["", " ", " ", " "])
        return out


def added(*contents, **flags):
    return [AddedToken(c, **flags) for c in contents]


def byte_bpe(corpus, pattern=None, normalizer=None, pre=None, ignore_merges=False, special=("<|endoftext|>",), bos=None,
             size=3000):
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    elif pattern:
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(corpus, trainer)
    tok.add_special_tokens(list(special))
    if bos:
        tok.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                          special_tokens=[(bos, tok.token_to_id(bos))])])
    else:
        tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def piece_bpe(corpus, kind, size=3000):
    """Like SentencePiece: byte_fallback, fuse_unk."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"] if kind == "gemma" else ["<unk>", "<s>", "</s>"]
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    # Trained on words, so that training is fast; the normalizer that is saved is the family's.
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials + bytes_, limit_alphabet=500, show_progress=False)
    tok.train_from_iterator(corpus, trainer)
    saved = json.loads(tok.to_str())
    saved["added_tokens"] = [t for t in saved["added_tokens"] if not t["content"].startswith("<0x")]
    tok = Tokenizer.from_str(json.dumps(saved))
    replace_back = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "llama-legacy":
        tok.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
        tok.pre_tokenizer = None
        tok.decoder = decoders.Sequence(replace_back + [decoders.Strip(" ", 1, 0)])
    elif kind == "llama":
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tok.decoder = decoders.Sequence(replace_back + [decoders.Strip(" ", 1, 0)])
    else:
        tok.normalizer = normalizers.Replace(" ", MARK)
        tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tok.decoder = decoders.Sequence(replace_back)
    bos = "<bos>" if kind == "gemma" else "<s>"
    tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                                       special_tokens=[(bos, tok.token_to_id(bos))])
    tok.add_tokens(added("<tool>", normalized=True))
    return tok


def word_piece(corpus, lowercase, size=3000):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tok.train_from_iterator(corpus, trainer)
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                       special_tokens=[(t, tok.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    return tok


def with_flags(tok):
    """Added tokens of every kind, and the other normalizers and pre-tokenizers."""
    tok.add_tokens([AddedToken("<tool>", lstrip=True), AddedToken("<|im_start|>", rstrip=True),
                    AddedToken("water", single_word=True), AddedToken("Straße", normalized=True),
                    AddedToken("</s>", lstrip=True, rstrip=True, normalized=False),
                    AddedToken("<s>", special=True, normalized=True), AddedToken("the of", normalized=False)])
    return tok


def mixed(corpus, size=3000):
    tok = byte_bpe(corpus, size=size, normalizer=normalizers.Sequence([
        normalizers.Strip(), normalizers.NFKD(), normalizers.Lowercase(),
        normalizers.Replace(Regex(r"\s{2,}"), " "), normalizers.Replace("``", '"')]),
        pre=pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(individual_digits=False),
                                     pre_tokenizers.ByteLevel(add_prefix_space=True)]))
    return with_flags(tok)


def whitespace(corpus, size=3000):
    tok = Tokenizer(models.BPE(unk_token="[UNK]"))
    tok.normalizer = normalizers.NFKC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Split(Regex(r"\w\b"), "merged_with_next", True)])
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["[UNK]"], limit_alphabet=800, show_progress=False)
    tok.train_from_iterator(corpus, trainer)
    return tok


def splits(corpus, size=3000):
    tok = byte_bpe(corpus, size=size, normalizer=normalizers.NFD(), pre=pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[aeiou]"), "merged_with_previous"), pre_tokenizers.Split("th", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\d{2}+|\p{Han}|\p{Greek}+|[[:punct:]]"), "contiguous"), pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace(replacement="_", prepend_scheme="always"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    return tok


KINDS = {
    "gpt2": lambda c: byte_bpe(c),
    "neox": lambda c: byte_bpe(c, normalizer=normalizers.NFC()),
    "llama3": lambda c: byte_bpe(c, pattern=R3, ignore_merges=True, bos="<|begin_of_text|>",
                                 special=["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]),
    "qwen2": lambda c: byte_bpe(c, pattern=R2, normalizer=normalizers.NFC(),
                                special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    "smollm2": lambda c: byte_bpe(c, pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "tekken": lambda c: byte_bpe(c, pattern=RT, ignore_merges=True, special=["<unk>", "<s>", "</s>"], bos="<s>"),
    "o200k": lambda c: byte_bpe(c, pattern=RO),
    "cl100k": lambda c: byte_bpe(c, pattern=CL100K),
    "llama-legacy": lambda c: piece_bpe(c, "llama-legacy"),
    "llama": lambda c: piece_bpe(c, "llama"),
    "gemma": lambda c: piece_bpe(c, "gemma"),
    "bert-uncased": lambda c: word_piece(c, True),
    "bert-cased": lambda c: word_piece(c, False),
    "mixed": mixed,
    "whitespace": whitespace,
    "splits": splits,
}


def ask(binary, folder, text, *arguments):
    path = os.path.join(folder, "text")
    with open(path, "wb") as out:
        out.write(text.encode())
    run = subprocess.run([binary, "tokenize", "--tokenizer", folder, "--file", path, "--json", *arguments], capture_output=True)
    if run.returncode != 0:
        sys.exit(f"plimsoll tokenize: exit {run.returncode}: {run.stdout.decode()} {run.stderr.decode()}")
    return json.loads(run.stdout)


def differs(binary, folder, tok, text):
    """The difference for a text, or nothing."""
    want = tok.encode(text).ids
    got = ask(binary, folder, text)["ids"]
    if got != want:
        return f"ids\n  want {want[:60]}\n  got  {got[:60]}"
    ids = " ".join(map(str, want))
    for skip, arguments in ((True, ()), (False, ("--keep-special",))):
        want_text = tok.decode(want, skip_special_tokens=skip)
        if ask(binary, folder, ids, "--decode", *arguments)["text"] != want_text:
            return f"decoded text, skip_special_tokens={skip}"
    return None


def smallest(binary, folder, tok, lines):
    """A small part of the lines that still differs."""
    while len(lines) > 1:
        half = len(lines) // 2
        for part in (lines[:half], lines[half:]):
            if differs(binary, folder, tok, "\n".join(part)):
                lines = part
                break
        else:
            break
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    root = a.folder or tempfile.mkdtemp()
    source = Lines(a.seed)
    corpus = [source.line() for _ in range(4000)]
    wrong = 0
    for kind in a.kinds.split(","):
        folder = os.path.join(root, kind)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tokenizer.json")
        if not os.path.exists(path):
            KINDS[kind](corpus).save(path)
        tok = Tokenizer.from_file(path)
        lines = Lines(a.seed + 1)
        done, bad = 0, None
        while done < a.lines and bad is None:
            # Whole files of many lines, and single lines, where what stands at the begin and the end counts.
            some = [lines.line() for _ in range(min(1 if done < 200 else 1000, a.lines - done))]
            if differs(a.binary, folder, tok, "\n".join(some)):
                text = smallest(a.binary, folder, tok, some)
                bad = f"{text!r}: {differs(a.binary, folder, tok, text)}"
            done += len(some)
        print(f"{kind}: {done} lines, {'equal' if bad is None else 'DIFFERENT: ' + bad}", flush=True)
        wrong += bad is not None
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
