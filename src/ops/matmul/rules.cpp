#include <fmt/core.h>

#include "ops/block_matmul/block_matmul.h"
#include "ops/families.h"
#include "ops/matmul/cuda.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll::ops {
namespace {

struct Matrix {
  std::int64_t batch, rows, columns;
};

Matrix as_matrix(const Shape& shape, bool batched, bool transposed) {
  require(shape.rank() >= 2, "matmul", fmt::format("an operand is {}", to_text(shape)), "operands have two or more axes");
  const std::int64_t last = shape.last();
  Matrix matrix = batched ? Matrix{shape.elements() / std::max<std::int64_t>(1, last * shape.last(1)), shape.last(1), last}
                          : Matrix{1, rows_of(shape), last};
  if (transposed) std::swap(matrix.rows, matrix.columns);
  return matrix;
}

Shape output_shape(const MatmulAttributes& attributes, TypeSpan inputs, const MatmulExtents& extents) {
  if (!attributes.batched && attributes.transpose_a) return {extents.m, extents.n};
  Shape shape = inputs[0].shape;
  shape[shape.rank() - 1] = extents.n;
  if (attributes.batched) shape[shape.rank() - 2] = extents.m;
  return shape;
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<MatmulAttributes>();
  require_inputs(inputs, 2 + std::size_t{attributes.bias} + std::size_t{attributes.accumulate}, "matmul");
  const DType operands = inputs[0].dtype;
  require_computable(inputs[0], "matmul", "an operand");
  require_dtype(inputs.first(2), operands, "matmul");
  require_dtype(inputs.subspan(2), DType::f32, "matmul");
  const MatmulExtents extents = matmul_extents(attributes, inputs);
  const bool fits = attributes.output == DType::f32 || (attributes.output == operands && !attributes.accumulate);
  require(fits, "matmul", fmt::format("the output is {}", name(attributes.output)), "fp32, or the type of the operands");
  const ValueType output{attributes.output, output_shape(attributes, inputs, extents)};
  if (attributes.bias) require_type(inputs[2], {DType::f32, Shape{extents.n}}, "matmul", "the bias");
  if (attributes.accumulate) {
    const ValueType& into = inputs.back();
    require(into.dtype == DType::f32 && into.shape.elements() == output.shape.elements(), "matmul",
            fmt::format("the accumulator is {}", to_text(into)), fmt::format("pass {}", to_text(output)));
    return {into};
  }
  return {output};
}

Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const MatmulExtents e = matmul_extents(any.as<MatmulAttributes>(), inputs);
  return {2.0 * static_cast<double>(e.batch) * static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k),
          bytes_touched(inputs, outputs), inputs[0].dtype};
}

// A product of flattened operands may have other leading axes than the input whose gradient it is.
void contribute_product(GradientContext& context, std::size_t to, const MatmulAttributes& attributes,
                        std::vector<ValueId> inputs) {
  if (context.accumulator(to).valid()) return context.contribute(to, kMatmul, attributes, std::move(inputs));
  GraphBuilder& builder = context.builder();
  const Shape shape = builder.shape(context.input(to));
  ValueId gradient = matmul(builder, inputs[0], inputs[1], attributes, "grad");
  if (builder.shape(gradient) != shape) gradient = reshape(builder, gradient, shape, "grad");
  context.contribute(to, gradient);
}

// Weight gradient first: it is the last reader of the activation, whose bytes the input gradient can then take.
void gradient(GradientContext& context) {
  const auto& a = context.node().attributes.as<MatmulAttributes>();
  const ValueId dy = context.gradient(0), x = context.input(0), w = context.input(1);
  MatmulAttributes to{.batched = a.batched};
  if (a.bias && context.wants(2)) context.contribute(2, kSumRows, AccumulateAttributes{}, {dy});
  if (context.wants(1)) {
    to.transpose_a = a.transpose_b || !a.transpose_a;
    to.transpose_b = a.transpose_a && a.transpose_b;
    contribute_product(context, 1, to, a.transpose_b ? std::vector{dy, x} : std::vector{x, dy});
  }
  if (context.wants(0)) {
    to.transpose_a = a.transpose_a && a.transpose_b;
    to.transpose_b = a.transpose_a || !a.transpose_b;
    contribute_product(context, 0, to, a.transpose_a ? std::vector{w, dy} : std::vector{dy, w});
  }
}

