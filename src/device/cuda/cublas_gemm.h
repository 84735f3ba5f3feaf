// Matrix products on a GPU through cuBLASLt. The algorithm is the heuristic's first answer for the shape, within a workspace that
// does not depend on the budget. Bits therefore depend on shape, GPU and library alone. The emulation uses plain loops.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cuda {

// Elements from a row of a matrix in memory to the next; 0: rows are contiguous.
struct GemmStrides {
  std::int64_t a = 0, b = 0, c = 0;
};

class Gemm {
 public:
  // `workspace`: the bytes that the library may use, equal for all shapes. Throws E-CUDA-DEVICE if it has no algorithm for this
  // shape.
  Gemm(const GemmShape& shape, Bytes workspace, const GemmStrides& strides = {});

  // The library's algorithm. Equal texts mean equal bits, on one GPU and with one version of the library.
  std::string algorithm() const;

  // Pointers are addresses of the device, multiples of 256 bytes. The bias has the result's type.
  void run(void* stream, const void* a, const void* b, const void* bias, void* c, std::byte* workspace) const;

 private:
  struct Bound;
  std::shared_ptr<const Bound> bound_;
};

}  // namespace plimsoll::cuda
