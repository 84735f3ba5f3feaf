"""The models of the tests and benchmarks on a GPU: configurations with random weights over synthetic tokens, so that nothing has
to be fetched.
"""

import random
from array import array

# Sizes of the published models. `micro`: samples of 1,024 tokens.
MODELS = {
    "gpt2-124m": dict(kind="gpt2", layers=12, width=768, heads=12, vocab=50304, micro=16),
    "gpt2-1.5b": dict(kind="gpt2", layers=48, width=1600, heads=25, vocab=50304, micro=4),
    "smollm2-135m": dict(kind="llama", layers=30, width=576, heads=9, kv_heads=3, mlp_width=1536, vocab=49152, rope_theta=1e5,
                         micro=16),
    "qwen2.5-0.5b": dict(kind="qwen2", layers=24, width=896, heads=14, kv_heads=2, mlp_width=4864, vocab=151936, rope_theta=1e6,
                         micro=8),
    "qwen2.5-1.5b": dict(kind="qwen2", layers=28, width=1536, heads=12, kv_heads=2, mlp_width=8960, vocab=151936, rope_theta=1e6,
                         micro=4),
}
CONTEXT = 1024
# Sizes of the stand-ins that a processor trains in a moment.
SMALL = dict(layers=2, width=64, heads=4, vocab=512, micro=2)
SMALL_DECODER = dict(kv_heads=2, mlp_width=96)
SMALL_CONTEXT = 32
CONFIG = """\
seed = 1
[model]
{model}
[data]
train = "{tokens}"
format = "u16"
order = "sequential"
[train]
effective_batch = {samples}
updates = {updates}
gradient_clip = 1.0
save_every = 0
[optimizer]
name = "adamw"
learning_rate = 3e-4
betas = [0.9, 0.95]
epsilon = 1e-8
weight_decay = 0.1
decay = "all"
[schedule]
name = "constant"
[precision]
compute = "bf16"
"""


def sizes(name, small=False):
    """A model's sizes and its context; those of its stand-in."""
    model = {**MODELS[name], "context": CONTEXT}
    if small:
        model.update(SMALL, context=SMALL_CONTEXT, **(SMALL_DECODER if "kv_heads" in model else {}))
    return model


def parameters(model):
    width, layers, head = model["width"], model["layers"], model["width"] // model["heads"]
    if model["kind"] == "gpt2":
        return (model["vocab"] + model["context"]) * width + layers * (12 * width * width + 13 * width) + 2 * width
    kept = 2 * model["kv_heads"] * head
    biases = width + kept if model["kind"] == "qwen2" else 0
    block = 2 * width * width + width * kept + biases + 3 * width * model["mlp_width"] + 2 * width
    return model["vocab"] * width + layers * block + width


def write_config(folder, name, samples, updates, small=False, tokens=1 << 19):
    """Writes NAME.toml and its tokens. Returns the path of the configuration."""
    model = sizes(name, small)
    tokens = min(tokens, updates * samples * model["context"]) + 1
    vocab = min(model["vocab"], 1 << 16)
    data = folder / f"tokens-{vocab}-{tokens}.bin"
    if not data.exists():
        data.write_bytes(array("H", random.Random(7).choices(range(vocab), k=tokens)).tobytes())
    keys = {key: value for key, value in model.items() if key not in ("kind", "micro")}
    if model["kind"] != "gpt2":
        keys["tied"] = "true"
    lines = [f'kind = "{model["kind"]}"', *(f"{key} = {value}" for key, value in keys.items())]
    if model["kind"] == "gpt2":
        lines.append("dropout = 0.0")
    config = folder / f"{name}.toml"
    config.write_text(CONFIG.format(model="\n".join(lines), tokens=data.name, samples=samples, updates=updates))
    return config
