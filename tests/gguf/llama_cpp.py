#!/usr/bin/env python3
"""Opens the files of `plimsoll export` in llama.cpp, and compares logits, tokens and adapters.

    python3 tests/gguf/llama_cpp.py BINARY [FILE.gguf]...

Needs the packages of export.py and xllamacpp, whose extension holds llama.cpp with its C functions. It is no part of the test
suite. llama.cpp keeps keys and values of attention in fp16, so logits differ by about 1e-3; it does not normalise texts.
With FILEs, larger models such as SmolLM2 and what `scripts/demo chat` writes, it compares these alone, and their greedy answers.
"""
import argparse
import ctypes
import importlib.util
import json
import pathlib
import sys
import tempfile
import unicodedata

import numpy as np
import peft
import torch

import export

QUESTION = "<|im_start|>user\nWhat is the Debian package tar?<|im_end|>\n<|im_start|>assistant\n"


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.POINTER(ctypes.c_int8))]  # fmt: skip


class Parameters(ctypes.Structure):
    """Larger than those of models and contexts, which are passed on as they came."""

    _fields_ = [("bytes", ctypes.c_uint64 * 64)]


def library():
    file = importlib.util.find_spec("xllamacpp").submodule_search_locations[0]
    lib = ctypes.CDLL(str(next(pathlib.Path(file).glob("xllamacpp*.so"))))
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("model_default_params", Parameters, []),
        ("context_default_params", Parameters, []),
        ("model_load_from_file", pointer, [text, Parameters]),
        ("init_from_model", pointer, [pointer, Parameters]),
        ("model_get_vocab", pointer, [pointer]),
        ("vocab_n_tokens", ctypes.c_int32, [pointer]),
        ("model_chat_template", text, [pointer, text]),
        ("decode", ctypes.c_int32, [pointer, Batch]),
        ("get_logits", ctypes.POINTER(ctypes.c_float), [pointer]),
        ("tokenize", ctypes.c_int32, [pointer, text, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                      ctypes.c_bool, ctypes.c_bool]),
        ("adapter_lora_init", pointer, [pointer, text]),
        ("set_adapters_lora", ctypes.c_int32, [pointer, ctypes.POINTER(pointer), ctypes.c_size_t,
                                               ctypes.POINTER(ctypes.c_float)]),
        ("free", None, [pointer]),
        ("model_free", None, [pointer]),
    ):  # fmt: skip
        function = getattr(lib, "llama_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(lib, name, function)
    lib.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, text, pointer)(lambda level, line, data: None)
    lib.llama_log_set(lib.quiet, None)
    lib.llama_backend_init()
    return lib