std::optional<LinearOperands> linear_layer(const Attributes& any) {
  const auto& a = any.as<MatmulAttributes>();
  if (a.transpose_a || a.batched || a.accumulate) return {};
  LinearOperands operands{.inputs_first = !a.transpose_b};
  if (a.bias) operands.bias = 2;
  return operands;
}

std::optional<StoredReader> reads_stored(const Attributes& any, std::size_t input, const std::optional<BlockMatrix>& blocks) {
  const auto linear = linear_layer(any);
  if (!linear || input != linear->weight) return {};
  const auto& a = any.as<MatmulAttributes>();
  return StoredReader{
      &kBlockMatmul,
      BlockMatmulAttributes{
          .blocks = blocks, .transposed = a.transpose_b, .bias = a.bias, .output = a.output, .few_rows = a.few_rows}};
}

Attributes rounded(const Attributes& any, DType to) {
  MatmulAttributes attributes = any.as<MatmulAttributes>();
  if (!attributes.accumulate) attributes.output = to;
  return attributes;
}

std::vector<Alias> aliases(const Attributes& any) {
  const auto& attributes = any.as<MatmulAttributes>();
  if (!attributes.accumulate) return {};
  return {{2 + std::size_t{attributes.bias}, 0, AliasKind::accumulates}};
}

}  // namespace

MatmulExtents matmul_extents(const MatmulAttributes& attributes, TypeSpan inputs) {
  const Matrix a = as_matrix(inputs[0].shape, attributes.batched, attributes.transpose_a);
  const Matrix b = as_matrix(inputs[1].shape, attributes.batched, attributes.transpose_b);
  require(a.columns == b.rows && a.batch == b.batch, "matmul",
          fmt::format("op(a) is {} x {} of {} and op(b) is {} x {} of {}", a.rows, a.columns, to_text(inputs[0].shape), b.rows,
                      b.columns, to_text(inputs[1].shape)),
          "the inner extents and the batch axes must agree");
  return {a.batch, a.rows, b.columns, a.columns};
}

const OpDef kMatmul{.name = "matmul",
                    .infer = infer,
                    .cost = cost,
                    .gradient = gradient,
                    .aliases = aliases,
                    .linear = linear_layer,
                    .reads_stored = reads_stored,
                    .narrow = inputs_at<0, 1>,
                    .rounded = rounded,
                    .costly = true};

void take_few_rows(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.section < Section::forward || graph.sums(node.section)) continue;
    if (node.op == &kMatmul) {
      auto attributes = node.attributes.as<MatmulAttributes>();
      attributes.few_rows = true;
      node.attributes = attributes;
    } else if (node.op == &kBlockMatmul) {
      auto attributes = node.attributes.as<BlockMatmulAttributes>();
      attributes.few_rows = true;
      node.attributes = attributes;
    }
  }
}

OpList matmul_ops() { return {{&kMatmul, {.scratch = cuda_matmul_scratch, .cublas = true}}}; }

ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b, MatmulAttributes attributes, std::string name) {
  return builder.add1(kMatmul, attributes, {a, b}, std::move(name));
}

ValueId linear(GraphBuilder& builder, ValueId x, ValueId w, ValueId bias, std::string name) {
  std::vector<ValueId> inputs{x, w};
  if (bias.valid()) inputs.push_back(bias);
  return builder.add1(kMatmul, MatmulAttributes{.bias = bias.valid()}, std::move(inputs), std::move(name));
}

}  // namespace plimsoll::ops
