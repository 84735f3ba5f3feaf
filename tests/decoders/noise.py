#!/usr/bin/env python3
"""The effect of rounding alone on ten updates: PyTorch compared with itself. Not part of the test suite: it needs PyTorch.

  PYTHON tests/decoders/noise.py [CASE ...]        PYTHON has torch and transformers; cases are those of compare.py

The models of compare.py train in fp32 with one thread, with two threads, and in fp64. For each optimizer a line tells the largest
relative difference of a loss and the largest relative L2 difference of a tensor's change over the ten updates. A comparison of
another program with PyTorch means something only above these figures.
"""
import sys

import torch
from compare import CASES, VOCAB, make

UPDATES, BATCH = 10, 4


def train(name, optimizer, dtype, threads):
    torch.set_num_threads(threads)
    kind, keys, tokens = CASES[name]
    model = make(kind, keys).to(dtype).train()
    start = {key: p.detach().clone() for key, p in model.named_parameters()}
    data = torch.randint(0, VOCAB, (UPDATES * BATCH * tokens + 1,), generator=torch.Generator().manual_seed(7))
    parameters = list(model.parameters())
    adamw = optimizer == "adamw"
    updates = torch.optim.AdamW(parameters, lr=1e-3) if adamw else torch.optim.SGD(parameters, lr=0.05)
    losses = []
    for update in range(UPDATES):
        text = torch.stack([data[i * tokens : (i + 1) * tokens + 1] for i in range(update * BATCH, (update + 1) * BATCH)])
        loss = torch.nn.functional.cross_entropy(model(text[:, :-1]).logits.flatten(0, 1), text[:, 1:].flatten())
        updates.zero_grad()
        loss.backward()
        if adamw:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        updates.step()
        losses.append(float(loss))
    return losses, {key: (p.detach() - start[key]).double() for key, p in model.named_parameters()}


def apart(one, other):
    losses = max(abs(a - b) / b for a, b in zip(one[0], other[0]))
    changes = max(float((one[1][k] - c).norm() / max(float(c.norm()), 1e-12)) for k, c in other[1].items())
    return f"losses {losses:.1e}, changes {changes:.1e}"


for case in sys.argv[1:] or [name for name in CASES if CASES[name][2] <= 200]:
    for rule in ("adamw", "sgd"):
        runs = [train(case, rule, torch.float32, 1), train(case, rule, torch.float32, 2), train(case, rule, torch.float64, 2)]
        print(f"{case:16} {rule:6} one thread from two: {apart(runs[0], runs[1])}; fp32 from fp64: {apart(runs[1], runs[2])}",
              flush=True)  # fmt: skip
