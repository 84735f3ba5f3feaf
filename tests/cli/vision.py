#!/usr/bin/env python3
"""Images through the commands: python3 vision.py path/to/plimsoll

Budgets change no bit, batch statistics do not depend on the micro-batch, folders leave as they came, and heads fit the
data.
"""

import json
import math
import os
import pathlib
import random
import struct

from _plimsoll import Test

MIB = 1 << 20
CLASSES = 5
MODELS = {
    "vit": 'kind = "vit"\nlayers = 2\nwidth = 32\nheads = 2\nmlp_width = 64\npatch = 8\nsize = 32\ndropout = 0.1\n',
    "resnet": 'kind = "resnet"\nlayer = "basic"\nstem = "cifar"\nstem_width = 8\ndepths = [1, 1]\nwidths = [8, 16]\n',
    "bottleneck": 'kind = "resnet"\nlayer = "bottleneck"\nstem_width = 8\ndepths = [1, 2]\nwidths = [16, 32]\n'
    'activation = "silu"\n',
    "mobilenet": 'kind = "mobilenet_v2"\nmultiplier = 0.1\ndropout = 0.2\n',
}
SGD = '[optimizer]\nname = "sgd"\nlearning_rate = 0.05\nmomentum = 0.9\n'


def cifar(seed, count, classes=CLASSES):
    """Images whose mean tells their class, in the binary form of CIFAR-10."""
    rng, images = random.Random(seed), []
    for i in range(count):
        label = i % classes
        images.append(bytes([label]) + bytes(min(255, 40 * label + rng.randrange(60)) for _ in range(3072)))
    return b"".join(images)


def write_config(test, name, model, more="", train="train.bin", batch="micro_batch = 8\naccumulation = 3\n"):
    test.write("train.bin", cifar(1, 60))
    test.write("held.bin", cifar(2, 20))
    test.write(
        name,
        f'seed = 3\n[model]\n{model}\n[data]\ntrain = "{train}"\nvalidation = "held.bin"\nformat = "cifar10"\n'
        f"[image]\npad_crop = 2\nflip = true\n[train]\neffective_batch = 24\n{batch}updates = 3\n{SGD}{more}",
    )
    return name


def new(kind):
    return MODELS[kind] + f"classes = {CLASSES}\n"


def group(kind, size):
    return "" if kind == "vit" else f"[norm]\nstat_batch = {size}\n"


