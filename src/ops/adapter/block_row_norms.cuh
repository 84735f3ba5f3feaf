// Row norms of a W in blocks: tiles are decoded into scratch, as strips of row_norms.cuh.
#pragma once

#include <algorithm>

#include "device/cuda/decode_blocks.h"
#include "device/cuda/runtime.h"
#include "ops/adapter/row_norms.cuh"

namespace plimsoll::cuda {

class BlockRowNorms {
 public:
  BlockRowNorms(const KernelRequest& request, const BlockMatrix& blocks)
      : shape_(request),
        tiles_(blocks, request.in_ranges),
        matrix_{DType::u8, blocks, blocks.rows, blocks.columns},
        codes_(code_bytes(blocks).n),
        stored_(stored_bytes(blocks).n),
        tile_codes_(code_bytes({blocks.format, tiles_.lines, blocks.columns}).n),
        passes_(scales_apart(blocks.format) ? 2 : 1) {}

  void run(const KernelCall& call) const {
    if (!call.range.whole()) return run_range(call);
    const auto* w = call.in<std::byte>(1);
    for (std::int64_t line = 0; line < matrix_.rows; line += tiles_.lines) add_tile(call, line, {w, 0, w + codes_});
    end_row_norms(operands(call), call.out(0), call.stream);
  }

 private:
  RowNormOperands operands(const KernelCall& call) const {
    return {shape_, call.in(2), call.in(3), reinterpret_cast<double*>(call.scratch)};
  }

  void add_tile(const KernelCall& call, std::int64_t line, const BlockPieces& pieces) const {
    const std::int64_t lines = std::min(tiles_.lines, matrix_.rows - line), first = line * matrix_.columns;
    auto* elements = reinterpret_cast<float*>(call.scratch + shape_.scratch().n);
    decode(call.stream, matrix_, pieces, {line, lines, 0, matrix_.columns}, DType::f32, elements);
    add_strip(operands(call), Strip<float>{elements, first, first + lines * matrix_.columns}, call.stream);
  }

  // The range's codes go to their place in the tile. The pass before keeps the parts behind the codes.
  void run_range(const KernelCall& call) const {
    std::byte *const tile = call.scratch + (shape_.scratch() + tiles_.elements).n,
                     *const behind = tile + tiles_.codes.n + codes_ % 4;  // aligned as in a whole matrix
    const std::byte* from = call.in<std::byte>(1);
    std::int64_t at = call.range.begin;
    const std::int64_t end = std::min(stored_, at + call.range.elements), end_codes = std::min(codes_, end);
    const auto copy_to = [&](std::byte* to, std::int64_t bytes) {
      copy(call.stream, to, from, static_cast<std::size_t>(bytes));
      from += bytes, at += bytes;
    };
    if (call.range.pass + 1 < passes_) {
      if (at < end_codes) from += end_codes - at, at = end_codes;
      if (at < end) copy_to(behind + (at - codes_), end - at);
      return;
    }
    while (at < end_codes) {
      const std::int64_t number = at / tile_codes_;
      copy_to(tile + at % tile_codes_, std::min(end_codes, (number + 1) * tile_codes_) - at);
      if (at % tile_codes_ != 0 && at != codes_) continue;
      const std::int64_t line = number * tiles_.lines;
      add_tile(call, line, {tile, line * matrix_.columns, behind});
    }
    if (end == stored_) end_row_norms(operands(call), call.out(0), call.stream);
  }

  CudaRowNorms shape_;
  CudaNormTiles tiles_;
  FrozenMatrix matrix_;
  std::int64_t codes_, stored_, tile_codes_;  // bytes: of all codes, of all parts, of a tile's codes
  int passes_;
};

}  // namespace plimsoll::cuda
