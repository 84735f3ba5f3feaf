// The scratch of embeddings on a GPU: lists of the positions of each token, in 32-bit integers, and fp32 sums of their rows.
#pragma once

#include "base/bytes.h"
#include "ops/embedding/embedding.h"
#include "ops/kernel.h"
#include "ops/update/cuda.h"

namespace plimsoll {

// The rows for one row of the table are added in lists of kList, in ascending order; the sums of the lists are added after that.
struct CudaTokenGradientLayout {
  static constexpr std::int64_t kList = 32;

  std::int64_t tokens, rows, width;  // rows of the table
  std::int64_t padding;
  Bytes counts, starts, arrivals, places, lists, long_rows, sums, all;

  explicit CudaTokenGradientLayout(const KernelRequest& request)
      : tokens(request.inputs[0].shape.elements()),
        rows(request.attributes->as<ops::EmbeddingBackwardAttributes>().rows),
        width(request.inputs[1].shape.last()),
        padding(request.attributes->as<ops::EmbeddingBackwardAttributes>().padding) {
    Bytes end;
    const auto place = [&end](std::int64_t elements) {
      const Bytes begin = end;
      end = align_up(end + Bytes{4 * elements}, Bytes{256});
      return begin;
    };
    counts = place(rows + kCursors);
    starts = place(rows);
    arrivals = place(tokens);
    places = place(tokens);
    lists = place(4 * tokens);
    long_rows = place(4 * (tokens / kList));
    sums = place(tokens / kList * width);
    all = end;
  }
  static constexpr std::int64_t kCursors = 3;  // after the counts
};

inline Bytes cuda_token_gradient_scratch(const KernelRequest& request) { return CudaTokenGradientLayout(request).all; }

inline Bytes cuda_squares_with_rows_scratch(const KernelRequest& request) { return cuda_sum_of_squares_scratch(request); }

// The first position of each row of the table.
inline Bytes cuda_token_slots_scratch(const KernelRequest& request) {
  return Bytes{(request.inputs[1].shape.elements() - 1) * 4};
}

}  // namespace plimsoll
