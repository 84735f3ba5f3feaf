#!/usr/bin/env python3
"""Prints the golden digests of block_format_test.cpp. Needs numpy, gguf, torch and bitsandbytes; by
hand. Bytes, values and digests are those of digests.h."""
import gguf
import numpy as np
import torch
import bitsandbytes.functional as bnb


class TestBytes:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 56

    def take(self, count):
        return np.array([self.next() for _ in range(count)], dtype=np.uint8)

    def value(self):
        high, low, shift = self.next(), self.next(), self.next() % 8
        return ((high * 256 + low - 32768) >> shift) * 2.0**-12


def digest(data):
    total = 14695981039346656037
    for byte in bytes(data):
        total = (total ^ byte) * 1099511628211 % 2**64
    return total


def digest_floats(values):
    bits = values.ravel().view(np.uint32).copy()
    bits[np.isnan(values.ravel())] = 0x7FC00000
    return digest(bits.tobytes())


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def encoded_int8(x):
    codes, scales, _ = bnb.int8_vectorwise_quant(x)
    decoded = torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, scales)
    return padded(codes.numpy().tobytes()) + scales.numpy().tobytes(), decoded


def encoded_nf4(x, nested):
    codes, state = bnb.quantize_4bit(x, quant_type="nf4", compress_statistics=nested)
    stored = padded(codes.numpy().tobytes())
    if nested:
        stored += padded(state.absmax.numpy().tobytes()) + state.state2.absmax.numpy().tobytes()
        stored += state.state2.code.numpy().tobytes() + state.offset.numpy().tobytes()
        print(f"    offset {state.offset.item().hex()}")
    else:
        stored += state.absmax.numpy().tobytes()
    return stored, bnb.dequantize_4bit(codes, state)


print("decoded, 6 x 512 from random bytes:")
for name in ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"]:
    kind = getattr(gguf.GGMLQuantizationType, name.upper())
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    raw = TestBytes(7).take(6 * 512 // elements * size).reshape(6, -1)
    with np.errstate(all="ignore"):
        print(f'  {{"{name}", 0x{digest_floats(gguf.quants.dequantize(raw, kind)):016x}u}},')

for rows, columns in [(9, 33), (131, 200)]:
    source = TestBytes(rows)
    x = torch.tensor([source.value() for _ in range(rows * columns)], dtype=torch.float32).reshape(rows, columns)
    print(f"encoded and decoded, {rows} x {columns}:")
    for name, (stored, back) in {
        "int8": encoded_int8(x), "nf4": encoded_nf4(x, False), "nf4_nested": encoded_nf4(x, True)
    }.items():
        print(f'  {{"{name}", 0x{digest(stored):016x}u, 0x{digest_floats(back.float().numpy()):016x}u}},')
