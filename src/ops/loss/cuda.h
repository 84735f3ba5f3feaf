// Scratch of the loss on a GPU, known without a GPU. It holds the logits of one canonical tile of tokens over the whole
// vocabulary, and all of a table that is converted. The number of chunks changes neither bytes nor bits, and the table has no
// ranges.
#pragma once

#include <algorithm>

#include "ops/loss/loss.h"
#include "ops/matmul/cuda.h"

namespace plimsoll {

inline constexpr std::int64_t kCudaLossTile = 2048;  // tokens

struct CudaLossLayout {
  std::int64_t tokens, width, vocab, tile;
  std::int64_t row;  // elements from one token's logits to the next
  DType operands;
  bool converts_table;  // w is in blocks or of another type than the operands, so that a copy in their type is made
  Bytes logits, table, all;

  explicit CudaLossLayout(const KernelRequest& request)
      : tokens(request.inputs[0].shape[0] * request.inputs[0].shape[1]),
        width(request.inputs[0].shape[2]),
        vocab(ops::table_shape(request.attributes->as<ops::LossAttributes>().blocks, request.inputs[1], "loss")[0]),
        tile(std::min(tokens, kCudaLossTile)),
        row((vocab + 63) / 64 * 64),
        operands(request.inputs[0].dtype),
        converts_table(operands != request.inputs[1].dtype),
        logits(align_up(Bytes{tile * row * size_of(operands)}, kAlign)),
        table(converts_table ? align_up(Bytes{vocab * width * size_of(operands)}, kAlign) : Bytes{}),
        all(logits + table + kGemmWorkspace) {}

 private:
  static constexpr Bytes kAlign{256};
};

inline Bytes cuda_loss_scratch(const KernelRequest& request) { return CudaLossLayout(request).all; }

}  // namespace plimsoll
