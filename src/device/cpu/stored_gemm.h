// Products with a frozen B that is stored in 16 bits or in blocks. For an fp32 A our own kernel decodes B while packing it. For a
// 16-bit A the elements of B are rounded to that type, and the library multiplies strip by strip (strip_gemm.h); without a plan
// of the library A is widened for our own kernel.
#pragma once

#include <cstddef>
#include <optional>

#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"
#include "device/cpu/strip_gemm.h"

namespace plimsoll::cpu {

// `shape`: the product with a decoded B of A's type. A is not transposed; there is no batch and no accumulation.
GemmPlan plan_stored_gemm(const GemmShape& shape, const StoredMatrix& matrix, int threads, bool library = true);

class StoredGemm {
 public:
  StoredGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads);

  // Like Gemm::run.
  void run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const;
  const GemmPlan& plan() const { return plan_; }

 private:
  GemmShape shape_;
  StoredMatrix matrix_;
  int threads_;
  GemmPlan plan_;
  std::optional<StripGemm> strips_;  // absent: our own kernel runs
};

}  // namespace plimsoll::cpu
