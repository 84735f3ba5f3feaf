#!/usr/bin/env python3
"""Golden values of a small GPT-2, computed with PyTorch and transformers. Writes, beside this file:

  gpt2_small/config.json, model.safetensors   the initial weights in fp32, named as on the hub ("wte.weight", ...)
  gpt2_small/tokens.bin                       raw u16 tokens: exactly 40 samples of 32 tokens and the last target
  gpt2_small/logits.safetensors               "logits" (4, 32, 300) of the first batch
  gpt2_small/gradients.safetensors            every gradient of the mean loss of the first batch
  gpt2_small/final.safetensors                the weights after ten updates
  gpt2_small/golden.json                      settings, losses, gradient norms, and how far fp32 may stray from them
  gpt2_old/                                   the same weights as old checkpoints name them: prefix "transformer.", mask buffers

Every value is computed in fp64 from the fp32 weights and rounded once, so it is a reference and not one rounding among many. The
same computation in fp32, whole and in micro-batches, gives the spread in golden.json ("fp32"), on which the tolerances of the
tests rest. The gradient of the key bias is zero in exact arithmetic: Adam turns its rounding noise into steps of any size, so the
middle third of every c_attn.bias is left out of the comparison of the final weights.

Sample i is tokens [32 i, 32 i + 32]; update u takes the samples 4u .. 4u + 3. Weight decay acts on tensors of two axes
(embeddings included); the gradient norm is taken before the clip. The evaluation is the mean over all 40 samples.
Run: python3 gpt2_small.py   (made with torch 2.15, transformers 5.23, safetensors 0.8)
"""
import json
import os
import pathlib
import shutil

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, WIDTH, HEADS, CONTEXT, VOCAB = 3, 48, 4, 32, 300
BATCH, UPDATES, SHORT = 4, 10, 16
OPTIMIZER = dict(learning_rate=1e-3, betas=[0.9, 0.95], epsilon=1e-8, weight_decay=0.1, decay="matrices", gradient_clip=1.0)


def make_config():
    return GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=VOCAB - 1,
                      eos_token_id=VOCAB - 1, architectures=["GPT2LMHeadModel"])


def make_weights():
    """Random fp32 weights in which nothing is trivially zero or one."""
    generator = torch.Generator().manual_seed(20)
    weights = {}
    for name, parameter in GPT2LMHeadModel(make_config()).transformer.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if ".ln_" in name or name.startswith("ln_"):
            weights[name] = 1 + 0.2 * noise if name.endswith("weight") else 0.1 * noise
        else:
            weights[name] = (0.12 if parameter.dim() == 2 else 0.05) * noise
    return weights


def make_tokens():
    """Skewed token frequencies and repeated runs, so that ten updates have something to learn."""
    rng = np.random.default_rng(21)
    tokens = np.minimum(rng.zipf(1.3, UPDATES * BATCH * CONTEXT + 1) - 1, VOCAB - 1)
    for start in range(0, len(tokens) - 16, 24):
        tokens[start + 8:start + 16] = tokens[start:start + 8]
    tokens[5::97] = rng.integers(0, VOCAB, len(tokens[5::97]))
    return tokens.astype("<u2")


def make_model(weights, dtype):
    model = GPT2LMHeadModel._from_config(make_config(), attn_implementation="eager").to(dtype)
    model.transformer.load_state_dict({k: v.to(dtype) for k, v in weights.items()}, strict=True)
    return model.train()


def samples(tokens, first, count, context):
    rows = np.stack([tokens[i * context:i * context + context + 1] for i in range(first, first + count)])
    rows = torch.from_numpy(rows.astype(np.int64))
    return rows[:, :-1], rows[:, 1:]


def mean_loss(model, inputs, targets):
    return F.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1), targets.flatten())


def accumulate(model, tokens, update, context, micro):
    """Gradients of the mean loss over one window, in micro-batches; returns that loss."""
    total = 0.0
    for first in range(update * BATCH, (update + 1) * BATCH, micro):
        loss = mean_loss(model, *samples(tokens, first, micro, context)) * (micro / BATCH)
        loss.backward()
        total += loss.item()
    return total


