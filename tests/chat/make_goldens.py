#!/usr/bin/env python3
"""Writes the goldens of tests/formats/jinja_test.cpp and tests/data/chat_encoder_test.cpp:

    python3 tests/chat/make_goldens.py

  snippets.json   short templates, and what jinja2 makes of them in the environment of transformers: text, or that it fails
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
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 7}, {"name": "Cid", "age": 31, "extra": {"deep": 1}}],
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
}

SNIPPETS = r"""
{{ text }}|{{ empty }}|{{ nothing }}|{{ yes }}|{{ zero }}|{{ half }}|{{ absent }}|{{ big }}
{{ floats }}
{{ nested }} {{ table }} {{ odd }} {{ [odd] }} {{ (1,) }} {{ () }} {{ ("it's", 'a"b', "x'\"") }}
{{ absent.attribute }}
{{ absent['x'] }}
{{ nothing.attribute }}|{{ nothing.attribute is undefined }}
{{ nothing.attribute.more }}
{{ absent + 1 }}
{{ absent() }}
{{ absent == absent }} {{ absent == nothing }} {{ absent in list }} {{ 1 in absent }} {{ absent|length }} {{ absent|join }} {{ absent or 'd' }}
{% for x in absent %}never{% else %}else{% endfor %}
{% for x in nothing %}x{% endfor %}
{{ text.nosuch }}|{{ text.nosuch is defined }}
{{ table.items() | list }} {{ table.keys() | list }} {{ table.values() | list }} {{ table.get('b') }} {{ table.get('z') }} {{ table.get('z', 5) }}
{{ table['items'] is callable }}|{{ table.c['items'] }}|{{ table.c.get is callable }}
{{ table.c.items is callable }} {{ table.c['get'] }}
{{ table.pop('b') }}
{{ list.append(1) }}
{{ table.update }}|
{{ list[0] }} {{ list[-1] }} {{ list[5] }}| {{ list['x'] }}| {{ list.0 }} {{ nested.0.1 }}
{{ list[::-1] }} {{ list[1:] }} {{ list[:1] }} {{ list[-2:] }} {{ list[10:] }} {{ list[::2] }} {{ text[1:4] }} {{ text[::-1] }} {{ odd[2:9] }} {{ text[-3:-1] }} {{ text[7] }} {{ text[99] }}|
{{ list[::0] }}
{{ table[1:2] }}|
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 6 / 3 }} {{ 1.5 // 1 }} {{ -1.5 % 1 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 1 + True }}
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ 'a' + nothing }}
{{ 'a' ~ 1 ~ none ~ nothing ~ absent ~ 1.0 ~ true ~ [1] }}
{{ [1] + [2] }} {{ (1, 2) + (3,) }}
{{ [1] + (2,) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' != 'b' }} {{ {'a': 1} == {'a': 1.0} }} {{ (1,) == [1] }}
{{ 'a' < 1 }}
{{ not true and false or true }} {{ not (true and false) }} {{ 'x' and 'y' }} {{ '' or 'y' }} {{ 1 if no else 2 }} {{ 1 if no }}|
{{ 'ell' in text }} {{ 'x' not in text }} {{ 3 in list }} {{ 'b' in table }} {{ 'zz' in table }} {{ '' in '' }}
{{ 1 in text }}
{{ 1 in seven }}
{{ "a\n\t\\\"\x41\u00e9\101\q" }} {{ 'two' 'parts' }} {{ 1_000 }} {{ 1.5e3 }} {{ 1e2 }}
{{ text.upper() }} {{ text.lower() }} {{ text.title() }} {{ text.capitalize() }} {{ odd.upper() }} {{ odd.lower() }} {{ odd.title() }} {{ odd.capitalize() }} {{ 'ΑΣ Σ ΣΑ'.lower() }} {{ 'ßx'.capitalize() }} {{ "they're bill's".title() }}
[{{ spaces.strip() }}] [{{ spaces.lstrip() }}] [{{ spaces.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcab'.lstrip('ab') }}] [{{ 'ab\n\n'.rstrip('\n') }}] [{{ '\u3000\x1c a\x85'.strip() }}]
{{ 'a,b,,c'.split(',') }} {{ 'a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b c'.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c '.rsplit(none, 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'aXXbXXc'.split('XX')[-1] }} {{ 'aaa'.rsplit('aa') }}
{{ 'a'.split('') }}
{{ lines.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}
{{ text.startswith('Hell') }} {{ text.endswith(('x', 'ld')) }} {{ text.startswith('ell', 1) }} {{ text.endswith('lo', 0, 5) }} {{ text.find('o') }} {{ text.rfind('o') }} {{ text.find('zz') }} {{ odd.find('好') }} {{ text.index('W') }} {{ text.count('l') }} {{ 'aaaa'.count('aa') }} {{ ''.count('') }} {{ text.find('o', 5) }} {{ text.find('o', -3) }}
{{ text.index('zz') }}
{{ text.replace('l', 'L') }} {{ text.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ text | replace('o', '0') }} {{ 'aXbX' | replace('X', '', 1) }} {{ 5 | replace('5', 'five') }}
{{ ', '.join(words) }} {{ '-'.join('abc') }}
{{ ','.join(list) }}
{{ digits.isdigit() }} {{ 'a1'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ ''.isspace() }} {{ 'ab'.islower() }} {{ 'AB1'.isupper() }} {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }}
{{ '{} and {1}'.format(1, 2) }}
{{ '{} and {} {{}}'.format('a', 2) }} {{ '{1}{0}{name}'.format(1, 2, name=3) }}
{{ '%s is %d and %5.2f%%' % ('x', 3, 1.239) }} {{ '%s' % 'one' }} {{ '%r' % 'one' }} {{ '%03d' % 7 }} {{ '%s %s' | format('a', 'b') }}
{{ '%s %s' % 'a' }}
{{ 'x' % 1 }}
{{ text | upper }} {{ text | lower }} {{ 'some teXt-here (now)' | title }} {{ 'aB' | capitalize }} {{ spaces | trim }} {{ 'xax' | trim('x') }} {{ 5 | string }} {{ nothing | string }} {{ html | e }} {{ html | safe }} {{ nothing | upper }} {{ 5 | trim }}
{{ text | length }} {{ odd | length }} {{ list | count }} {{ table | length }} {{ void | length }}
{{ 5 | length }}
{{ list | map('string') | length }}
{{ list | first }} {{ list | last }} {{ void | first }}| {{ text | first }} {{ table | first }} {{ list | sort }} {{ list | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ list | reverse | list }} {{ text | reverse }} {{ list | sum }} {{ list | max }} {{ words | min }} {{ void | max }}|
{{ people | map(attribute='name') | join(', ') }} {{ people | map(attribute='extra.deep', default='?') | list }} {{ words | map('upper') | join }} {{ list | map('string') | list }} {{ words | map('replace', 'A', 'x') | list }}
{{ people | map(attribute='tags.0') | list }}
{{ people | selectattr('age', 'equalto', 31) | map(attribute='name') | list }} {{ people | selectattr('tags') | list | length }} {{ people | rejectattr('age', 'gt', 10) | map(attribute='name') | list }} {{ list | select('gt', 1) | list }} {{ list | reject('equalto', 3) | list }} {{ [0, 1, ''] | select | list }} {{ people | selectattr('extra', 'defined') | list | length }} {{ list | select('in', [1, 2]) | list }}
{{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name', reverse=true) | map(attribute='name') | list }} {{ people | join(' ', attribute='age') }} {{ people | sum(attribute='age') }} {{ people | max(attribute='age') }} {{ words | unique | list }} {{ ['a', 'A', 'b'] | unique | list }}
{{ table | dictsort }} {{ table | dictsort(case_sensitive=true) }} {{ {'a': 2, 'b': 1} | dictsort(by='value') }} {{ {'a': 2, 'b': 1} | dictsort(reverse=true) }} {{ table | items | list }} {{ absent | items | list }}
{{ text | items | list }}
{{ absent | default('d') }} {{ nothing | default('d') }} {{ nothing | default('d', true) }} {{ '' | d('e', boolean=true) }} {{ absent | default }}|
{{ '42' | int }} {{ '42.9' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ 'ff' | int(base=16) }} {{ '1.5' | float }} {{ 'x' | float }} {{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 2.4 | round(method='ceil') }} {{ 1234 | round(-2) }} {{ -5 | abs }} {{ -2.5 | abs }} {{ yes | int }} {{ nothing | int }}
{{ absent | int }}
{{ [1, 2, 3] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 0) | list }} {{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent('> ', blank=true) }} {{ 'a b_c, d' | wordcount }} {{ text | attr('upper') is callable }}
{{ table | tojson }} {{ nested | tojson }} {{ odd | tojson }} {{ odd | tojson(ensure_ascii=true) }} {{ html | tojson }} {{ floats | tojson }} {{ big | tojson }} {{ (1, 'a') | tojson }} {{ nothing | tojson }} {{ yes | tojson }} {{ {1: 2, true: 3, none: 4} | tojson }} {{ "\x7f\x1f\u2028" | tojson }}
{{ table | tojson(indent=2) }} {{ void | tojson(indent=2) }} {{ nested | tojson(indent=0) }} {{ table | tojson(separators=(',', ':')) }} {{ table | tojson(sort_keys=true) }} {{ {} | tojson(indent=4) }} {{ [[]] | tojson(indent='\t') }}
{{ absent | tojson }}
{{ [absent] | tojson }}
{{ text | nosuchfilter }}
{% if no %}{{ text | nosuchfilter }}{% endif %}fine
{{ text is nosuchtest }}
{{ text is string }} {{ 5 is number }} {{ yes is number }} {{ yes is integer }} {{ 5 is integer }} {{ 0.5 is float }} {{ yes is boolean }} {{ nothing is none }} {{ table is mapping }} {{ list is sequence }} {{ table is sequence }} {{ text is sequence }} {{ 5 is sequence }} {{ text is iterable }} {{ 5 is iterable }} {{ absent is defined }} {{ absent is undefined }} {{ absent is sequence }} {{ absent is iterable }} {{ absent is callable }} {{ yes is true }} {{ 1 is true }} {{ no is false }} {{ 4 is even }} {{ 4 is odd }} {{ 9 is divisibleby 3 }} {{ 'a' is in 'abc' }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ 5 is eq 5 }} {{ 5 is not none }} {{ nothing is sameas none }} {{ text is escaped }} {{ (list | map('string')) is iterable }} {{ (list | map('string')) is sequence }}
{{ 'x' if text is string and not yes is none else 'y' }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}
{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for k in table %}{{ k }}{% endfor %}{% for c in 'aé' %}<{{ c }}>{% endfor %}
{% for a, b in [1, 2] %}x{% endfor %}
{% for a, b in [(1, 2, 3)] %}x{% endfor %}
{% for x in list if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in list if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in range(6) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ range(3) | list }}{{ range(1, 8, 3) | list }}{{ range(3, 0, -1) | list }}
{% for x in range(1000000) %}{% endfor %}
{% set x = 1 %}{% for i in list %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, l=[]) %}{% for i in list %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }} {{ ns.l }} {{ ns.absent }}| {{ ns['n'] }} {{ namespace({'a': 1}).a }}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set text.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, %}{{ t }}
{% set block %}  in {{ text }}  {% endset %}[{{ block }}]{% set block | upper | trim %} x {{ text }} {% endset %}[{{ block }}]{% set z %}{% set y = 1 %}{% endset %}{{ y is defined }}
{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{{ absent }}{{ text }}{% endmacro %}{{ m(1) }}|{{ m(1, 2) }}|{{ m(b=1, a=2) }}|{{ m() }}|{{ m(1, 2, 3) | upper }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(x=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(3) %}{{ y * 2 }}{{ text }}{% endcall %}
{% set v = 'early' %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 'late' %}{{ m() }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{% filter upper %}abc {{ text }}{% endfilter %}{% filter replace('a', 'b') | upper %}aba{% endfilter %}
{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  |
{# comment #}a{#- strip -#}  b  {#- x #}c{# multi
line #}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ {'a': 1, 'b': [1, 2,],} }} {{ {'a': {'b': 1}}.a.b }} {{ {'a': 1, 'a': 2} }}
{{ {[1]: 2} }}
{{ raise_exception('stop: ' ~ seven) }}
{{ strftime_now('%Y-%m-%d %H:%M %d %b %Y %A %%') }}
{% generation %}x{% set q = 1 %}{% endgeneration %}{{ q is defined }}
{% if seven > 5 %}a{% elif seven > 6 %}b{% else %}c{% endif %}{% if nothing %}a{% elif seven %}b{% endif %}
{% for m in messages %}{% if m['role'] == 'user' %}U:{{ m.content }}{% elif m.role == 'assistant' %}A:{{ m.content | trim }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %}
{{ messages[-1].content }} {{ messages | map(attribute='role') | list }} {{ (messages | last)['content'] }} {{ messages[0] == messages[0] }}
{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{{ i }}{{ m.role }}{% endfor %}
{{ 1 if true else 2 if false else 3 }} {{ 1 + (1 if no else 2) }} {{ -seven }} {{ +seven }} {{ - 2 ** 2 }} {{ -half }} {{ not seven }} {{ 2 * 3 ~ 'x' }} {{ 1 + 2 ~ 3 }} {{ seven is odd and true }} {{ -7 | abs }} {{ text | upper ~ 'x' }}
{{ [1, 2, 3,] }} {{ 'a'.upper().lower() }} {{ text.split(', ')[1][0] }} {{ (text ~ '!')[-1] }} {{ [text, text] | join | length }}
{{ loop }}|
{% include 'x' %}
{% if %}
{% if true %}
{% endif %}
{{ }}
{{ 'open }}
{{ (1, 2 }}
{{ 1 +  }}
{{ a b }}
{% set %}
{% set 1 = 2 %}
{% unknown %}
{% macro f(a=1, b) %}{% endmacro %}
{{ f(a=1, 2) }}
{% break %}
{# open
{{ 1 | }}
{{ x.1y }}
{{ text ! }}
"""

# Where white space counts, a template has lines of its own.
LAYOUT = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "  {% if true %}  \n  b\n  {% endif %}\nc\n\n", "a  {%- if true -%}  \n b {%- endif -%}\n c",
    "  {%+ if true %}x{% endif +%}\n y\n", "{{ 1 }}\n{{ 2 }}\n", "{{- ' x ' -}}\n  y  {{- 'z' }}", "  {{ 1 }}  {# c #}\n d\n   {# e #}\nf",
    "{% for x in list %}\n  {{ x }}\n{% endfor %}\nend", "{% for x in list -%}\n  {{ x }}\n{%- endfor %}", "a\r\nb\rc\n", "\n\na\n\n", "",
    "{%- set x = 1 %}\n\n{{ x }}", "x {%- raw %}  a {% endraw -%}  y", "  {% raw %}\n a\n  {% endraw %}\nb", "{{ 'a' }}  {% if true %} b {% endif %}",
    "\t{% if true %}\tx{% endif %}\n", "text {% if true %}\n  x{% endif %}", "{#- a -#}\n\n b", "{#+ a +#}\n b", "  {#- a #}\n  b",
    "{% if true %}{# c #}\n{% endif %}x", "{{ {'a': {'b': '}}'}}['a']['b'] }}", "{{ '%}' }}{% if '%}' %}y{% endif %}", "{ {x} } {", "{{'{{'}}",
    "{% generation %}\n a {{ text }}\n{% endgeneration %}\nb{%- generation -%} c {%- endgeneration -%} d",
    "a{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
]

TEMPLATES = ["qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training", "llama3_1", "llama3_2", "llama3_training", "gemma3_training",
             "phi3_training", "gemma4", "qwen3_5_think_training"]
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
    lines = [line for line in SNIPPETS.strip().split("\n")]
    joined = []
    for line in lines:  # a snippet may have an open comment, which goes on on the next line
        joined.append(line)
    snippets = [snippet(source) for source in joined + LAYOUT]
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
