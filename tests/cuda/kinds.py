"""The small trainings of program.py: a model, data and an adapter each. A kind writes its files, and returns its configuration
and further options.
"""

import json
import random
import struct

from train_conversations import prepare, sets
from gguf import text, values

SMALL = dict(layers=1, context=32, batch=4, micro=2)
LARGE = dict(layers=2, context=128, batch=16, micro=4)
GPT2 = 'kind = "gpt2"\nlayers = {layers}\nwidth = 128\nheads = 4\ncontext = {context}\nvocab = 256\ndropout = 0.1\n'
# Heads of 64: in 16 bits they are multiplied by warpgroups.
LLAMA = """\
kind = "{kind}"
layers = {layers}
width = 256
heads = 4
kv_heads = 2
mlp_width = 512
context = {context}
vocab = 256
"""
WINDOW = 20  # keys
Q4_K, F32 = 12, 0
REST = """\
[data]
train = "train.txt"
validation = "validation.txt"
format = "bytes"
[train]
effective_batch = {batch}
micro_batch = {micro}
updates = {updates}
evaluate_samples = 8
[optimizer]
name = "adamw"
learning_rate = 1e-3
[schedule]
name = "cosine"
warmup = "2updates"
[memory]
budget = "4GiB"
[machine]
threads = 2
"""
LORA = sets(adapter__kind="lora", adapter__rank=8, adapter__dropout=0.1)


def gpt2(test, updates, sizes):
    return test.write("gpt2.toml", "seed = 3\n[model]\n" + (GPT2 + REST).format(updates=updates, **sizes)), []


def llama(test, updates, sizes):
    """Grouped heads that see a window: a folder whose window has been written into it."""
    test.write("mistral.toml", "seed = 3\n[model]\n" + (LLAMA + REST).format(kind="mistral", updates=updates, **sizes))
    test.succeeds("train", "mistral.toml", "--device", "cpu", "--updates", 1, "--run", "mistral", "--json")
    file = test.path("mistral/weights/config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "sliding_window": WINDOW}))
    model = f'seed = 3\n[model]\ninit = "mistral/weights"\ncontext = {sizes["context"]}\n'
    return test.write("llama.toml", model + REST.format(updates=updates, **sizes)), []


def lora_nf4(test, updates, sizes):
    config = test.write("nf4.toml", "seed = 3\n[model]\n" + (LLAMA + REST).format(kind="llama", updates=updates, **sizes))
    return config, [*LORA, *sets(quantize__base="nf4")]


def lora_q4_k(test, updates, sizes):
    test.write("model.gguf", q4_k_file(sizes["layers"]))
    rest = REST.format(updates=updates, **sizes).replace('"bytes"', '"u16"').replace(".txt", ".u16")
    for name in ("train", "validation"):
        content = test.path(f"{name}.txt").read_bytes()
        test.write(f"{name}.u16", struct.pack(f"<{len(content)}H", *content))
    config = test.write("q4_k.toml", f'seed = 3\n[model]\ninit = "model.gguf"\ncontext = {sizes["context"]}\n{rest}')
    return config, [*LORA, *sets(quantize__base="file")]


def chat(test, updates, _):
    return prepare(test), sets(batch__packing="true", train__micro_batch=2, train__updates=updates)


KINDS = {"gpt2": gpt2, "llama": llama, "lora-nf4": lora_nf4, "lora-q4_k": lora_q4_k, "chat": chat}


def q4_k_rows(draw, rows, columns):
    """Random rows of 256 elements a block: two scales in 16 bits, 12 bytes of 6-bit scales, 128 bytes of codes."""
    blocks = (struct.pack("<ee", 2e-4, 1.5e-3) + draw.randbytes(140) for _ in range(rows * columns // 256))
    return Q4_K, [rows, columns], b"".join(blocks)


def ones(columns):
    return F32, [columns], struct.pack(f"<{columns}f", *[1.0] * columns)


def q4_k_file(layers, width=256, heads=4, kept=2, mlp=512, vocab=256):
    draw = random.Random(1)
    side = width // heads * kept
    tensors = {"token_embd.weight": q4_k_rows(draw, vocab, width), "output_norm.weight": ones(width)}
    for n in range(layers):
        sizes = {"attn_q": (width, width), "attn_k": (side, width), "attn_v": (side, width), "attn_output": (width, width),
                 "ffn_gate": (mlp, width), "ffn_up": (mlp, width), "ffn_down": (width, mlp)}  # fmt: skip
        tensors |= {f"blk.{n}.{name}.weight": q4_k_rows(draw, *shape) for name, shape in sizes.items()}
        tensors |= {f"blk.{n}.{name}.weight": ones(width) for name in ("attn_norm", "ffn_norm")}
    whole, real, word = (lambda v: (4, struct.pack("<I", v))), (lambda v: (6, struct.pack("<f", v))), (lambda v: (8, text(v)))
    tokens = [f"<{i}>" for i in range(vocab)]
    keys = {
        "general.architecture": word("llama"), "llama.block_count": whole(layers), "llama.context_length": whole(128),
        "llama.embedding_length": whole(width), "llama.feed_forward_length": whole(mlp),
        "llama.attention.head_count": whole(heads), "llama.attention.head_count_kv": whole(kept),
        "llama.attention.layer_norm_rms_epsilon": real(1e-5), "llama.rope.freq_base": real(10000),
        "tokenizer.ggml.model": word("gpt2"), "tokenizer.ggml.pre": word("gpt-2"), "tokenizer.ggml.tokens": values(8, tokens),
        "tokenizer.ggml.token_type": values(5, [1] * vocab), "tokenizer.ggml.merges": values(8, ["a b"]),
        "tokenizer.ggml.eos_token_id": whole(0),
    }  # fmt: skip
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), b""
    for key, (kind, value) in keys.items():
        head += text(key) + struct.pack("<I", kind) + value
    for name, (kind, shape, stored) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", kind, len(data))
        data += stored + bytes(-len(stored) % 32)
    return head + bytes(-len(head) % 32) + data
