// Matrix products of dense row-major operands, run by oneDNN (library_gemm.h) or, where oneDNN would hide memory or is slower, by
// our own kernel (gemm_tiled.h). A and B are both fp32, or both of one 16-bit type, whose products are added in fp32: by
// instructions of the processor for that where it has them, else A and B are widened first. C is rounded to their type where that
// is asked for. Everything else is fp32. plan_gemm tells what will run and every byte that it needs, without running it; Gemm
// binds it once and runs it in the scratch. The implementation follows from the shape, the number of threads, the library and the
// processor (its instruction set and its maker) alone: never from a timing.
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
  Bytes scratch;               // all of it: the library's scratchpad, packed or widened operands, each 64-byte aligned
  int primitives = 0;          // pieces of generated code; equal shapes share theirs
};

// `library`: oneDNN may run it; else our own kernel does, and the plan is the same on every processor.
GemmPlan plan_gemm(const GemmShape& shape, int threads, bool library = true);

class Gemm {
 public:
  Gemm(const GemmShape& shape, int threads);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // All pointers are 64-byte aligned; bias and scratch may be null where the shape or the plan needs none. Bits do not depend on
  // addresses nor on what scratch holds. The library's own bookkeeping, a few hundred bytes of heap, is gone when it returns.
  void run(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;
  const GemmShape& shape() const { return shape_; }
  const GemmPlan& plan() const { return plan_; }

 private:
  void run_widened(const void* a, const void* b, const float* bias, void* c, std::byte* scratch) const;

  GemmShape shape_;
  int threads_;
  GemmPlan plan_;
  std::optional<LibraryGemm> library_;  // nothing: our own kernel runs
  std::unique_ptr<const Gemm> wide_;    // runs in its stead, on widened operands
};

}  // namespace plimsoll::cpu