def train(weights, tokens, dtype=torch.float64, context=CONTEXT, micro=BATCH):
    model = make_model(weights, dtype)
    named = list(model.transformer.named_parameters())
    groups = [dict(params=[p for _, p in named if p.dim() >= 2], weight_decay=OPTIMIZER["weight_decay"]),
              dict(params=[p for _, p in named if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=OPTIMIZER["learning_rate"], betas=tuple(OPTIMIZER["betas"]),
                                  eps=OPTIMIZER["epsilon"])
    losses, norms = [], []
    for update in range(UPDATES):
        optimizer.zero_grad(set_to_none=True)
        losses.append(accumulate(model, tokens, update, context, micro))
        norms.append(torch.nn.utils.clip_grad_norm_([p for _, p in named], OPTIMIZER["gradient_clip"]).item())
        optimizer.step()
    return model, losses, norms


def first_batch(weights, tokens):
    model = make_model(weights, torch.float64)
    inputs, targets = samples(tokens, 0, BATCH, CONTEXT)
    logits = model(input_ids=inputs).logits
    F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    return logits.detach(), {name: p.grad for name, p in model.transformer.named_parameters()}


@torch.no_grad()
def evaluate(model, tokens):
    return mean_loss(model, *samples(tokens, 0, UPDATES * BATCH, CONTEXT)).item()


def final_weights(model):
    return {name: p.detach() for name, p in model.transformer.named_parameters()}


def without_key_bias(name, tensor):
    return torch.cat([tensor[:WIDTH], tensor[2 * WIDTH:]]) if name.endswith("c_attn.bias") else tensor


def spread(reference, other):
    """The largest deviations of one run from the fp64 run: relative for the curves, absolute for the final weights."""
    relative = lambda a, b: max(abs(x - y) / abs(x) for x, y in zip(a, b))
    want, got = final_weights(reference[0]), final_weights(other[0])
    errors = [(without_key_bias(n, want[n]) - without_key_bias(n, got[n]).double()).abs().flatten() for n in want]
    errors = torch.cat(errors)
    return dict(loss_relative=relative(reference[1], other[1]), grad_norm_relative=relative(reference[2], other[2]),
                weight_max_absolute=errors.max().item(), weight_mean_absolute=errors.mean().item())


def old_names(weights):
    """The names and buffers of old checkpoints: the causal mask in the dtypes it has had, and the scalar that filled it."""
    old = {"transformer." + name: tensor for name, tensor in weights.items()}
    mask = torch.tril(torch.ones(1, 1, CONTEXT, CONTEXT))
    for layer, dtype in enumerate([torch.float32, torch.uint8, torch.bool]):
        old[f"transformer.h.{layer}.attn.bias"] = mask.to(dtype)
        old[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return old


def save(tensors, path):
    save_file({name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}, path, metadata={"format": "pt"})


def write_json(value, path):
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_inputs(weights, tokens, folder, old):
    for place in (folder, old):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    make_config().save_pretrained(folder)
    save(weights, folder / "model.safetensors")
    (folder / "tokens.bin").write_bytes(tokens.tobytes())
    save(old_names(weights), old / "model.safetensors")
    write_json(dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", activation_function="gelu_new", layer_norm_epsilon=1e-5,
                    n_ctx=CONTEXT, n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, n_positions=CONTEXT, vocab_size=VOCAB),
               old / "config.json")


def main():
    torch.set_num_threads(1)
    weights, tokens = make_weights(), make_tokens()
    folder, old = HERE / "gpt2_small", HERE / "gpt2_old"
    write_inputs(weights, tokens, folder, old)

    logits, gradients = first_batch(weights, tokens)
    save({"logits": logits}, folder / "logits.safetensors")
    save(gradients, folder / "gradients.safetensors")

    reference = train(weights, tokens)
    save(final_weights(reference[0]), folder / "final.safetensors")
    short = train(weights, tokens, context=SHORT)
    spreads = {f"micro_batch_{m}": spread(reference, train(weights, tokens, torch.float32, micro=m)) for m in (4, 2, 1)}
    short_spread = spread(short, train(weights, tokens, torch.float32, context=SHORT))
    write_json(dict(
        made_with=dict(torch=torch.__version__.split("+")[0], dtype="fp64, rounded once"),
        model=dict(layers=LAYERS, width=WIDTH, heads=HEADS, context=CONTEXT, vocab=VOCAB),
        optimizer=OPTIMIZER, effective_batch=BATCH, updates=UPDATES, samples=UPDATES * BATCH,
        losses=reference[1], grad_norms=reference[2],
        evaluation=dict(units=UPDATES * BATCH * CONTEXT, initial_loss=evaluate(make_model(weights, torch.float64), tokens),
                        final_loss=evaluate(reference[0], tokens)),
        short_context=dict(context=SHORT, losses=short[1], grad_norms=short[2], fp32=short_spread),
        fp32=spreads), folder / "golden.json")
    print((folder / "golden.json").read_text())


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