def budgets(test):
    """In a budget between floor and ceiling, in memory and with a disk: the planned bytes, and the bits of an ample budget."""
    for kind in MODELS:
        config = write_config(test, f"{kind}.toml", new(kind), group(kind, 4))
        want = None
        for disk in ((), ("--disk", f"{test.folder}/disk:1GiB")):
            bounds = test.succeeds("plan", config, "--memory", "2GiB", *disk, "--json")["bounds"]
            floor, ceiling = bounds["floor_bytes"], bounds["ceiling_bytes"]
            for i, budget in enumerate((floor, (floor + ceiling) // 2, 2 * ceiling)):
                run = f"{kind}-{len(disk)}-{i}"
                report = test.succeeds("train", config, "--memory", budget, *disk, "--run", run, "--audit", "--json")
                for key in ("arena_bytes", "live_bytes"):
                    test.equal(f"{run}: {key}", report["measured"][key], report["predicted"][key])
                got = (report["final"]["parameters_xxh128"], [line["loss_bits"] for line in test.lines(run)])
                want = want or got
                test.equal(f"bits of {run}", got, want)
            below = test.run("train", config, "--memory", floor - 4 * MIB, *disk, "--run", "below")
            test.that(below.code == 3 and "E-PLAN-FIT" in "".join(below.text()), f"below the floor of {kind}: {below.code}")


def groups(test):
    """Statistics are those of groups, for any micro-batch; a group that does not fit is refused."""
    config = write_config(test, "groups.toml", new("resnet"), group("resnet", 4), batch="")
    losses = []
    for micro in (4, 12, 24):
        run = f"micro-{micro}"
        test.succeeds("train", config, "--set", f"train.micro_batch={micro}", "--memory", "1GiB", "--run", run)
        losses.append([line["loss"] for line in test.lines(run)])
    for other in losses[1:]:
        for a, b in zip(losses[0], other, strict=True):
            test.near("the loss of another micro-batch", b, a, 1e-5)
    plan = test.succeeds("plan", config, "--memory", "1GiB", "--json")
    test.equal("the group", plan["batch"]["stat_batch"], 4)
    test.equal("the rest of the micro-batch by groups", plan["batch"]["micro"] % 4, 0)
    test.that("ghost BN(4)" in test.succeeds("plan", config, "--memory", "1GiB"), "the plan names the group")
    test.fails(2, "E-BATCH-NORM", "plan", config, "--set", "norm.stat_batch=5")
    test.fails(2, "E-BATCH-NORM", "plan", config, "--set", "train.micro_batch=6")
    test.fails(2, "E-CONFIG-CONFLICT", "plan", config, "--set", "norm.statistics=running")
    vit = write_config(test, "vit.toml", new("vit"))
    test.fails(2, "E-CONFIG-CONFLICT", "plan", vit, "--set", "norm.stat_batch=4")


def running(test):
    """Layers that normalise by running statistics have no groups: these bound no micro-batch."""
    config = write_config(test, "running.toml", new("resnet"), batch="")
    norms = 'model.freeze=[".*normalization.*"]'
    for change in ("norm.statistics=running", norms):
        more = ["--set", change, "--memory", "1GiB"]
        plan = test.succeeds("plan", config, *more, "--set", "train.micro_batch=3", "--json")
        test.equal(f"the group with {change}", plan["batch"]["stat_batch"], None)
        text = test.succeeds("plan", config, *more)
        test.that("ghost" not in text and "stat_batch" not in text, f"no word of groups with {change}: {text}")
        error = test.fails(2, "E-CONFIG-CONFLICT", "plan", config, *more, "--set", "norm.stat_batch=4")
        test.that(error is not None and any("norm.stat_batch=auto" in each for each in error["try"]), f"the remedy: {error}")
        text = "".join(test.run("plan", config, *more, "--set", "norm.momentum=0.2").text())
        test.that("norm.momentum is not used" in text, f"a note on the momentum with {change}: {text}")
    test.succeeds("train", config, *more, "--set", "train.micro_batch=3", "--run", "frozen")
    half = 'model.freeze=["resnet.embedder.*"]'
    plan = test.succeeds("plan", config, "--set", half, "--memory", "1GiB", "--json")
    test.equal("the group if some norms are trained", plan["batch"]["stat_batch"], 24)


def small_groups(test):
    """A batch with few divisors is noted; the batches of the advice, and rows of levers with the keys of their note, work."""
    config = write_config(test, "small.toml", new("resnet"), batch="")
    plan = test.succeeds("plan", config, "--set", "train.effective_batch=74", "--memory", "100MiB", "--json")
    micro = plan["batch"]["micro"]
    test.equal("the group of 74 samples", plan["batch"]["stat_batch"], 2)
    text = test.succeeds("plan", config, "--set", "train.effective_batch=74", "--memory", "100MiB")
    pins = ["--set", f"train.micro_batch={micro}", "--set", "norm.stat_batch=2"]
    test.that(f"need {' '.join(pins)} as well" in text, f"the keys of rows that keep the micro-batch: {text}")
    lever = next(each for each in plan["levers"] if "plan.recompute=all" in each["arguments"])
    test.equal("arguments of a lever", lever["arguments"][:4], pins)
    more = ["--set", "train.effective_batch=74", *lever["arguments"], "--memory", "100MiB", "--json"]
    again = test.succeeds("plan", config, *more)
    test.equal("the group of a lever", again["batch"]["stat_batch"], 2)
    test.equal("bytes of a lever", again["predicted"]["process_bytes"], lever["process_bytes"])
    solved = test.succeeds("plan", config, "--solve", "train.micro_batch", "--memory", "1GiB", "--json")
    test.equal("the group of a solved micro-batch", solved["batch"]["stat_batch"], 24)
    # The last stage has images of 1 x 1 pixel.
    deep = new("resnet").replace('"cifar"', '"imagenet"').replace("[1, 1]", "[1, 1, 1, 1]").replace("[8, 16]", "[8, 8, 8, 8]")
    config = write_config(test, "one.toml", deep, batch="")
    error = test.fails(2, "E-BATCH-NORM", "plan", config, "--set", "train.effective_batch=37")
    for advice in error["try"] if error else []:
        words = advice.split()
        fits = test.succeeds("plan", config, *words, "--memory", "1GiB", "--json")
        test.that(fits["batch"]["stat_batch"] >= 16, f"groups with {advice}: {fits['batch']}")


def missing_labels(test):
    """Plans without labels have the images that are there; a training needs both."""
    images = [bytes((7 * i + j) % 256 for j in range(400)) for i in range(60)]
    test.write("images.idx", struct.pack(">IIII", 0x803, 60, 20, 20) + b"".join(images))
    test.write("labels.idx", struct.pack(">II", 0x801, 60) + bytes(i % CLASSES for i in range(60)))
    test.write(
        "idx.toml",
        f'[model]\n{new("resnet")}channels = 1\n[data]\ntrain = "images.idx"\nlabels = "labels.idx"\nformat = "idx"\n'
        f'[train]\neffective_batch = 24\nupdates = 2\n{SGD}',
    )
    config = "idx.toml"
    want = test.succeeds("plan", config, "--memory", "1GiB", "--json")
    test.that("assumed" not in want, "nothing is assumed")
    absent = ["--set", "data.labels=absent.idx", "--memory", "1GiB"]
    plan = test.succeeds("plan", config, *absent, "--json")
    test.equal("the assumptions", [each["key"] for each in plan["assumed"]], ["data.labels"])
    test.equal("the plan without labels", plan["plan_hash"], want["plan_hash"])
    note = "".join(test.run("plan", config, *absent).text())
    test.that("labels below the classes of the model" in note, f"the note: {note}")
    test.fails(5, "E-DATA-MISSING", "train", config, *absent, "--run", "absent")
    test.fails(5, "E-DATA-LABELS", "train", config, "--set", "data.labels=", "--memory", "1GiB", "--run", "none")


def stopped(test):
    """A training that is stopped and resumed ends with the bits of one that is not, averages included."""
    config = write_config(test, "whole.toml", new("mobilenet"), group("mobilenet", 4))
    more = ["--set", "optimizer.ema_half_life=50samples", "--memory", "1GiB"]
    whole = test.succeeds("train", config, *more, "--run", "whole", "--json")
    test.succeeds("train", config, *more, "--run", "parts", "--updates", "2")
    parts = test.succeeds("train", "--resume", "--run", "parts", "--memory", "1GiB", "--json")
    for key in ("parameters_xxh128", "loss_bits", "validation_loss", "accuracy"):
        test.equal(key, parts["final"][key], whole["final"][key])


def accuracy(test):
    config = write_config(test, "learns.toml", new("resnet"), group("resnet", 8))
    run = test.succeeds("train", config, "--set", "train.updates=30", "--memory", "1GiB", "--run", "learns", "--json")
    test.that(run["final"]["accuracy"] > 0.5, f"classes are learned: {run['final']['accuracy']}")
    test.equal("top 5 of five classes", run["final"]["accuracy_top5"], 1)
    evaluated = test.succeeds("eval", config, "--weights", "learns/weights", "--json")
    test.equal("accuracy of the weights", evaluated["accuracy"], run["final"]["accuracy"])
    line = json.loads(test.path("learns/eval.jsonl").read_text().splitlines()[-1])
    test.equal("accuracy of the last evaluation", line["accuracy"], run["final"]["accuracy"])
    report = test.succeeds("train", config, "--memory", "1GiB", "--run", "whole-groups", "--json")
    test.equal("the group of a run", report["batch"]["stat_batch"], 8)


def tensors(path):
    """The tensors of a safetensors file as bytes."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    return {
        name: (each["dtype"], each["shape"], content[8 + size + each["data_offsets"][0] : 8 + size + each["data_offsets"][1]])
        for name, each in header.items()
        if name != "__metadata__"
    }


def write_tensors(test, name, content):
    header, at = {}, 0
    for tensor, (dtype, shape, data) in content.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    test.write(name, struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in content.values()))


def folders(test):
    """Weights that are not trained leave with their bits; a new head has the classes of the data."""
    for kind in MODELS:
        config = write_config(test, f"{kind}.toml", new(kind), group(kind, 4))
        test.succeeds("train", config, "--memory", "1GiB", "--run", f"{kind}-base")
        same = write_config(test, f"{kind}-same.toml", f'init = "{kind}-base"\n')
        running = [] if kind == "vit" else ["--set", "norm.statistics=running"]
        rest = ["--set", "optimizer.learning_rate=0", "--memory", "1GiB"]
        test.succeeds("train", same, *rest, *running, "--run", f"{kind}-same")
        before, after = (tensors(test.path(f"{kind}-{run}/weights/model.safetensors")) for run in ("base", "same"))
        test.equal(f"tensors of {kind}", sorted(after), sorted(before))
        test.equal(f"changed tensors of {kind}", [name for name in before if after.get(name) != before[name]], [])
        test.write("three.bin", cifar(4, 60, classes=3))
        three = ["--set", "data.train=three.bin", "--set", "data.validation="]
        error = test.fails(2, "E-CONFIG-CLASSES", "plan", same, *three)
        test.that(error is not None and any("model.head=new" in each for each in error["try"]), f"the remedy: {error}")
        head = [*three, "--set", "model.head=new", "--memory", "1GiB"]
        run = test.succeeds("train", same, *head, "--run", f"{kind}-three", "--json")
        labels = json.loads(test.path(f"{kind}-three/weights/config.json").read_text())["id2label"]
        test.equal(f"labels of {kind}", len(labels), 3)
        test.that(run is not None and abs(test.lines(f"{kind}-three")[0]["loss"] - 1.1) < 1, "a new head knows nothing")
    test.write("ten.bin", cifar(5, 60, classes=9))
    test.fails(2, "E-CONFIG-CLASSES", "plan", "resnet.toml", "--set", "data.train=ten.bin")


def evaluations(test):
    """All that eval proposes, eval takes."""
    config = write_config(test, "eval.toml", new("resnet"))
    test.succeeds("train", config, "--memory", "1GiB", "--run", "evaluated")
    evaluate = ["eval", config, "--weights", "evaluated/weights"]
    test.write("nine.bin", cifar(5, 60, classes=9))
    error = test.fails(2, "E-CONFIG-CLASSES", *evaluate, "--set", "data.validation=nine.bin")
    test.equal("remedies for other classes", error and error["try"], [])
    error = test.fails(3, "E-PLAN-FIT", *evaluate, "--memory", "8MiB")
    for advice in error["try"] if error else []:
        test.succeeds(*evaluate, "--memory", "8MiB", *advice.split(), "--json")
    test.write("faulty.toml", test.path(config).read_text().replace("accumulation = 3", "accumulation = 5"))
    error = test.fails(2, "E-BATCH-3", "eval", "faulty.toml", "--weights", "evaluated/weights")
    test.that(error is not None and not any("train." in each for each in error["try"]), f"remedies of a training: {error}")


def begun(test):
    """init for a folder and data of other classes: the head is kept and refused, or new."""
    config = write_config(test, "begun.toml", new("vit"))
    test.succeeds("train", config, "--memory", "1GiB", "--run", "begun")
    test.write("nine.bin", cifar(5, 60, classes=9))
    init = ["init", "begun/weights", "nine.bin", "--set", "data.format=cifar10", "--memory", "1GiB"]
    error = test.fails(2, "E-CONFIG-CLASSES", *init)
    test.equal("the remedy", error and error["try"], ["--set model.head=new"])
    text = test.succeeds(*init, "--set", "model.head=new", "--json")["text"]
    test.that('head = "new"' in text and "classes = 9" in text, f"head and classes: {text}")
    test.write("nine.toml", text)
    test.succeeds("train", "nine.toml", "--memory", "1GiB", "--updates", 1, "--run", "nine")
    labels = json.loads(test.path("nine/weights/config.json").read_text())["id2label"]
    test.equal("labels of the new head", len(labels), 9)
    test.fails(2, "E-USAGE", *init, "--set", "model.dropout=0")


def adapters(test):
    """LoRA on a ViT with a new head: the head is saved with the adapter, and both are merged."""
    base = write_config(test, "vit.toml", new("vit"))
    test.succeeds("train", base, "--memory", "1GiB", "--run", "adapted")
    test.write("three.bin", cifar(4, 60, classes=3))
    lora = '[adapter]\nkind = "lora"\nrank = 4\n'
    config = write_config(test, "lora.toml", 'init = "adapted"\nhead = "new"\n', lora, train="three.bin")
    test.succeeds("train", config, "--memory", "1GiB", "--set", "data.validation=", "--run", "lora")
    saved = json.loads(test.path("lora/weights/adapter_config.json").read_text())
    test.equal("modules that are saved whole", saved["modules_to_save"], ["classifier"])
    names = tensors(test.path("lora/weights/adapter_model.safetensors"))
    test.equal("the head", names["base_model.model.classifier.weight"][1], [3, 32])
    test.succeeds("merge", "--weights", "adapted/weights", "--adapter", "lora/weights", "--out", "merged")
    test.equal("the merged head", tensors(test.path("merged/model.safetensors"))["classifier.weight"][1], [3, 32])
    evaluate = ["eval", config, "--set", "data.validation=three.bin", "--json"]
    one = test.succeeds(*evaluate, "--weights", "adapted/weights", "--adapter", "lora/weights")
    two = test.succeeds(*evaluate, "--weights", "merged")
    test.near("the loss of the merged model", two["loss"], one["loss"], 1e-5)
    base_without_head(test, config, evaluate, one["loss"])


def base_without_head(test, config, evaluate, loss):
    """The head of an adapter is new in the merged folder; names have the prefix of a model with a head."""
    names = tensors(test.path("adapted/weights/model.safetensors"))
    bare = {name.removeprefix("vit."): each for name, each in names.items() if not name.startswith("classifier.")}
    bare["pooler.dense.bias"] = ("F32", [32], bytes(128))
    write_tensors(test, "bare/model.safetensors", bare)
    base = json.loads(test.path("adapted/weights/config.json").read_text())
    described = {key: value for key, value in base.items() if "label" not in key} | {"architectures": ["ViTModel"]}
    test.write("bare/config.json", json.dumps(described))
    pair = ["--weights", "bare", "--adapter", "lora/weights"]
    test.succeeds("merge", *pair, "--out", "headed")
    merged = tensors(test.path("headed/model.safetensors"))
    test.equal("names of a merged model", sorted(merged), sorted(names))
    test.equal("the new head", merged["classifier.weight"][1], [3, 32])
    headed = json.loads(test.path("headed/config.json").read_text())
    test.equal("labels of a merged model", len(headed["id2label"]), 3)
    test.equal("its class", headed["architectures"], ["ViTForImageClassification"])
    test.near("the loss on a base without a head", test.succeeds(*evaluate, *pair)["loss"], loss, 1e-6)
    test.near("the loss of the merged model", test.succeeds(*evaluate, "--weights", "headed")["loss"], loss, 1e-5)
    whole = ["--set", "model.init=bare", "--set", "adapter.kind=none", "--set", "data.validation="]
    test.succeeds("train", config, *whole, "--memory", "1GiB", "--run", "headed-run")
    trained = tensors(test.path("headed-run/weights/model.safetensors"))
    test.equal("names of a model with a new head", sorted(trained), sorted(names))


def labels(test):
    """A merged head of as many classes as that of the base keeps their names."""
    base = write_config(test, "vit.toml", new("vit"))
    test.succeeds("train", base, "--memory", "1GiB", "--run", "named")
    file = test.path("named/weights/config.json")
    described = json.loads(file.read_text())
    described["id2label"] = {str(i): f"thing {i}" for i in range(CLASSES)}
    file.write_text(json.dumps(described))
    lora = '[adapter]\nkind = "lora"\nrank = 4\nmodules_to_save = ["classifier"]\n'
    config = write_config(test, "lora.toml", 'init = "named"\n', lora)
    test.succeeds("train", config, "--memory", "1GiB", "--run", "named-lora")
    test.succeeds("merge", "--weights", "named/weights", "--adapter", "named-lora/weights", "--out", "named-merged")
    merged = json.loads(test.path("named-merged/config.json").read_text())
    test.equal("labels of a merged head", merged["id2label"], described["id2label"])


def timm_vit(test):
    """LoRA on a folder of timm, whose position embedding has no module; the new head is merged."""
    rng, width = random.Random(6), 48
    shapes = {"cls_token": [1, 1, width], "pos_embed": [1, 17, width], "patch_embed.proj.weight": [width, 3, 8, 8]}
    shapes |= {"patch_embed.proj.bias": [width], "norm.weight": [width], "norm.bias": [width]}
    block = {"norm1": [width], "attn.qkv": [3 * width, width], "attn.proj": [width, width], "norm2": [width]}
    for name, shape in (block | {"mlp.fc1": [96, width], "mlp.fc2": [width, 96]}).items():
        shapes |= {f"blocks.0.{name}.weight": shape, f"blocks.0.{name}.bias": shape[:1]}
    write_tensors(
        test,
        "timm/model.safetensors",
        {
            name: ("F32", shape, struct.pack(f"<{math.prod(shape)}f", *(rng.gauss(0, 0.1) for _ in range(math.prod(shape)))))
            for name, shape in shapes.items()
        },
    )
    described = {"architecture": "vit_tiny_patch8_32", "num_classes": 0, "pretrained_cfg": {"input_size": [3, 32, 32]}}
    test.write("timm/config.json", json.dumps(described))
    config = write_config(test, "timm.toml", 'init = "timm"\nhead = "new"\n', '[adapter]\nkind = "lora"\nrank = 4\n')
    test.succeeds("train", config, "--memory", "1GiB", "--run", "timm-lora")
    pair = ["--weights", "timm", "--adapter", "timm-lora/weights"]
    test.succeeds("merge", *pair, "--out", "timm-merged")
    merged = tensors(test.path("timm-merged/model.safetensors"))
    test.equal("tensors of a merged folder of timm", sorted(merged), sorted([*shapes, "head.weight", "head.bias"]))
    test.equal("its classes", json.loads(test.path("timm-merged/config.json").read_text())["num_classes"], CLASSES)
    one, two = (test.succeeds("eval", config, *weights, "--json")["loss"] for weights in (pair, ["--weights", "timm-merged"]))
    test.near("the loss of the merged folder of timm", two, one, 1e-5)


def notes(test):
    """The dropout and the statistics of a folder of MobileNetV2, which are transformers' defaults."""
    told = ["a dropout of 0.8 leaves 20 % of the features", "by 0.997 of each batch"]
    config = write_config(test, "new.toml", new("mobilenet"), group("mobilenet", 4))
    text = "".join(test.run("plan", config, "--memory", "1GiB").text())
    test.equal("notes of a new model", [note for note in told if note in text], [])
    test.succeeds("train", config, "--memory", "1GiB", "--run", "notes")
    file = test.path("notes/weights/config.json")
    described = json.loads(file.read_text())
    del described["classifier_dropout_prob"]
    file.write_text(json.dumps(described))
    folder = write_config(test, "folder.toml", 'init = "notes"\n', group("mobilenet", 4))
    text = "".join(test.run("plan", folder, "--memory", "1GiB").text())
    test.equal("notes of a folder", [note for note in told if note in text], told)
    text = "".join(test.run("plan", folder, "--set", "model.dropout=0.2", "--memory", "1GiB").text())
    test.equal("notes of a folder with another dropout", [note for note in told if note in text], told[1:])


def refused(test):
    """Commands and keys of tokens."""
    config = write_config(test, "resnet.toml", new("resnet"), group("resnet", 4))
    test.succeeds("train", config, "--memory", "1GiB", "--run", "refused")
    for command, *more in (["generate", "--prompt", "a"], ["export", "--gguf", "x.gguf"]):
        result = test.run(command, "--weights", "refused/weights", *more)
        test.that(result.code in (2, 5) and "E-INTERNAL" not in result.text()[1], f"{command}: {result.text()[1]}")
    for setting in ("train.effective_tokens=100", "model.context=64", "batch.packing=true", "train.z_loss=0.1"):
        test.fails(2, "E-CONFIG-CONFLICT", "plan", config, "--set", setting)
    for targets in ("all-linear", '["1"]'):
        lora = ("--set", "adapter.kind=lora", "--set", f"adapter.targets={targets}", "--set", "norm.stat_batch=auto")
        error = test.fails(2, "E-ADAPTER-TARGET", "plan", config, *lora)
        test.that(error is not None and any("adapter.kind=none" in each for each in error["try"]), f"the remedy: {error}")
    test.fails(2, "E-CUDA-OP", "plan", config, "--machine", f"{machines()}/h100.json", "--memory", "1GiB")
    test.fails(2, "E-CONFIG-PATCH", "plan", write_config(test, "p.toml", new("vit").replace("patch = 8", "patch = 7")))
    test.fails(2, "E-CONFIG-STAGES", "plan", write_config(test, "s.toml", new("resnet").replace("[8, 16]", "[8]")))
    test.write("file.pth", b"\x80\x02")
    error = test.fails(5, "E-FORMAT-WEIGHTS", "plan", write_config(test, "pth.toml", 'init = "file.pth"\n'))
    test.that(error is not None and "save_file" in json.dumps(error), "the lines that convert it")


def machines():
    return pathlib.Path(os.environ["PLIMSOLL_SOURCE_DIR"]) / "machines"


def main():
    test = Test("vision")
    test.run_parts(budgets, groups, running, small_groups, missing_labels, stopped, accuracy, folders)
    test.run_parts(evaluations, begun, adapters, labels, timm_vit, notes, refused)
    test.finish()


if __name__ == "__main__":
    main()
