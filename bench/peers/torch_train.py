#!/usr/bin/env python3
"""Training steps in PyTorch as a careful user writes them: fused AdamW, tied head, fused attention, gradient clip.

GPT-2 is written here; the other kinds are the models of the package transformers, with new weights.

Prints one JSON line: tokens per second (median and best step), the process high-water mark, first and last loss, the seconds of
each timed step and the share of the machine that other processes took meanwhile. Tokens are random from a fixed seed; without
further arguments the model is GPT-2 124M with the vocabulary padded to 50,304.

  python3 torch_train.py --batch 4 --context 256 --steps 8 [--dtype bf16] [--compile] [--checkpoint [BLOCKS]]
  python3 torch_train.py --batch 16 --accumulation 32 --context 1024 --dtype bf16 --device cuda [--sdpa flash]
"""
import argparse
import contextlib
import json
import math
import os
import statistics
import time


SDPA = {"flash": "flash", "cudnn": "cudnn", "efficient": "mem_efficient"}


def arguments():
    p = argparse.ArgumentParser()
    numbers = dict(batch=4, accumulation=1, context=256, layers=12, width=768, heads=12, vocab=50304, steps=8, warmup=2,
                   threads=os.cpu_count())
    for name, value in numbers.items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--kind", choices=["gpt2", "llama", "qwen2"], default="gpt2")
    p.add_argument("--kv-heads", type=int, help="of the other kinds")
    p.add_argument("--mlp-width", type=int, help="of the other kinds")
    p.add_argument("--lora", type=int, default=0, metavar="RANK", help="of the other kinds: PEFT's adapter on all linear layers")
    p.add_argument("--dtype", choices=["fp32", "bf16", "pure_bf16"], default="fp32",
                   help="bf16: autocast; pure_bf16: weights and states too")
    p.add_argument("--device", default="cpu")
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--sdpa", choices=["auto", *SDPA], default="auto", help="the one backend of attention that may run on a GPU")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--checkpoint", type=int, nargs="?", const=1 << 30, default=0, metavar="BLOCKS",
                   help="recompute so many of the first blocks in the backward pass; all of them without a number")
    return p.parse_args()


ARGS = arguments()
os.environ.setdefault("OMP_NUM_THREADS", str(ARGS.threads))  # read when torch loads its OpenMP runtime

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm_2, self.fc, self.fc_proj = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        shape = (*x.shape[:2], self.heads, x.shape[2] // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        rate = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True).transpose(1, 2).reshape(x.shape)

    def forward(self, x):
        x = x + F.dropout(self.proj(self.attend(self.norm_1(x))), self.dropout, self.training)
        hidden = F.gelu(self.fc(self.norm_2(x)), approximate="tanh")
        return x + F.dropout(self.fc_proj(hidden), self.dropout, self.training)


class Gpt2(nn.Module):
    """Returns the mean loss; the head shares the token embedding."""

    def __init__(self, a):
        super().__init__()
        self.recompute = a.checkpoint
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.context, a.width)
        self.blocks = nn.ModuleList([Block(a.width, a.heads, a.dropout) for _ in range(a.layers)])
        self.norm = nn.LayerNorm(a.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * a.layers) if "proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i < self.recompute else block(x)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Decoder(nn.Module):
    """Returns the mean loss of a model of the package transformers."""

    def __init__(self, a):
        super().__init__()
        import transformers

        config = transformers.AutoConfig.for_model(
            a.kind, vocab_size=a.vocab, hidden_size=a.width, intermediate_size=a.mlp_width, num_hidden_layers=a.layers,
            num_attention_heads=a.heads, num_key_value_heads=a.kv_heads, max_position_embeddings=a.context,
            tie_word_embeddings=True, use_cache=False)
        self.model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        if a.checkpoint:
            self.model.gradient_checkpointing_enable()
        if a.lora:
            import peft

            if a.dtype == "pure_bf16":  # before PEFT, whose adapters stay in fp32
                self.model.to(torch.bfloat16)
            settings = peft.LoraConfig(r=a.lora, lora_alpha=2 * a.lora, target_modules="all-linear", task_type="CAUSAL_LM")
            self.model = peft.get_peft_model(self.model, settings)

    def forward(self, tokens, targets):
        logits = self.model(tokens).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def cpu_seconds():
    """(busy seconds of the whole machine, of this process) so far."""
    with open("/proc/stat") as f:
        fields = [int(word) for word in f.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK"), time.process_time()


def high_water_mark():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def update(model, raw_model, optimizer, tokens, autocast):
    total = 0.0
    for micro in tokens:
        with autocast():
            loss = model(micro[:, :-1], micro[:, 1:]) / len(tokens)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(raw_model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(total)


def choose_sdpa(chosen):
    """Leaves one way to compute attention; the plain one is never among them."""
    if chosen != "auto":
        for name, setting in (*SDPA.items(), ("math", "math")):
            getattr(torch.backends.cuda, f"enable_{setting}_sdp")(name == chosen)


def main(a):
    torch.set_num_threads(a.threads)
    choose_sdpa(a.sdpa)
    torch.manual_seed(1)
    device = torch.device(a.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    raw_model = (Gpt2 if a.kind == "gpt2" else Decoder)(a).to(device)
    if not a.lora:
        raw_model.to(torch.bfloat16 if a.dtype == "pure_bf16" else torch.float32)
    model = torch.compile(raw_model) if a.compile else raw_model
    trained = [p for p in raw_model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    autocast = (lambda: torch.autocast(device.type, torch.bfloat16)) if a.dtype == "bf16" else contextlib.nullcontext
    generator = torch.Generator().manual_seed(7)
    losses, seconds, others = [], [], []
    for _ in range(a.warmup + a.steps):
        tokens = torch.randint(a.vocab, (a.accumulation, a.batch, a.context + 1), generator=generator).to(device)
        synchronize()
        busy, start = cpu_seconds(), time.perf_counter()
        losses.append(update(model, raw_model, optimizer, tokens, autocast))
        synchronize()
        seconds.append(time.perf_counter() - start)
        machine, own = (after - before for after, before in zip(cpu_seconds(), busy))
        others.append(max(0.0, machine - own) / (seconds[-1] * os.cpu_count()))
    seconds, others = seconds[a.warmup:], others[a.warmup:]
    count = a.accumulation * a.batch * a.context
    print(json.dumps(dict(
        torch=torch.__version__, batch=a.batch, accumulation=a.accumulation, context=a.context, dtype=a.dtype, compile=a.compile,
        checkpoint=a.checkpoint, sdpa=a.sdpa, threads=a.threads, tokens_per_second=round(count / statistics.median(seconds), 1),
        best_tokens_per_second=round(count / min(seconds), 1), vm_hwm_bytes=high_water_mark(),
        device_peak_bytes=torch.cuda.max_memory_reserved() if device.type == "cuda" else None, first_loss=round(losses[0], 5),
        last_loss=round(losses[-1], 5), step_seconds=[round(s, 4) for s in seconds], others_share=[round(o, 3) for o in others])))


if __name__ == "__main__":
    main(ARGS)
