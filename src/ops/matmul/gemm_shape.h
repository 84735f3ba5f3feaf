// The product of a matmul node, for the devices' libraries.
#pragma once

#include "ops/kernel.h"
#include "ops/matmul/matmul.h"
#include "tensor/gemm_shape.h"

namespace plimsoll {

inline GemmShape gemm_shape(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::MatmulAttributes>();
  const ops::MatmulExtents e = ops::matmul_extents(attributes, request.inputs);
  return {e.batch,
          e.m,
          e.n,
          e.k,
          attributes.transpose_a,
          attributes.transpose_b,
          attributes.bias,
          accumulates<ops::MatmulAttributes>(request),
          request.inputs[0].dtype,
          request.outputs[0].dtype};
}

}  // namespace plimsoll
