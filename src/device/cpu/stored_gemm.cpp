#include "device/cpu/stored_gemm.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "device/cpu/cast.h"
#include "device/cpu/gemm_tiled.h"

namespace plimsoll::cpu {
namespace {

GemmShape widened(GemmShape shape) {
  shape.operands = shape.result = DType::f32;
  return shape;
}

// The number of widened elements, which precede the scratch of the product: of a 16-bit A, and of C if it is rounded.
std::array<std::int64_t, 2> wide_elements(const GemmShape& shape) {
  return {shape.operands == DType::f32 ? 0 : shape.m * shape.k, shape.result == DType::f32 ? 0 : shape.m * shape.n};
}

GemmPlan own_plan(const GemmShape& shape, const StoredMatrix& matrix, int threads) {
  GemmPlan plan{.implementation = fmt::format("tiled {}", name(matrix)),
                .scratch = decoding_gemm_scratch(widened(shape), threads)};
  if (shape.operands != DType::f32) plan.implementation = fmt::format("widened {}", plan.implementation);
  for (const std::int64_t elements : wide_elements(shape)) plan.scratch += wide_bytes(elements);
  return plan;
}

void check(const GemmShape& shape) {
  ensure(!shape.transpose_a && shape.batch == 1 && !shape.accumulate, "gemm", "a product with a frozen matrix is a plain one");
}

}  // namespace

GemmPlan plan_stored_gemm(const GemmShape& shape, const StoredMatrix& matrix, int threads, bool library) {
  check(shape);
  const bool strips = library && shape.operands != DType::f32 && library_takes_strips(shape, threads);
  if (strips) return StripGemm::plan_of(shape, matrix, threads);
  return own_plan(shape, matrix, threads);
}

StoredGemm::StoredGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads)
    : shape_(shape), matrix_(matrix), threads_(threads) {
  check(shape);
  matrix_.rounded = shape.operands;
  if (shape.operands != DType::f32 && library_takes_strips(shape, threads)) strips_.emplace(shape, matrix, threads);
  plan_ = strips_ ? strips_->plan() : own_plan(shape, matrix, threads);
}

void StoredGemm::run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const {
  if (!shape_.bias) bias = nullptr;
  if (strips_) return strips_->run(a, b, bias, c, scratch);
  const auto [of_a, of_c] = wide_elements(shape_);
  const auto take = [&](std::int64_t elements) {
    return reinterpret_cast<float*>(std::exchange(scratch, scratch + wide_bytes(elements).n));
  };
  float *wide_a = take(of_a), *wide_c = take(of_c);
  if (of_a > 0) cast(of_a, {static_cast<const std::byte*>(a), shape_.operands}, wide_a);
  run_decoding_gemm(widened(shape_), threads_, of_a > 0 ? wide_a : static_cast<const float*>(a), matrix_, b, bias,
                    of_c > 0 ? wide_c : static_cast<float*>(c), scratch);
  if (of_c > 0) cast(of_c, wide_c, {static_cast<std::byte*>(c), shape_.result});
}

}  // namespace plimsoll::cpu
