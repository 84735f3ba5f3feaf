// Softmax cross-entropy of rows of logits on the CPU. Buffers are dense and row-major; nothing is allocated and no scratch is
// needed. Results do not depend on the number of threads: a row's sums are added in tiles of kClassTile classes, in fp32 within
// a tile and in fp64 across them. Throws E-DATA-LABEL if a label is no class.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

inline constexpr std::int64_t kClassTile = 1024;

struct ClassRows {
  std::int64_t rows, classes;
  double label_smoothing = 0;
};

// logits [rows, classes], labels [rows], below 0 for ignored rows; writes losses [rows]. With L = logsumexp(row) a loss is
// L - (1 - label_smoothing) row[label] - label_smoothing mean(row), or 0 for ignored rows.
void cross_entropy_forward(const ClassRows& shape, const float* logits, const std::int32_t* labels, float* losses);

// The gradient of sum(losses) * scale by the logits; `gradient` may be `logits`.
void cross_entropy_backward(const ClassRows& shape, const float* logits, const std::int32_t* labels, float scale,
                            float* gradient);

}  // namespace plimsoll::cpu
