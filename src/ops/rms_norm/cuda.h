// The rows of an RMS norm's backward pass on a GPU, and the scratch of its sums over rows.
#pragma once

#include "ops/norm/cuda.h"
#include "ops/rms_norm/rms_norm.h"

namespace plimsoll {

// Rows are as long as the weight. The gradient of the weight alone is rare, and holds no rows.
inline CudaNormLayout cuda_rms_norm_layout(const KernelRequest& backward) {
  const std::int64_t rows = backward.inputs[2].shape[0], width = backward.inputs[1].shape.elements() / rows;
  const bool weight = backward.attributes->as<ops::RmsNormBackwardAttributes>().weight;
  return {rows, width, std::int64_t{weight}, backward.op == &ops::kRmsNormBackward};
}

inline Bytes cuda_rms_norm_scratch(const KernelRequest& request) { return cuda_rms_norm_layout(request).scratch(); }

}  // namespace plimsoll
