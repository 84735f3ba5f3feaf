#include "ops/check.h"

#include <fmt/core.h>

#include "graph/gradient.h"

namespace plimsoll::ops {

void require(bool ok, std::string_view where, const std::string& message, const std::string& expected) {
  if (!ok) throw config_error("E-SHAPE", std::string(where), message, expected);
}

void require_inputs(TypeSpan inputs, std::size_t count, std::string_view where) {
  require(inputs.size() == count, where, fmt::format("got {} inputs", inputs.size()), fmt::format("pass {}", count));
}

void require_guarded_inputs(TypeSpan inputs, std::size_t count, std::string_view where) {
  const bool guarded = inputs.size() == count + 1;
  require(guarded || inputs.size() == count, where, fmt::format("got {} inputs", inputs.size()),
          fmt::format("{} or {}", count, count + 1));
  if (guarded) require_type(inputs[count], {DType::f32, Shape{1}}, where, "the coefficient");
}

namespace {

void require_computable(DType dtype, std::string_view where, std::string_view what, const std::string& present) {
  require(is_float(dtype) && dtype != DType::f64, where, fmt::format("{} is {}", what, present), "fp32, bf16 or fp16");
}

}  // namespace

void require_computable(const ValueType& value, std::string_view where, std::string_view what) {
  require_computable(value.dtype, where, what, to_text(value));
}
void require_computable(DType dtype, std::string_view where, std::string_view what) {
  require_computable(dtype, where, what, std::string(name(dtype)));
}

ValueType row_of(const ValueType& x, std::string_view where) {
  require_computable(x, where);
  require(x.shape.rank() >= 1 && x.shape.last() >= 1, where, "x is " + to_text(x), "(rows, n), or more axes before the last");
  return {DType::f32, Shape{x.shape.last()}};
}

void require_blocks(const ValueType& value, const BlockMatrix& matrix, std::string_view where) {
  const ValueType expected{DType::u8, Shape{stored_bytes(matrix).n}};
  require(value == expected, where,
          fmt::format("a matrix of {} x {} in {} is {}", matrix.rows, matrix.columns, name(matrix.format), to_text(value)),
          "pass " + to_text(expected));
}

Shape table_shape(const std::optional<BlockMatrix>& blocks, const ValueType& table, std::string_view where) {
  if (!blocks) return table.shape;
  require_blocks(table, *blocks, where);
  return {blocks->rows, blocks->columns};
}

std::string to_text(const ValueType& type) { return fmt::format("{}{}", name(type.dtype), to_text(type.shape)); }

void require_same(const ValueType& a, const ValueType& b, std::string_view where) {
  require(a == b, where, fmt::format("the inputs are {} and {}", to_text(a), to_text(b)), "both must be of one shape and dtype");
}

void require_type(const ValueType& value, const ValueType& expected, std::string_view where, std::string_view what) {
  require(value == expected, where, fmt::format("{} is {}", what, to_text(value)), fmt::format("pass {}", to_text(expected)));
}

void require_sample_ids(const ValueType& ids, const Shape& x, std::string_view where) {
  const bool tokens = name_tokens(ids.shape) && x.rank() > 1;
  require_type(ids, {DType::u32, tokens ? Shape{x[0], x[1], 3} : Shape{x[0], 2}}, where, "sample_ids");
}

void require_dtype(TypeSpan values, DType expected, std::string_view where) {
  for (const ValueType& value : values) {
    require(value.dtype == expected, where, fmt::format("an input is {}", to_text(value)),
            fmt::format("pass {}; cast converts", name(expected)));
  }
}

void require_root(const GradientContext& context) {
  if (!context.gradient(0).valid()) return;
  throw config_error("E-GRADIENT", context.node().line, fmt::format("another op reads the losses of {}", context.node().op->name),
                     "no reader of the losses, because the backward pass begins at this op");
}

double bytes_touched(TypeSpan inputs, TypeSpan outputs) {
  double bytes = 0;
  for (const ValueType& type : inputs) bytes += static_cast<double>(dense_bytes(type.shape, type.dtype));
  for (const ValueType& type : outputs) bytes += static_cast<double>(dense_bytes(type.shape, type.dtype));
  return bytes;
}

std::int64_t rows_of(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.elements() / std::max<std::int64_t>(1, shape.last());
}

}  // namespace plimsoll::ops
