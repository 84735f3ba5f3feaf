#!/usr/bin/env python3
"""All commands open models and adapters in one way: python3 opening_models.py path/to/plimsoll

NaN and infinity are refused with file and tensor, and so are incomplete adapters. A merged model talks like the adapter. A run
continues only over the model and the adapter with which it began, at any place.
"""

import json
import os
import shlex
import shutil
import struct

import gguf
from _plimsoll import Test, prose
from adapters import header_of, logits, sets, write_tensors
from train_conversations import prepare

NAN, INFINITE = struct.pack("<f", float("nan")), struct.pack("<f", float("-inf"))
MODEL = {"kind": '"llama"', "layers": 2, "width": 32, "heads": 2, "mlp_width": 64, "context": 32, "vocab": 256}
SETS = ("train.effective_batch=2", "train.micro_batch=2", "schedule.name=constant")
RUN = ["--memory", "128MiB", *(word for each in SETS for word in ("--set", each))]
MATRIX = "model.layers.1.mlp.up_proj.weight"
LORA = ["adapter.kind=lora", "adapter.rank=2"]


def begin(test):
    """A model as a folder, a configuration over it, an adapter of it, and ids to look at."""
    if test.path("base").exists():
        return
    text = test.path("config.toml").read_text()
    rest = text[text.index("[data]") :].replace('validation = "validation.txt"\n', "")
    keys = "".join(f"{key} = {value}\n" for key, value in MODEL.items())
    test.write("new.toml", f"seed = 3\n[model]\n{keys}{rest}")
    test.succeeds("train", "new.toml", *RUN, "--updates", 1, "--run", "first", "--json")
    shutil.copytree(test.path("first/weights"), test.path("base"))
    test.write("on.toml", f'seed = 5\n[model]\ninit = "base"\ncontext = 32\n{rest}')
    test.succeeds("train", "on.toml", *RUN, *sets(LORA), "--updates", 2, "--run", "lora", "--json")
    ids = struct.pack("<20i", *((7 * i * i) % 256 for i in range(20)))
    header = {"input_ids": {"dtype": "I32", "shape": [1, 20], "data_offsets": [0, 80]}}
    write_tensors(test.path("ids.safetensors"), header, ids)


