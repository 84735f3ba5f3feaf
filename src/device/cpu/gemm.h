// Matrix products of dense row-major operands. oneDNN (library_gemm.h) runs them or, if oneDNN would hide memory or is slower,
// our own kernel (gemm_tiled.h). A and B are both fp32, or both of one 16-bit type; sums are fp32. 16-bit operands are multiplied
// by the processor's instructions for them, if it has any, or else widened first. C is fp32 or rounded to the type of A and B.
// plan_gemm returns the implementation and all bytes that it needs, without running it; Gemm binds it once and runs it in the
// scratch. The choice depends on the shape, the number of threads, the library and the processor (instruction set and maker)
// alone, never on a timing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "device/cpu/library_gemm.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

struct GemmPlan {
  std::string implementation;  // "onednn-2.6.3 brg:avx512_core packed_b"; a part of a plan's hash
  Bytes scratch;               // the library's scratchpad, packed and widened operands, each 64-byte aligned
  int primitives = 0;          // number of pieces of generated code; equal shapes share theirs
};

// `library`: oneDNN may run the product. Otherwise our own kernel does, and the plan is the same on every processor.
GemmPlan plan_gemm(const GemmShape& shape, int threads, bool library = true);

class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // All pointers are 64-byte aligned; bias and scratch may be null if the shape or the plan needs none. Bits depend neither on
  // addresses nor on the content of the scratch. The library frees its own bookkeeping, a few hundred bytes of heap, before
  // returning.
  void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;
  const GemmShape& shape() const { return shape_; }
  const GemmPlan& plan() const { return plan_; }

 private:
  void run_widened(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;

  GemmShape shape_;
  int threads_;
  GemmPlan plan_;
  std::optional<LibraryGemm> library_;  // absent: our own kernel runs
  std::unique_ptr<const Gemm> wide_;    // the product of widened operands that runs instead; null: none
};

}  // namespace plimsoll::cpu
