// Products with a frozen B that is decoded to the type of A strip by strip, in scratch: the columns of C that a strip makes are
// done before the next one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/gemm.h"
#include "device/cpu/stored_matrix.h"

namespace plimsoll::cpu {

// The most bytes of a decoded strip.
inline constexpr std::int64_t kStripBytes = 4 << 20;

// Whether the library has a plan for such strips. `shape`: see stored_gemm.h.
bool library_takes_strips(const GemmShape& shape, int threads);

class StripGemm {
 public:
  StripGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads);
  // What it is bound to, without binding it.
  static GemmPlan plan_of(const GemmShape& shape, const StoredMatrix& matrix, int threads);

  const GemmPlan& plan() const { return plan_; }
  // As Gemm::run.
  void run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const;

 private:
  GemmShape shape_;
  StoredMatrix matrix_;
  Gemm full_, last_;
  GemmPlan plan_;
};

}  // namespace plimsoll::cpu