def changed(test, source, name, change):
    """A copy of a folder with one safetensors file changed by change(header, data)."""
    folder = test.path(name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(test.path(source), folder)
    file = next(file for file in ("model.safetensors", "adapter_model.safetensors") if (folder / file).exists())
    header, data = header_of(folder / file)
    write_tensors(folder / file, *change(header, bytearray(data)))
    return name


def put(tensor, element, raw):
    def change(header, data):
        at = header[tensor]["data_offsets"][0] + len(raw) * element
        data[at : at + len(raw)] = raw
        return header, bytes(data)

    return change


def as_16_bits(dtype, raw):
    """All tensors as zeros of a type, except one element."""

    def change(header, data):
        begin, tensors = 0, {}
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            size = (tensor["data_offsets"][1] - tensor["data_offsets"][0]) // 2
            tensors[name] = {"dtype": dtype, "shape": tensor["shape"], "data_offsets": [begin, begin + size]}
            begin += size
        return put(MATRIX, 3, raw)(tensors, bytearray(begin))

    return change


def commands(weights, adapter=()):
    """Every command that reads the weights of a model. Exports come last."""
    model = ["--weights", weights, *(("--adapter", *adapter) if adapter else ())]
    begins = [f"model.init={weights}", *(f"adapter.init={each}" for each in adapter)]
    yield ["eval", "on.toml", *model, "--set", "data.validation=validation.txt"]
    yield ["generate", *model, "--prompt", "x", "--tokens", 2]
    yield ["forward", *model, "--inputs", "ids.safetensors", "--out", "o.safetensors"]
    yield ["train", "on.toml", *RUN, *sets(begins), "--run", "refused"]
    if adapter:
        yield ["merge", *model, "--out", "merged"]
        yield ["export", *model, "--gguf", "o.gguf", "--type", "F32"]
    else:
        yield ["merge", *model, "--adapter", "lora", "--out", "merged"]
        yield ["train", "on.toml", *RUN, *sets([*begins, *LORA]), "--run", "refused"]


def numbers(test):
    """NaN and infinite numbers, in each type and each place, end every command with exit 5, the file and the tensor."""
    begin(test)

    def refused(what, place, tensor, command):
        error = test.fails(5, "E-FORMAT-NAN", *command)
        shutil.rmtree(test.path("refused"), ignore_errors=True)
        if error is not None:
            test.that(tensor in error["message"] and place in error["where"], f"{what}, {command[0]}: told: {error}")
        return error

    # Element 70 of a matrix of 32 columns.
    folder = changed(test, "base", "nan", put(MATRIX, 70, NAN))
    for command in commands(folder):
        error = refused("NaN", "nan/model.safetensors", MATRIX, command)
        test.that(error is None or "NaN at [2, 6]" in error["message"], f"the element: {error}")
    folder = changed(test, "base", "infinite", put("model.norm.weight", 31, INFINITE))
    for command in commands(folder):
        refused("an infinite number", "infinite/model.safetensors", "model.norm.weight", command)
    for dtype, raw in (("BF16", b"\xc0\xff"), ("BF16", b"\x80\x7f"), ("F16", b"\x01\x7c"), ("F16", b"\x00\xfc")):
        folder = changed(test, "base", "narrow", as_16_bits(dtype, raw))
        refused(dtype, "narrow/model.safetensors", MATRIX, ["generate", "--weights", folder, "--prompt", "x"])
    # Every command that takes an adapter; the last element of B.
    tensor = "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight"
    folder = changed(test, "lora/weights", "nan-lora", put(tensor, 63, NAN))
    for command in [*commands("base", (folder,))][:-1]:  # no GGUF file holds a model of bytes
        refused("an adapter", "nan-lora/adapter_model.safetensors", tensor, command)
    # Numbers next to the model are not its weights.
    text = test.succeeds("generate", "--weights", "base", "--prompt", "x", "--tokens", 2)
    test.that("note" not in text, "the base itself is fine")


def blocks(test):
    """Scales of blocks in a GGUF file, decoded and as they are; tensors of fp32 beside them."""
    begin(test)
    whole = gguf.gguf(gguf.model())
    test.write("whole.gguf", whole)
    test.write("blocks.toml", 'seed = 3\n[model]\ninit = "whole.gguf"\ncontext = 32\n'
               '[data]\ntrain = "train.txt"\nformat = "bpe"\n'
               "[train]\neffective_batch = 2\nmicro_batch = 2\nupdates = 1\n")  # fmt: skip
    model = gguf.model()
    down = next(matrix for (_, name), matrix in model.items() if name == "blk.1.ffn_down.weight")
    norm = next(matrix for (_, name), matrix in model.items() if name == "output_norm.weight")
    for name, matrix, raw in (("blk.1.ffn_down.weight", down, b"\x00\x7e"), ("output_norm.weight", norm, NAN)):
        kept = matrix.stored[-1]
        # The scale of the last block of the last row, or the last number.
        at = len(kept) - (34 if matrix is down else 4)
        matrix.stored[-1] = kept[:at] + raw + kept[at + len(raw) :]
        test.write("bad.gguf", gguf.gguf(model))
        matrix.stored[-1] = kept
        for base in ("none", "file"):
            adapted = sets([*LORA, "model.init=bad.gguf", f"quantize.base={base}"])
            stored = ["--set", f"quantize.base={base}"]
            for command in (["generate", "--weights", "bad.gguf", "--prompt", "ab", "--tokens", 2, *stored],
                            ["train", "blocks.toml", "--memory", "128MiB", *adapted, "--run", "refused"]):  # fmt: skip
                error = test.fails(5, "E-FORMAT-NAN", *command)
                shutil.rmtree(test.path("refused"), ignore_errors=True)
                told = error is not None and name in error["message"] and error["where"].endswith("bad.gguf")
                test.that(told, f"{name}, base {base}: {error}")
        for kind in ("F32", "Q8_0"):
            error = test.fails(5, "E-FORMAT-NAN", "export", "--weights", "bad.gguf", "--gguf", "o.gguf", "--type", kind)
            test.that(error is not None and name in error["message"], f"export of {name}: {error}")
    train = ["train", "blocks.toml", "--memory", "128MiB", *sets(LORA), "--run", "on-blocks", "--json"]
    test.succeeds(*train)
    tensor = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"
    folder = changed(test, "on-blocks/weights", "nan-on-blocks", put(tensor, 0, NAN))
    error = test.fails(5, "E-FORMAT-NAN", "export", "--adapter", folder, "--gguf", "o.gguf", "--type", "F32")
    test.that(error is not None and tensor in error["message"], f"export of an adapter: {error}")
    test.that(not test.path("o.gguf").exists(), "nothing is written")


def checkpoints(test):
    """A checkpoint with bytes that were saved and are no numbers, in format 1 without checksums."""
    begin(test)
    test.succeeds("train", "on.toml", *RUN, "--updates", 2, "--run", "saved", "--json")
    state = test.state("saved")
    counters = json.loads(state.with_name("manifest.json").read_text())
    counters["updates"] = counters.pop("update")
    text = json.dumps(counters).encode()
    header, data = header_of(state)
    file = test.path("saved/checkpoint.safetensors")
    for name, each in header.items():
        if name != "__metadata__":
            each["data_offsets"] = [at + len(text) for at in each["data_offsets"]]
    header["plimsoll.progress"] = {"dtype": "U8", "shape": [len(text)], "data_offsets": [0, len(text)]}
    data = bytearray(text + bytes(data))
    shutil.rmtree(test.path("saved/checkpoints"))
    header.pop("__metadata__", None)
    write_tensors(file, *put(MATRIX, 70, NAN)(header, data))
    error = test.fails(5, "E-FORMAT-NAN", "train", "--run", "saved", "--resume", "--updates", 3)
    test.that(error and MATRIX in error["message"] and "[2, 6]" in error["message"], f"the element: {error}")


def incomplete(test):
    """An adapter that lacks a layer, a part of one, or numbers of a matrix, and one that has more: one answer of all commands."""
    begin(test)
    prefix = "base_model.model.model.layers."

    def packed(data, tensors):
        kept, places, at = b"", {}, 0
        for key, tensor in tensors.items():
            raw = data[tensor["data_offsets"][0] : tensor["data_offsets"][1]]
            places[key] = {**tensor, "data_offsets": [at, at + len(raw)]}
            at, kept = at + len(raw), kept + raw
        return places, bytes(kept)

    def smaller(header, data):
        name = prefix + "0.mlp.down_proj.lora_A.weight"
        begin, end = header[name]["data_offsets"]
        header[name] = {**header[name], "shape": [1, 64], "data_offsets": [begin, begin + (end - begin) // 2]}
        return packed(data, {key: tensor for key, tensor in header.items() if key != "__metadata__"})

    def gone(ending):
        def change(header, data):
            kept = {k: v for k, v in header.items() if k != "__metadata__" and not k.startswith(prefix + ending)}
            return packed(data, kept)

        return change

    for what, change in (("a layer", gone("1.")), ("a module", gone("0.mlp.up_proj")), ("B of one", gone("0.mlp.up_proj.lora_B")),
                         ("A of one", gone("0.mlp.up_proj.lora_A")), ("rows", smaller)):  # fmt: skip
        folder = changed(test, "lora/weights", "lacking", change)
        for command in commands("base", (folder,)):
            error = test.fails(5, "E-ADAPTER-TENSOR", *command)
            test.that(error is not None and "lora_" in error["message"], f"{what}, {command[0]}: {error}")
            test.that(not test.path("merged").exists() and not test.path("o.gguf").exists(), f"{what}: nothing is written")
    # A base that lacks a tensor, or has one more, under an adapter.
    lacking = changed(test, "base", "lacking-base", lambda header, data: renamed(header, data))
    for command in commands(lacking, ("lora",)):
        test.fails(5, "E-FORMAT-WEIGHTS", *command)
    test.fails(5, "E-FORMAT-WEIGHTS", "plan", "on.toml", "--set", f"model.init={lacking}")
    test.fails(5, "E-FORMAT-WEIGHTS", "init", lacking, "train.txt")


def renamed(header, data):
    header["model.more.weight"] = header.pop("model.norm.weight")
    return header, bytes(data)


OWN = (
    "{% for message in messages %}[{{ message.role | upper }}]{% if message.role == 'assistant' %}{% generation %}"
    "{{ message.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[ASSISTANT]{% endif %}"
)


def talks(test):
    """A merged folder, and a GGUF file of it, talk as the adapter does."""
    config = prepare(test)
    test.succeeds("train", config, "--updates", 1, "--memory", "2GiB", "--run", "chat", "--json")
    plain = test.path("plain")
    shutil.copytree(test.path("chat/weights"), plain)
    mute = test.path("mute")
    shutil.copytree(plain, mute)
    (mute / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    test.write("own.jinja", OWN)
    test.write("over.toml", config.read_text()[config.read_text().index("[data]") :])

    def rendered(*model):
        said = test.succeeds("generate", "--chat", *model, "--prompt", "red sea", "--tokens", 3, "--temperature", 0, "--memory",
                             "1GiB", "--ignore-eos", "--json")  # fmt: skip
        return said and (said["samples"][0]["rendered"], said["samples"][0]["tokens"], said["chat"]["end_tokens"])

    for base, own in (("plain", True), ("mute", True), ("plain", False)):
        run, merged = f"talk-{base}-{own}", f"merged-{base}-{own}"
        given = [f"model.init={base}", "model.context=160", *LORA, *(["data.template=own.jinja"] if own else [])]
        test.succeeds("train", "over.toml", "--memory", "2GiB", "--updates", 1, *sets(given), "--run", run, "--json")
        result = test.run("merge", "--adapter", run, "--out", merged)
        said = " ".join(result.text())
        test.equal(f"exit code of merge: {said}", result.code, 0)
        test.equal("whether the note on templates is there", "note: the chat template is that of the adapter" in said, own)
        test.that(f"wrote {merged}: {test.path(base)} with 14 layers changed by {run}/weights" in said, f"the base stays: {said}")
        want = rendered("--adapter", run)
        test.that(want and want[0].startswith("[USER]" if own else "<|im_start|>user"), f"the adapter's template: {want}")
        test.equal(f"the merged model of {run}", rendered("--weights", merged), want)
        test.succeeds("export", "--weights", merged, "--gguf", f"{merged}.gguf", "--type", "F32")
        test.equal(f"template in {merged}.gguf", b"message.role | upper" in test.path(f"{merged}.gguf").read_bytes(), own)
        result = test.run("export", "--weights", run, "--gguf", "a.gguf", "--type", "F32")
        said = " ".join(result.text())
        test.that("holds an adapter" in said and f"plimsoll merge --adapter {run}" in said, f"export says what it writes: {said}")
        test.equal("whether export says that the template is left out", "chat template of its own" in said, own)
    # An adapter of elsewhere has its template in a key, and the base in a file: the key counts.
    shutil.copytree(plain, test.path("filed"))
    test.write("filed/chat_template.jinja", "{{ bos_token }}{% for m in messages %}({{ m.content }}){% endfor %}")
    shutil.copytree(test.path("talk-plain-False/weights"), test.path("keyed"))
    for name in ("generation_config.json", "config.json"):
        test.path(f"keyed/{name}").unlink(missing_ok=True)
    test.succeeds("merge", "--weights", "filed", "--adapter", "keyed", "--out", "merged-keyed", "--json")
    test.equal("a key beats a file", rendered("--weights", "merged-keyed"), rendered("--weights", "filed", "--adapter", "keyed"))
    # And one that brings a tokenizer without a template keeps the template of the base, though that is a key.
    shutil.copytree(test.path("keyed"), test.path("silent"))
    test.path("silent/tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "mine": True}))
    report = test.succeeds("merge", "--weights", "plain", "--adapter", "silent", "--out", "merged-silent", "--json")
    test.equal("what came from where", report and (report["tokenizer"], report["chat_template"]), ("adapter", "base"))
    adapted = rendered("--weights", "plain", "--adapter", "silent")
    test.equal("the template stays", rendered("--weights", "merged-silent"), adapted)
    test.that(json.loads(test.path("merged-silent/tokenizer_config.json").read_text()).get("mine"), "the adapter's tokenizer")


def linked(test):
    """A base as the cache of a hub has it: files are links, and weights of other programs lie beside them. The merged folder has
    neither; a tokenizer_config.json that is nested without end says nothing."""
    begin(test)
    config = prepare(test)
    test.succeeds("train", config, "--updates", 1, "--memory", "2GiB", "--run", "for-hub", "--json")
    base = test.path("for-hub/weights")
    test.write("over-hub.toml", config.read_text()[config.read_text().index("[data]") :])
    given = sets(["model.init=for-hub/weights", "model.context=160", *LORA])
    test.succeeds("train", "over-hub.toml", *given, "--updates", 1, "--memory", "2GiB", "--run", "of-hub", "--json")
    snapshot, blobs = test.path("hub/snapshots/1"), test.path("hub/blobs")
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(base.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    for name in ("original/consolidated.00.pth", "pytorch_model.bin", "consolidated.safetensors", ".gitattributes"):
        (snapshot / name).parent.mkdir(exist_ok=True)
        (snapshot / name).write_bytes(b"of the base")
    test.succeeds("merge", "--weights", "hub/snapshots/1", "--adapter", "of-hub", "--out", "from-hub", "--json")
    merged = sorted(test.path("from-hub").iterdir())
    names = {path.name for path in merged}
    test.that({path.name for path in base.iterdir()} <= names | {"chat_template.jinja"}, f"all of the base is there: {names}")
    test.that(all(path.is_file() and not path.is_symlink() for path in merged), "files, no links")
    others = {"original", "pytorch_model.bin", "consolidated.safetensors", ".gitattributes"}
    test.that(not names & others, f"and no more: {names}")
    two = logits(test, "--weights", "from-hub"), logits(test, "--weights", "hub/snapshots/1", "--adapter", "of-hub")
    test.that(max(abs(a - b) for a, b in zip(*two)) < 1e-5, "its logits are those of the adapter")
    (snapshot / "tokenizer_config.json").unlink(missing_ok=True)
    (snapshot / "tokenizer_config.json").write_text('{"a":' * 200000 + "1" + "}" * 200000)
    result = test.run("merge", "--weights", "hub/snapshots/1", "--adapter", "of-hub", "--out", "from-hub", "--json")
    test.that(result.code in (0, 5), f"a nested tokenizer_config.json: exit {result.code}: {result.err[-200:]}")


def edit(path, **keys):
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def arithmetic(test):
    """The arithmetic in config.json must equal that at the start of the run, for all weights and for an adapter."""
    begin(test)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    for name, given in (("full", []), ("adapted", LORA), ("frozen", ["model.freeze=model.embed_tokens"])):
        shutil.copytree(test.path("base"), test.path(f"of-{name}"))
        given = sets([*given, f"model.init=of-{name}"])
        test.succeeds("train", "on.toml", *RUN, *given, "--updates", 2, "--run", f"whole-{name}", "--json")
        test.succeeds("train", "on.toml", *RUN, *given, "--updates", 1, "--run", f"run-{name}", "--json")
        config = test.path(f"of-{name}/config.json")
        before = config.read_text()
        resume = ["train", "--run", f"run-{name}", "--resume", "--updates", 2]
        for change, told in (({"rms_norm_eps": 1e-3}, "norm_epsilon"), ({"rope_theta": 5e5, "rope_parameters": None}, "theta"),
                             ({"rope_scaling": scaled, "rope_parameters": scaled}, "scaling: nothing -> linear"),
                             ({"hidden_act": "gelu_pytorch_tanh"}, "activation"),
                             ({"pad_token_id": 7}, "padding")):  # fmt: skip
            edit(config, **change)
            error = test.fails(2, "E-RESUME", *resume)
            test.that(error and told in error["message"], f"{name}: {change}: {error}")
            config.write_text(before)
        edit(config, transformers_version="9", my_note="changes nothing")
        report = test.succeeds(*resume, "--json")
        test.equal(f"weights of {name}", report and report["final"]["parameters_xxh128"],
                   test.report(f"whole-{name}")["final"]["parameters_xxh128"])  # fmt: skip
    edit(test.path("of-full/config.json"), rms_norm_eps=1e-3)
    error = test.fails(2, "E-RESUME", "train", "--run", "run-full", "--resume", "--updates", 3)
    test.that("run-full/weights/config.json" in error["expected"], f"the copy is named: {error}")
    result = test.run(*shlex.split(error["try"][0])[1:], "--updates", 3)
    test.equal("exit code of the remedy", result.code, 0)
    test.that("norm_epsilon" in result.text()[1], f"--force tells it: {result.text()[1]}")
    test.succeeds("train", "--run", "run-full", "--resume", "--updates", 4)
    kept = json.loads(test.path("run-full/weights/config.json").read_text())
    test.equal("what the weights say of it from then on", kept["rms_norm_eps"], 1e-3)


def provenance(test):
    """A model or adapter other than that of the run's start is refused; the same one at another place is accepted."""
    begin(test)
    shutil.copytree(test.path("base"), test.path("mine"))
    changed(test, "base", "other", put(MATRIX, 5, struct.pack("<f", 0.5)))
    shutil.copytree(test.path("lora/weights"), test.path("begun"))
    tensor = "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight"
    changed(test, "lora/weights", "begun-other", put(tensor, 1, struct.pack("<f", 0.5)))
    runs = {"full": [], "adapted": LORA, "frozen": ["model.freeze=model.embed_tokens"], "continued": ["adapter.init=begun"]}
    for name, given in runs.items():
        given = sets([*given, "model.init=mine"])
        test.succeeds("train", "on.toml", *RUN, *given, "--updates", 2, "--run", f"all-{name}", "--json")
        test.succeeds("train", "on.toml", *RUN, *given, "--updates", 1, "--run", f"cut-{name}", "--json")
        resume = ["train", "--run", f"cut-{name}", "--resume", "--updates", 2]
        adapter = name in ("adapted", "continued")
        code = (5, "E-CKPT-FROZEN") if adapter else (2, "E-RESUME")
        before = test.path(f"cut-{name}/config.resolved.toml").read_bytes()
        error = test.fails(*code, *resume, "--set", "model.init=other")
        test.that(error and "other" in error["message"], f"{name}: the other one is named: {error}")
        test.fails(*code, "train", "on.toml", *resume[1:], "--set", "model.init=other")
        test.equal("the run is untouched", test.path(f"cut-{name}/config.resolved.toml").read_bytes(), before)
        # The advice is to begin another run with that model.
        remedy = next(each for each in error["try"] if "model.init=" in each and "--resume" not in each)
        test.succeeds(*shlex.split(remedy)[1:], "--updates", 1)
    test.fails(2, "E-RESUME", "train", "--run", "cut-continued", "--resume", "--updates", 2, "--set", "adapter.init=begun-other")

    os.rename(test.path("mine"), test.path("moved"))
    shutil.move(test.path("begun"), test.path("begun-moved"))
    gone = test.fails(5, "E-CKPT-FROZEN", "train", "--run", "cut-adapted", "--resume", "--updates", 2)
    test.that(gone and "--resume --set model.init=" in gone["try"][0], f"the remedy for a base that has moved: {gone}")
    for name in runs:
        given = ["--set", "model.init=moved", *(["--set", "adapter.init=begun-moved"] if name == "continued" else [])]
        file = ["on.toml"] if name in ("frozen", "adapted") else []
        report = test.succeeds("train", *file, "--run", f"cut-{name}", "--resume", "--updates", 2, *given, "--json")
        test.equal(f"weights of {name}, moved", report and report["final"]["parameters_xxh128"],
                   test.report(f"all-{name}")["final"]["parameters_xxh128"])  # fmt: skip
        test.succeeds("train", "--run", f"cut-{name}", "--resume", "--updates", 3)
    named = json.loads(test.path("cut-adapted/weights/adapter_config.json").read_text())["base_model_name_or_path"]
    test.equal("the base that the adapter names", named, str(test.path("moved")))
    test.that(len(logits(test, "--adapter", "cut-adapted")) > 0, "the adapter finds its base")


def moved_files(test):
    """A GGUF file and a data file that have moved."""
    begin(test)
    test.write("here/model.gguf", gguf.gguf(gguf.model()))
    test.write("here/text.txt", prose(4, 6000))
    test.write("file.toml", 'seed = 3\n[model]\ninit = "here/model.gguf"\ncontext = 32\n[data]\ntrain = "here/text.txt"\n'
               'format = "bpe"\n[train]\neffective_batch = 2\nmicro_batch = 2\nupdates = 2\n')  # fmt: skip
    runs = {"gguf-full": [], "gguf-lora": LORA, "gguf-file": [*LORA, "quantize.base=file"]}
    for name, given in runs.items():
        train = ["train", "file.toml", "--memory", "128MiB", *sets(given)]
        test.succeeds(*train, "--run", f"all-{name}", "--json")
        test.succeeds(*train, "--run", f"cut-{name}", "--updates", 1, "--json")
    test.path("there").mkdir()
    for file in ("model.gguf", "text.txt"):
        os.rename(test.path("here") / file, test.path("there") / file)
    moved = sets(["model.init=there/model.gguf", "data.train=there/text.txt"])
    for name in runs:
        file = ["file.toml"] if name == "gguf-lora" else []
        error = test.run("train", "--run", f"cut-{name}", "--resume", "--json").json()
        test.that(error and error.get("code", "").startswith("E-"), f"what has gone is told: {error}")
        report = test.succeeds("train", *file, "--run", f"cut-{name}", "--resume", *moved, "--json")
        test.equal(f"weights of {name}, moved", report and report["final"]["parameters_xxh128"],
                   test.report(f"all-{name}")["final"]["parameters_xxh128"])  # fmt: skip


if __name__ == "__main__":
    test = Test("opening_models")
    test.run_parts(numbers, blocks, checkpoints, incomplete, talks, linked, arithmetic, provenance, moved_files)
    test.finish()
