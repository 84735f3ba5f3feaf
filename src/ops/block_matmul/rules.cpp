#include <fmt/core.h>

#include <utility>

#include "ops/block_matmul/block_matmul.h"
#include "ops/block_matmul/cuda.h"
#include "ops/families.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Rows and columns of W.
std::pair<std::int64_t, std::int64_t> matrix_of(const BlockMatmulAttributes& attributes, const ValueType& w) {
  if (attributes.blocks) {
    require_blocks(w, *attributes.blocks, "block_matmul");
    return {attributes.blocks->rows, attributes.blocks->columns};
  }
  require(w.dtype == DType::bf16 && w.shape.rank() == 2, "block_matmul", "W is " + to_text(w),
          "bf16(rows, columns), or the bytes of blocks");
  return {w.shape[0], w.shape[1]};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<BlockMatmulAttributes>();
  require_inputs(inputs, 2 + std::size_t{attributes.bias}, "block_matmul");
  require_computable(inputs[0], "block_matmul");
  const BlockMatmulExtents extents = block_matmul_extents(attributes, inputs);
  require(attributes.output == DType::f32 || attributes.output == inputs[0].dtype, "block_matmul",
          fmt::format("the output is {}", name(attributes.output)), "fp32, or the type of x");
  if (attributes.bias) require_type(inputs[2], {DType::f32, Shape{extents.n}}, "block_matmul", "the bias");
  Shape shape = inputs[0].shape;
  shape[shape.rank() - 1] = extents.n;
  return {{attributes.output, std::move(shape)}};
}

Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const BlockMatmulExtents e = block_matmul_extents(any.as<BlockMatmulAttributes>(), inputs);
  return {2.0 * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k), bytes_touched(inputs, outputs),
          inputs[0].dtype};
}

void gradient(GradientContext& context) {
  auto attributes = context.node().attributes.as<BlockMatmulAttributes>();
  const ValueId dy = context.gradient(0);
  if (context.wants(1)) {
    throw config_error("E-GRADIENT", context.node().line, "the matrix of a product is stored in blocks or frozen",
                       "it has no gradient: freeze it, or store it as fp32");
  }
  if (attributes.bias && context.wants(2)) context.contribute(2, kSumRows, AccumulateAttributes{}, {dy});
  attributes = {.blocks = attributes.blocks, .transposed = !attributes.transposed};
  context.contribute_if_wanted(0, kBlockMatmul, attributes, {dy, context.input(1)});
}

std::optional<LinearOperands> linear_layer(const Attributes& any) {
  const auto& a = any.as<BlockMatmulAttributes>();
  LinearOperands operands{.inputs_first = !a.transposed};
  if (a.bias) operands.bias = 2;
  return operands;
}

}  // namespace

BlockMatmulExtents block_matmul_extents(const BlockMatmulAttributes& attributes, TypeSpan inputs) {
  auto [k, n] = matrix_of(attributes, inputs[1]);
  if (attributes.transposed) std::swap(k, n);
  const Shape& x = inputs[0].shape;
  require(x.rank() >= 2 && x.last() == k, "block_matmul", fmt::format("x is {} and op(W) is {} x {}", to_text(x), k, n),
          "the inner extents must agree");
  return {rows_of(x), n, k};
}

const OpDef kBlockMatmul{.name = "block_matmul",
                         .infer = infer,
                         .cost = cost,
                         .gradient = gradient,
                         .linear = linear_layer,
                         .narrow = inputs_at<0>,
                         .either = inputs_at<1>,
                         .rounded = with_output<BlockMatmulAttributes>,
                         .costly = true};

OpList block_matmul_ops() {
  return {{&kBlockMatmul, {.scratch = cuda_block_matmul_scratch, .launches = cuda_block_matmul_launches, .cublas = true}}};
}

}  // namespace plimsoll::ops
