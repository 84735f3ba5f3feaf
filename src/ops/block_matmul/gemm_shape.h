// The product of a block_matmul node with the decoded matrix, for the devices' libraries.
#pragma once

#include "ops/block_matmul/block_matmul.h"
#include "ops/kernel.h"
#include "tensor/gemm_shape.h"

namespace plimsoll {

inline GemmShape block_gemm_shape(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::BlockMatmulAttributes>();
  const ops::BlockMatmulExtents e = ops::block_matmul_extents(attributes, request.inputs);
  return {.m = e.m,
          .n = e.n,
          .k = e.k,
          .transpose_b = attributes.transposed,
          .bias = attributes.bias,
          .operands = request.inputs[0].dtype,
          .result = request.outputs[0].dtype};
}

}  // namespace plimsoll
