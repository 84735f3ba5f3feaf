#!/usr/bin/env python3
"""Plimsoll and PyTorch side by side: training steps of image models on the CPU, in turn.

Prints images per second (the median step), the process high-water mark, and the ratios to PyTorch. A busy machine makes every
figure worthless.

  python3 bench/train_images.py build/release/plimsoll --python /path/to/python-with-torchvision [--compile] [MODEL ...]
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile

RESNET = 'kind = "resnet"\nlayer = "{layer}"\nstem = "{stem}"\nstem_width = 64\ndepths = {depths}\nwidths = {widths}'
# Size, batch, model, options of the peer.
MODELS = {
    "resnet18": (32, 64, RESNET.format(layer="basic", stem="cifar", depths=[2, 2, 2, 2], widths=[64, 128, 256, 512]),
                 ["--small-stem"]),
    "resnet50": (64, 32, RESNET.format(layer="bottleneck", stem="imagenet", depths=[3, 4, 6, 3], widths=[256, 512, 1024, 2048]),
                 []),
    "mobilenet_v2": (64, 32, 'kind = "mobilenet_v2"\nmultiplier = 1.0', []),
}
CONFIG = """\
[model]
{model}
classes = 10
[data]
train = "images"
labels = "labels"
format = "idx"
[train]
effective_batch = {batch}
micro_batch = {batch}
updates = {updates}
gradient_clip = 0.0
[optimizer]
name = "sgd"
learning_rate = 0.05
momentum = 0.9
weight_decay = 5e-4
[precision]
compute = "{dtype}"
[machine]
threads = {threads}
"""
WARMUP, STEPS, IMAGES = 2, 6, 640


def write_images(folder, size):
    rng = random.Random(1)
    (folder / "images").write_bytes(struct.pack(">5I", 0x0804, IMAGES, size, size, 3) + rng.randbytes(IMAGES * size * size * 3))
    (folder / "labels").write_bytes(struct.pack(">2I", 0x0801, IMAGES) + bytes(rng.randrange(10) for _ in range(IMAGES)))


def plimsoll(options, folder, model, dtype):
    size, batch, shape, _ = MODELS[model]
    write_images(folder, size)
    config = CONFIG.format(model=shape, batch=batch, updates=WARMUP + STEPS, dtype=dtype, threads=options.threads)
    (folder / "c.toml").write_text(config)
    run = f"{model}-{dtype}"
    command = [options.binary.resolve(), "train", "c.toml", "--memory", "8GiB", "--run", run, "--json"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in (folder / run / "metrics.jsonl").read_text().splitlines()]
    speed = batch / statistics.median(line["seconds"] for line in lines[WARMUP:])
    return speed, json.loads(result.stdout)["measured"]["process_hwm_bytes"]


def torch(options, model, dtype):
    size, batch, _, more = MODELS[model]
    peer = pathlib.Path(__file__).parent / "peers" / "torch_images.py"
    command = [options.python, peer, "--model", model, "--size", size, "--batch", batch, "--dtype", dtype, "--steps", STEPS,
               "--warmup", WARMUP, "--threads", options.threads, *more, *(["--compile"] if options.compile else [])]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    report = json.loads(result.stdout.splitlines()[-1])
    return report["images_per_second"], report["vm_hwm_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS))
    parser.add_argument("--python", required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    print("| | Plimsoll, img/s | PyTorch, img/s | ratio | VmHWM | PyTorch's | share |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for model in options.models:
            for dtype in ("fp32", "bf16"):
                ours, theirs = plimsoll(options, pathlib.Path(scratch), model, dtype), torch(options, model, dtype)
                size, batch, *_ = MODELS[model]
                speeds = f"{ours[0]:.0f} | {theirs[0]:.0f} | {ours[0] / theirs[0]:.2f}"
                marks = f"{ours[1] / 1e6:.0f} MB | {theirs[1] / 1e6:.0f} MB | {ours[1] / theirs[1]:.2f}"
                print(f"| {model}, {batch} x {size}x{size}, {dtype} | {speeds} | {marks} |", flush=True)


if __name__ == "__main__":
    main()
