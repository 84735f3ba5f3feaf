#!/usr/bin/env python3
"""Golden values of the optimizers: a hundred updates of a small vector and a small matrix in fp64 by PyTorch's own optimizers
(Lion, which PyTorch does not have, by the formulas of its paper). Writes optimizers.json beside this file.

Element i of n begins at cos(i) and has the gradient sin(i + update) + 0.3 p at each update, counted from 1. Values are fp64;
tests compute in fp32.
Run: python3 optimizers.py   (made with torch 2.15)
"""
import json
import pathlib

import torch

N, UPDATES, SHAPE = 60, 100, (6, 10)


class Lion(torch.optim.Optimizer):
    """Chen et al., 2023, algorithm 2."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.sub_(group["lr"] * (direction + group["weight_decay"] * p))
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    "adamw_long": lambda p: torch.optim.AdamW(p, lr=3e-3, betas=(0.8, 0.999), eps=1e-3, weight_decay=0.0),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, weight_decay=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=0.1),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    "lion": lambda p: Lion(p, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
    "adafactor_vector": lambda p: torch.optim.Adafactor(p, lr=1e-2, eps=(2.0**-23, 1e-3), weight_decay=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2, eps=(2.0**-23, 1e-3), weight_decay=0.1),
}


def train(name):
    index = torch.arange(N, dtype=torch.float64)
    p = torch.cos(index).reshape(SHAPE if name == "adafactor" else (N,)).requires_grad_()
    optimizer = OPTIMIZERS[name]([p])
    for update in range(1, UPDATES + 1):
        p.grad = torch.sin(index + update).reshape(p.shape) + 0.3 * p.detach()
        optimizer.step()
    return p.detach().flatten().tolist()


if __name__ == "__main__":
    path = pathlib.Path(__file__).resolve().parent / "optimizers.json"
    path.write_text(json.dumps({name: train(name) for name in OPTIMIZERS}, indent=0) + "\n")
