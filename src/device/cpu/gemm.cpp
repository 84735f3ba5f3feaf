#include "device/cpu/gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "device/cpu/cast.h"
#include "device/cpu/gemm_tiled.h"
#include "device/cpu/instruction_set.h"
#include "device/cpu/processor.h"

namespace plimsoll::cpu {
namespace {

// On Intel cores with AVX-512 our own kernel is 2-12 % faster than oneDNN if rows or steps of k are enough to pay for packing,
// most for a large C. It needs megabytes less scratch than a library that packs (docs/speed.md).
bool own_kernel_pays(const GemmShape& shape) {
#ifdef __x86_64__
  if (shape.operands != DType::f32) return false;
  if (!intel_core() || !avx512_allowed() || !__builtin_cpu_supports("avx512dq") || shape.batch != 1) return false;
  return std::min(shape.n, shape.k) >= 64 && (shape.transpose_a || shape.m >= 512);
#else
  return false;
#endif
}

// The shape of the product after widening.
GemmShape widened(GemmShape shape) {
  shape.operands = shape.result = DType::f32;
  return shape;
}
// The number of widened elements: of A, of B, and of C if it is rounded.
std::array<std::int64_t, 3> wide_elements(const GemmShape& shape) {
  const std::int64_t c = shape.result == DType::f32 ? 0 : shape.batch * shape.m * shape.n;
  return {shape.batch * shape.m * shape.k, shape.batch * shape.k * shape.n, c};
}
// True for products that the library runs if it has a plan for them.
bool may_be_foreign(const GemmShape& shape) {
  ensure(shape.batch > 0 && shape.m > 0 && shape.n > 0 && shape.k > 0, "gemm", "a dimension is not positive");
  return !own_kernel_pays(shape);
}

GemmPlan foreign_plan(const LibraryGemm::Plan& plan) {
  return {.implementation = plan.implementation, .scratch = plan.scratch, .primitives = 1};
}

GemmPlan widened_plan(const GemmShape& shape, GemmPlan wide) {
  wide.implementation = fmt::format("widened {}", wide.implementation);
  for (const std::int64_t elements : wide_elements(shape)) wide.scratch += wide_bytes(elements);
  return wide;
}

GemmPlan tiled_plan(const GemmShape& shape, int threads) {
  return {.implementation = "tiled", .scratch = tiled_gemm_scratch(shape, threads)};
}

}  // namespace

GemmPlan plan_gemm(const GemmShape& shape, int threads, bool library) {
  if (may_be_foreign(shape) && library) {
    if (const auto plan = LibraryGemm::plan_of(shape, threads)) return foreign_plan(*plan);
  }
  if (shape.operands == DType::f32) return tiled_plan(shape, threads);
  return widened_plan(shape, plan_gemm(widened(shape), threads, library));
}

Gemm::Gemm(const GemmShape& shape, int threads) : shape_(shape), threads_(threads) {
  if (may_be_foreign(shape)) library_ = LibraryGemm::make(shape, threads);
  if (library_) {
    plan_ = foreign_plan(library_->plan());
  } else if (shape.operands == DType::f32) {
    plan_ = tiled_plan(shape, threads);
  } else {
    wide_ = std::make_unique<const Gemm>(widened(shape), threads);
    plan_ = widened_plan(shape, wide_->plan());
  }
}

Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run_widened(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const {
  const auto [of_a, of_b, of_c] = wide_elements(shape_);
  const auto take = [&](std::int64_t elements) {
    std::byte* room = std::exchange(scratch, scratch + wide_bytes(elements).n);
    return reinterpret_cast<float*>(room);
  };
  float *wide_a = take(of_a), *wide_b = take(of_b), *wide_c = take(of_c);
  cast(of_a, {static_cast<const std::byte*>(a), shape_.operands}, wide_a);
  cast(of_b, {static_cast<const std::byte*>(b), shape_.operands}, wide_b);
  if (of_c == 0) return wide_->run(wide_a, wide_b, bias, c, scratch);
  wide_->run(wide_a, wide_b, bias, wide_c, scratch);
  cast(of_c, wide_c, {static_cast<std::byte*>(c), shape_.result});
}

void Gemm::run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const {
  if (wide_) return run_widened(a, b, bias, c, scratch);
  if (library_) return library_->run(a, b, bias, c, scratch);
  run_tiled_gemm(shape_, threads_, static_cast<const float*>(a), static_cast<const float*>(b), bias, static_cast<float*>(c),
                 scratch);
}

}  // namespace plimsoll::cpu
