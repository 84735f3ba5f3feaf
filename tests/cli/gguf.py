#!/usr/bin/env python3
"""GGUF files, through the commands: python3 gguf.py path/to/plimsoll

One model is written as a Hugging Face folder and as a GGUF file. Logits and losses have equal bits; a run that begins with the
GGUF file writes a folder that works without it, and goes on after the file has gone. Broken files end in an error with a code.
"""

import array
import json
import random
import shutil
import struct

from _plimsoll import Test, byte_letters, prose

LAYERS, WIDTH, HEADS, KV, MLP, CONTEXT = 2, 64, 4, 2, 96, 32
HEAD = WIDTH // HEADS
MERGES = [("a", "b"), ("c", "d"), ("ab", "cd"), ("\u0120", "a")]
F32, Q8_0 = 0, 8


TOKENS = byte_letters() + [a + b for a, b in MERGES] + ["<|end|>"]
VOCAB = len(TOKENS) + 3  # rows of the table that are no tokens


class Matrix:
    """The rows of a matrix as stored bytes and as fp32 bytes."""

    def __init__(self, draw, rows, columns, kind=F32, ones=False):
        self.shape, self.kind = [rows, columns] if rows else [columns], kind
        self.stored, self.floats = [], []
        for _ in range(rows or 1):
            stored, floats = b"", []
            if kind == F32:
                floats = [1 + draw.gauss(0, 0.1) if ones else draw.gauss(0, 0.05) for _ in range(columns)]
                stored = array.array("f", floats).tobytes()
            else:
                for _ in range(columns // 32):
                    scale = struct.unpack("<e", struct.pack("<e", draw.uniform(1e-4, 1e-3)))[0]
                    codes = [draw.randint(-127, 127) for _ in range(32)]
                    stored += struct.pack("<e32b", scale, *codes)
                    floats += [code * scale for code in codes]
            self.stored.append(stored)
            self.floats.append(array.array("f", floats).tobytes())

    def interleaved(self, heads):
        """The stored rows in llama.cpp's order of queries and keys."""
        size = len(self.stored) // heads
        order = [head * size + half * size // 2 + i for head in range(heads) for i in range(size // 2) for half in (0, 1)]
        return [self.stored[row] for row in order]


def model(seed=1):
    """The tensors by their names in a folder and in a GGUF file."""
    draw = random.Random(seed)
    tensors = {
        ("model.embed_tokens.weight", "token_embd.weight"): Matrix(draw, VOCAB, WIDTH, Q8_0),
        ("model.norm.weight", "output_norm.weight"): Matrix(draw, 0, WIDTH, ones=True),
    }
    for n in range(LAYERS):
        ours, theirs = f"model.layers.{n}.", f"blk.{n}."
        for name, other, rows, columns, kind in (
            ("self_attn.q_proj", "attn_q", WIDTH, WIDTH, F32),
            ("self_attn.k_proj", "attn_k", KV * HEAD, WIDTH, Q8_0),
            ("self_attn.v_proj", "attn_v", KV * HEAD, WIDTH, F32),
            ("self_attn.o_proj", "attn_output", WIDTH, WIDTH, Q8_0),
            ("mlp.gate_proj", "ffn_gate", MLP, WIDTH, Q8_0),
            ("mlp.up_proj", "ffn_up", MLP, WIDTH, F32),
            ("mlp.down_proj", "ffn_down", WIDTH, MLP, Q8_0),
        ):
            tensors[ours + name + ".weight", theirs + other + ".weight"] = Matrix(draw, rows, columns, kind)
        for name, other in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")):
            tensors[ours + name + ".weight", theirs + other + ".weight"] = Matrix(draw, 0, WIDTH, ones=True)
    return tensors


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def values(kind, items):
    body = b"".join(text(item) if kind == 8 else struct.pack("<i", item) for item in items)
    return 9, struct.pack("<IQ", kind, len(items)) + body


def gguf(tensors, pre="gpt-2"):
    whole, real, word = (lambda v: (4, struct.pack("<I", v))), (lambda v: (6, struct.pack("<f", v))), (lambda v: (8, text(v)))
    keys = {
        "general.architecture": word("llama"),
        "llama.block_count": whole(LAYERS),
        "llama.context_length": whole(CONTEXT),
        "llama.embedding_length": whole(WIDTH),
        "llama.feed_forward_length": whole(MLP),
        "llama.attention.head_count": whole(HEADS),
        "llama.attention.head_count_kv": whole(KV),
        "llama.attention.layer_norm_rms_epsilon": real(1e-5),
        "llama.rope.freq_base": real(10000),
        "tokenizer.ggml.model": word("gpt2"),
        "tokenizer.ggml.pre": word(pre),
        "tokenizer.ggml.tokens": values(8, TOKENS),
        "tokenizer.ggml.token_type": values(5, [1] * (len(TOKENS) - 1) + [3]),
        "tokenizer.ggml.merges": values(8, [" ".join(pair) for pair in MERGES]),
        "tokenizer.ggml.eos_token_id": whole(len(TOKENS) - 1),
        "tokenizer.chat_template": word("{{ messages }}"),
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, (kind, value) in keys.items():
        head += text(key) + struct.pack("<I", kind) + value
    data = b""
    for (_, name), matrix in tensors.items():
        heads = HEADS if ".attn_q." in name else KV if ".attn_k." in name else 0
        head += text(name) + struct.pack("<I", len(matrix.shape)) + struct.pack(f"<{len(matrix.shape)}Q", *matrix.shape[::-1])
        head += struct.pack("<IQ", matrix.kind, len(data))
        data += b"".join(matrix.interleaved(heads) if heads else matrix.stored)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


def safetensors(tensors):
    header, data = {}, b""
    for (name, _), matrix in tensors.items():
        begin = len(data)
        data += b"".join(matrix.floats)
        header[name] = {"dtype": "F32", "shape": matrix.shape, "data_offsets": [begin, len(data)]}
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": LAYERS, "hidden_size": WIDTH,
    "num_attention_heads": HEADS, "num_key_value_heads": KV, "intermediate_size": MLP, "max_position_embeddings": CONTEXT,
    "vocab_size": VOCAB, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "eos_token_id": len(TOKENS) - 1,
}  # fmt: skip
SETTINGS = ["--set", "data.format=bpe", "--set", "model.context=32", "--memory", "1GiB"]


def forward(test, weights, out):
    """Bytes of the logits."""
    ids = array.array("q", [i * 37 % len(TOKENS) for i in range(2 * 16)]).tobytes()
    raw = json.dumps({"input_ids": {"dtype": "I64", "shape": [2, 16], "data_offsets": [0, len(ids)]}}).encode()
    test.write("inputs.safetensors", struct.pack("<Q", len(raw)) + raw + ids)
    test.succeeds("forward", "--weights", weights, "--inputs", "inputs.safetensors", "--out", out, "--memory", "1GiB")
    return test.path(out).read_bytes()


def config(test, name, init):
    data = 'train = "train.txt"\nvalidation = "validation.txt"\n'
    train = "effective_batch = 4\nupdates = 3\nevaluate_samples = 8\n"
    return test.write(name, f'seed = 3\n[model]\ninit = "{init}"\n[data]\n{data}[train]\n{train}')


def losses(test, run):
    return [(line.get("loss"), line.get("grad_norm")) for line in test.lines(run)]


def same_as_a_folder(test):
    file = test.write("model.gguf", gguf(model()))
    test.write("folder/model.safetensors", safetensors(model()))
    test.write("folder/config.json", json.dumps(CONFIG))
    test.that(forward(test, "model.gguf", "a.safetensors") == forward(test, "folder", "b.safetensors"), "logits have equal bits")
    test.succeeds("train", config(test, "gguf.toml", file), *SETTINGS, "--run", "from-gguf", "--json")
    weights = test.path("from-gguf/weights")
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        test.that((weights / name).exists(), f"the run has {name}")
        if name.startswith(("tokenizer", "chat")):
            shutil.copy(weights / name, test.path("folder"))
    test.succeeds("train", config(test, "folder.toml", test.path("folder")), *SETTINGS, "--run", "from-folder", "--json")
    test.equal("losses", losses(test, "from-gguf"), losses(test, "from-folder"))
    ours, theirs = (test.path(run) / "weights/model.safetensors" for run in ("from-gguf", "from-folder"))
    test.that(ours.read_bytes() == theirs.read_bytes(), "trained weights have equal bits")
    plan = test.succeeds("plan", "gguf.toml", *SETTINGS, "--json")
    test.that(plan is not None and plan["subject"]["model"] == "model.gguf", "the plan names the file")


def tokens(test):
    line = "a abcd <|end|>ab  a\u00e9"
    ids = test.succeeds("tokenize", "--tokenizer", "model.gguf", line, "--json")
    again = test.succeeds("tokenize", "--tokenizer", "from-gguf/weights", line, "--json")
    test.equal("ids of the folder", again["ids"], ids["ids"])
    test.that(258 in ids["ids"] and 260 in ids["ids"], f"merges and added tokens: {ids['ids']}")
    said = test.succeeds("generate", "--weights", "model.gguf", "--prompt", "abcd", "--tokens", 5, "--temperature", 0)
    test.that(said is not None and said.startswith("abcd"), f"it generates: {said!r}")
    ours = test.succeeds("eval", "folder.toml", *SETTINGS, "--weights", "folder", "--json")
    theirs = test.succeeds("eval", "gguf.toml", *SETTINGS, "--weights", "model.gguf", "--json")
    test.equal("loss of eval", theirs and theirs["loss_bits"], ours and ours["loss_bits"])


def goes_on_without_the_file(test):
    test.path("model.gguf").rename(test.path("moved.gguf"))
    test.succeeds("train", "gguf.toml", *SETTINGS, "--run", "from-gguf", "--resume", "--updates", 5, "--json")
    test.equal("updates", len(test.lines("from-gguf")), 5)
    test.path("moved.gguf").rename(test.path("model.gguf"))


def exported(test):
    """An exported GGUF file has the same logits, tokens and template."""
    made = test.succeeds("export", "--weights", "from-folder", "--gguf", "out.gguf", "--type", "F32", "--json")
    test.equal("what is written", made and (made["schema"], made["kind"], made["architecture"], made["tokenizer"]),
               ("plimsoll.export/1", "model", "llama", True))  # fmt: skip
    test.equal("its bytes", made and made["bytes"], test.path("out.gguf").stat().st_size)
    test.that(forward(test, "out.gguf", "a.safetensors") == forward(test, "from-folder", "b.safetensors"), "logits of the file")
    line = "a abcd <|end|>ab  a\u00e9"
    ours, theirs = (test.succeeds("tokenize", "--tokenizer", t, line, "--json") for t in ("out.gguf", "from-folder/weights"))
    test.equal("ids of the file", ours and ours["ids"], theirs and theirs["ids"])
    test.succeeds("export", "--weights", "out.gguf", "--gguf", "again.gguf", "--type", "F32")
    same = test.path("out.gguf").read_bytes() == test.path("again.gguf").read_bytes()
    test.that(same, "the file of the file has equal bytes")
    test.succeeds("export", "--weights", "model.gguf", "--gguf", "small.gguf", "--type", "Q8_0")
    test.that(test.path("small.gguf").stat().st_size < test.path("out.gguf").stat().st_size / 2, "Q8_0 is smaller")
    test.fails(2, "E-USAGE", "export", "--weights", "folder", "--gguf", "no.gguf", "--type", "Q4_0")
    strange = {**CONFIG, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    test.write("strange/config.json", json.dumps(strange))
    shutil.copy(test.path("folder/model.safetensors"), test.path("strange"))
    error = test.fails(2, "E-EXPORT-MODEL", "export", "--weights", "strange", "--gguf", "out.gguf", "--type", "F32")
    test.that(error is not None and "dynamic" in error["message"], f"the rotary type is named: {error}")
    test.that(test.path("out.gguf").read_bytes() == test.path("again.gguf").read_bytes(), "a refused export leaves the file")
    test.that("GGUF" in (test.succeeds("explain", "E-EXPORT-MODEL") or ""), "the code is explained")


def refused(test):
    whole = gguf(model())
    broken = {
        "cut": whole[: len(whole) // 2],
        "cut in the header": whole[:300],
        "no magic": b"GGML" + whole[4:],
        "an unknown type": whole.replace(text("output_norm.weight") + struct.pack("<IQI", 1, WIDTH, F32),
                                         text("output_norm.weight") + struct.pack("<IQI", 1, WIDTH, 17)),
        "another architecture": whole.replace(text("general.architecture") + struct.pack("<I", 8) + text("llama"),
                                              text("general.architecture") + struct.pack("<I", 8) + text("mamba")),
    }  # fmt: skip
    for what, data in broken.items():
        test.write("broken.gguf", data)
        error = test.fails(5, "E-FORMAT-GGUF", "plan", "gguf.toml", *SETTINGS, "--set", "model.init=broken.gguf")
        test.that(error is not None and "broken.gguf" in error["where"], f"{what}: {error}")
    test.write("strange.gguf", gguf(model(), pre="viking"))
    error = test.fails(5, "E-FORMAT-GGUF", "plan", "gguf.toml", *SETTINGS, "--set", "model.init=strange.gguf")
    test.that(error is not None and "viking" in error["message"], f"the tokenizer is named: {error}")
    lacking = {key: value for key, value in model().items() if key[1] != "blk.1.ffn_up.weight"}
    test.write("lacking.gguf", gguf(lacking))
    error = test.fails(5, "E-FORMAT-WEIGHTS", "plan", "gguf.toml", *SETTINGS, "--set", "model.init=lacking.gguf")
    test.that(error is not None and "model.layers.1.mlp.up_proj.weight" in error["message"], f"it is named: {error}")
    test.fails(5, "E-IO-MISSING", "plan", "gguf.toml", *SETTINGS, "--set", "model.init=absent.gguf")
    told = test.succeeds("explain", "E-FORMAT-GGUF")
    test.that(told is not None and "GGUF" in told, "the code is explained")


def main():
    test = Test("gguf")
    test.write("train.txt", prose(1, 4000).replace("ab", "abcd"))
    test.run_parts(same_as_a_folder, tokens, goes_on_without_the_file, exported, refused)
    test.finish()


if __name__ == "__main__":
    main()
