#!/usr/bin/env python3
"""Training steps of torchvision's models on random images: SGD with momentum, channels last. Prints one JSON line.

  python3 torch_images.py --model resnet50 --size 64 --batch 32 [--dtype bf16] [--compile] [--small-stem]
"""
import argparse
import contextlib
import json
import os
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    for name, value in dict(size=32, batch=64, classes=10, steps=6, warmup=2, threads=os.cpu_count()).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--model", default="resnet18")
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--small-stem", action="store_true", help="3 x 3 without pooling")
    return p.parse_args()


ARGS = arguments()
os.environ.setdefault("OMP_NUM_THREADS", str(ARGS.threads))  # read when torch loads its OpenMP runtime

import torch  # noqa: E402
import torchvision  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def high_water_mark():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    torch.set_num_threads(ARGS.threads)
    torch.manual_seed(1)
    model = getattr(torchvision.models, ARGS.model)(num_classes=ARGS.classes)
    if ARGS.small_stem:
        model.conv1 = torch.nn.Conv2d(3, model.conv1.out_channels, 3, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    forward = torch.compile(model) if ARGS.compile else model
    images = torch.randn(ARGS.batch, 3, ARGS.size, ARGS.size).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, ARGS.classes, (ARGS.batch,))
    seconds = []
    for step in range(ARGS.warmup + ARGS.steps):
        begun = time.perf_counter()
        narrow = torch.autocast("cpu", torch.bfloat16) if ARGS.dtype == "bf16" else contextlib.nullcontext()
        with narrow:
            loss = F.cross_entropy(forward(images).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step >= ARGS.warmup:
            seconds.append(time.perf_counter() - begun)
    print(json.dumps({"images_per_second": ARGS.batch / statistics.median(seconds), "best": ARGS.batch / min(seconds),
                      "vm_hwm_bytes": high_water_mark(), "torch": torch.__version__}))


main()
