#!/usr/bin/env python3
"""Writes the goldens of tests/formats/jinja_test.cpp and tests/data/chat_encoder_test.cpp:

    python3 tests/chat/make_goldens.py

  snippets.json   the short templates of snippets.txt, one a line, and what jinja2 makes of them in the environment of
                  transformers: text, or that it fails
  samples.json    conversations through the templates of tests/chat/templates and tokenizer.json: text, tokens, offsets, masks
  tokenizer.json  a small tokenizer of bytes with the special tokens of the templates

Needs the packages transformers, jinja2 and tokenizers.
"""
import datetime
import json
import os
import pathlib

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import transformers
import transformers.utils.chat_template_utils as chat
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import compare
from conversations import conversations

FOLDER = pathlib.Path(__file__).resolve().parent

VALUES = {
    "text": "Hello, World", "empty": "", "spaces": "  a \t b\n", "odd": "naïve Straße ΑΣ ǆ ﬁ 你好 \u00a0🙂\u0001 'q\" \\",
    "html": "<a href='x'>&</a>", "lines": "one\ntwo\r\nthree\u2028four\n", "number": "42.5", "digits": "007",
    "yes": True, "no": False, "nothing": None, "zero": 0, "seven": 7, "minus": -7, "half": 0.5, "big": 12345678901234567890123,
    "floats": [1.0, 1e16, 1e-5, 123456789.125, -0.0, 1e22, 0.1], "list": [3, 1, 2], "words": ["b", "A", "c"], "void": [],
    "nested": [[1, [2, None]], {"k": [True, "x"]}], "table": {"b": 1, "A": 2, "c": {"items": [1], "get": 3}},
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 7},
               {"name": "Cid", "age": 31, "extra": {"deep": 1}}],
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
}

# Templates in which white space counts.
LAYOUT = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "  {% if true %}  \n  b\n  {% endif %}\nc\n\n",
    "a  {%- if true -%}  \n b {%- endif -%}\n c",
    "  {%+ if true %}x{% endif +%}\n y\n",
    "{{ 1 }}\n{{ 2 }}\n",
    "{{- ' x ' -}}\n  y  {{- 'z' }}",
    "  {{ 1 }}  {# c #}\n d\n   {# e #}\nf",
    "{% for x in list %}\n  {{ x }}\n{% endfor %}\nend",
    "{% for x in list -%}\n  {{ x }}\n{%- endfor %}",
    "a\r\nb\rc\n",
    "\n\na\n\n",
    "",
    "{%- set x = 1 %}\n\n{{ x }}",
    "x {%- raw %}  a {% endraw -%}  y",
    "  {% raw %}\n a\n  {% endraw %}\nb",
    "{{ 'a' }}  {% if true %} b {% endif %}",
    "\t{% if true %}\tx{% endif %}\n",
    "text {% if true %}\n  x{% endif %}",
    "{#- a -#}\n\n b",
    "{#+ a +#}\n b",
    "  {#- a #}\n  b",
    "{% if true %}{# c #}\n{% endif %}x",
    "{{ {'a': {'b': '}}'}}['a']['b'] }}",
    "{{ '%}' }}{% if '%}' %}y{% endif %}",
    "{ {x} } {",
    "{{'{{'}}",
    "{% generation %}\n a {{ text }}\n{% endgeneration %}\nb{%- generation -%} c {%- endgeneration -%} d",
    "a{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
]

TEMPLATES = ["qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training", "llama3_1", "llama3_2", "llama3_training",
             "gemma3_training", "phi3_training", "gemma4", "qwen3_5_think_training"]
TOKENS = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<bos>",
          "<eos>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|turn>", "<turn|>"]


def snippet(source):
    values = chat._plain_template_data(VALUES)
    try:
        template = chat._compile_jinja_template(source)
        blocks, spans = [], []
        with template.environment.activate_tracker(blocks, spans):
            for block in template.generate(**values):
                blocks.append(block)
        text = "".join(blocks)
    except Exception as error:
        return {"template": source, "fails": f"{type(error).__name__}: {error}"}
    result = {"template": source, "text": text}
    if spans:
        result["marks"] = [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]
    return result


def small_tokenizer(texts):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(compare.families.R3), "isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in TOKENS])
    tok.add_tokens([AddedToken(t, normalized=False) for t in compare.PLAIN])
    tok.post_processor = processors.ByteLevel(trim_offsets=True)
    return tok


def main():
    chat.datetime = compare.Fixed
    lines = (FOLDER / "snippets.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    snippets = [snippet(source) for source in lines + LAYOUT]
    write(FOLDER / "snippets.json", {"values": VALUES, "now": 1_700_000_000, "snippets": snippets})
    samples = conversations(40, "golden")
    texts = [m["content"] for s in samples for m in s["messages"] if isinstance(m.get("content"), str)]
    tok = small_tokenizer(texts + ["user assistant system tool model function name arguments"] * 20)
    tok.save(str(FOLDER / "tokenizer.json"), pretty=False)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<bos>", eos_token="<eos>")
    cases = []
    for name in TEMPLATES:
        source = (FOLDER / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        for sample in samples[:4]:
            result, refused = compare.reference(fast, sample, source)
            case = {"template": name, "sample": sample}
            if result is None:
                case["fails"] = refused
            else:
                case |= {"text": result["text"], "ids": result["ids"],
                         "ranges": compare.in_bytes(result["text"], result["offsets"]), "trained": result["mask"]}
            cases.append(case)
    write(FOLDER / "samples.json", {"now": 1_700_000_000, "cases": cases})


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for break_at in ('{"template":', '{"values":', '"snippets":', '"cases":'):
        text = text.replace(break_at, "\n" + break_at)
    path.write_text(text.strip() + "\n", encoding="utf-8", newline="")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