class Model:
    def __init__(self, lib, file):
        self.lib = lib
        self.model = lib.model_load_from_file(str(file).encode(), lib.model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {file}")
        self.vocab = lib.model_get_vocab(self.model)
        self.size = lib.vocab_n_tokens(self.vocab)

    def logits(self, ids, adapter=None):
        """(len(ids), vocab)"""
        context = self.lib.init_from_model(self.model, self.lib.context_default_params())
        if adapter:
            loaded = self.lib.adapter_lora_init(self.model, str(adapter).encode())
            if not loaded:
                raise SystemExit(f"llama.cpp does not load {adapter}")
            self.lib.set_adapters_lora(context, (ctypes.c_void_p * 1)(loaded), 1, (ctypes.c_float * 1)(1.0))
        wanted = (ctypes.c_int8 * len(ids))(*[1] * len(ids))
        batch = Batch(len(ids), (ctypes.c_int32 * len(ids))(*ids), None, None, None, None, wanted)
        if self.lib.decode(context, batch) != 0:
            raise SystemExit("llama.cpp does not compute")
        values = np.ctypeslib.as_array(self.lib.get_logits(context), (len(ids), self.size)).copy()
        self.lib.free(context)
        return values

    def tokens(self, text):
        """With the tokens that the vocabulary puts around a text; special tokens in it are tokens."""
        data = text.encode()
        out = (ctypes.c_int32 * (len(data) + 8))()
        count = self.lib.tokenize(self.vocab, data, len(data), out, len(out), True, True)
        return list(out[:count])

    def template(self):
        return (self.lib.model_chat_template(self.model, None) or b"").decode()

    def close(self):
        self.lib.model_free(self.model)


def off(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def folders(scratch):
    """A random model of each family with a tokenizer that llama.cpp knows."""
    source = export.lines.Lines(1)
    corpus = [source.line() for _ in range(1000)]
    for name, kind in (("gpt2", "gpt2"), ("qwen2", "qwen2"), ("qwen3", "qwen2"), ("llama", "llama3"), ("llama3 angles", "llama3"),
                       ("mistral", "llama3"), ("linear angles", "smollm2")):  # fmt: skip
        architecture, family, sizes = export.MODELS[name]
        tokenizer = export.lines.KINDS[kind](corpus)
        sizes = {**sizes, "vocab_size": max(tokenizer.get_vocab().values()) + 3}
        if name == "mistral":
            sizes["sliding_window"] = 4096  # llama.cpp has no window for it
        config, model = export.families.random_model(family, sizes)
        folder = scratch / name.replace(" ", "_")
        model.save_pretrained(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        added = tokenizer.get_added_tokens_decoder().values()
        names = {export.SPECIALS[t.content]: t.content for t in added if t.content in export.SPECIALS}
        (folder / "tokenizer_config.json").write_text(json.dumps({**names, "chat_template": export.TEMPLATE}))
        yield name, folder, tokenizer, model


def compare_models(binary, lib, scratch, that):
    for name, folder, tokenizer, model in folders(scratch):
        ids = np.random.default_rng(0).integers(0, len(tokenizer.get_vocab()), (1, 40))
        for kind, allowed in (("F32", 2e-3), ("F16", 2e-3), ("BF16", 2e-2), ("Q8_0", 2e-2)):
            file = scratch / f"{folder.name}.{kind}.gguf"
            export.run(binary, "export", "--weights", folder, "--gguf", file, "--type", kind)
            theirs = Model(lib, file)
            distance = off(theirs.logits(ids[0]), export.forward(binary, scratch, file, ids)[0])
            that(distance < allowed, f"{name} in {kind}: logits, relative L2 {distance:.1e}")
            if kind == "F32":
                that(theirs.template() == export.TEMPLATE, f"{name}: chat template")
                lines = export.lines.Lines(5)
                texts = [unicodedata.normalize("NFC", lines.line()) for _ in range(500)]
                different = [text for text in texts if theirs.tokens(text) != tokenizer.encode(text).ids]
                that(not different, f"{name}: ids of {len(texts)} lines {different[:1]}")
            theirs.close()
        compare_adapter(binary, lib, scratch, name, folder, model, ids, that)


def compare_adapter(binary, lib, scratch, name, folder, model, ids, that):
    words = {"r": 8, "lora_alpha": 24, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**words))
    for part, value in adapted.named_parameters():
        if "lora_B" in part:
            value.data.copy_(0.05 * torch.randn_like(value))
    adapter, file = scratch / f"{folder.name}_adapter", scratch / f"{folder.name}.adapter.gguf"
    adapted.save_pretrained(adapter)
    export.run(binary, "export", "--weights", folder, "--adapter", adapter, "--gguf", file, "--type", "F32")
    with torch.no_grad():
        want = adapted(torch.tensor(ids)).logits.numpy()[0]
    theirs = Model(lib, scratch / f"{folder.name}.F32.gguf")
    distance = off(theirs.logits(ids[0], file), want)
    that(distance < 2e-3, f"{name}: logits with the adapter, against PEFT, relative L2 {distance:.1e}")
    theirs.close()


def compare_answer(binary, lib, scratch, source, that):
    """In F16, as llama.cpp rounds the activations beside blocks. 30 greedy tokens, each of the logits of all before it."""
    file = scratch / f"{source.stem}.F16.gguf"
    export.run(binary, "export", "--weights", source, "--gguf", file, "--type", "F16")
    theirs = Model(lib, file)
    ids = theirs.tokens(QUESTION)
    ours = json.loads(export.run(binary, "tokenize", "--tokenizer", file, "--json", QUESTION))["ids"]
    that(ids == ours, f"{file.name}: {len(ids)} tokens of a prompt")
    distance = off(theirs.logits(ids), export.forward(binary, scratch, file, np.array([ids]))[0])
    that(distance < 1e-2, f"{file.name}: logits, relative L2 {distance:.1e}")
    answer = list(ids)
    for _ in range(30):
        answer.append(int(np.argmax(theirs.logits(answer)[-1])))
    out = export.run(binary, "generate", "--weights", file, "--prompt", QUESTION, "--tokens", 30, "--temperature", 0,
                     "--ignore-eos", "--json", "--memory", "4GiB")  # fmt: skip
    sample = json.loads(out)["samples"][0]
    got = sample["tokens"] if "tokens" in sample else sample["ids"]
    that(got[-30:] == answer[len(ids):], f"{file.name}: 30 greedy tokens")
    theirs.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    arguments = parser.parse_args()
    binary, lib = arguments.binary.resolve(), library()
    scratch, failures = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_llama_cpp_")), 0

    def that(good, text):
        nonlocal failures
        failures += not good
        print(("ok   " if good else "FAIL ") + text, flush=True)

    if not arguments.files:
        compare_models(binary, lib, scratch, that)
    for file in arguments.files:
        compare_answer(binary, lib, scratch, file.resolve(), that)
    print(f"{failures} failures; files in {scratch}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
