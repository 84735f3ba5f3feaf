// A kernel bound to the types of one node, and the table of the CPU's kernels by op. Binding may create library handles. Running
// allocates nothing, reads its inputs, writes its outputs and uses exactly the planned scratch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/kernel_catalogue.h"
#include "ops/check.h"
#include "ops/families.h"

namespace plimsoll {

// Addresses in the order of the node's inputs and outputs, also of inputs that the call does not read (an accumulator before its
// first write).
struct KernelCall {
  std::span<std::byte*const> inputs, outputs;
  std::byte* scratch = nullptr;
  NodeRange range = {};    // for an op on ranges; the addresses of its range operands point to the range's begin
  void* stream = nullptr;  // the stream of a GPU for the kernel's work

  template <class T = float>
  const T* in(std::size_t i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <class T = float>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelCall& call) const = 0;
  // The algorithm that a library chose during binding, if planning does not ask that library; else empty.
  virtual std::string algorithm() const { return {}; }
};

// A kernel from a callable that takes a KernelCall.
template <class Function>
std::unique_ptr<Kernel> make_kernel(Function function, std::string algorithm = {}) {
  struct Bound final : Kernel {
    Bound(Function function, std::string algorithm) : function(std::move(function)), chosen(std::move(algorithm)) {}
    void run(const KernelCall& call) const override { function(call); }
    std::string algorithm() const override { return chosen; }
    Function function;
    std::string chosen;
  };
  return std::make_unique<Bound>(std::move(function), std::move(algorithm));
}

// The CPU's kernel for an op. `choose` returns implementation, scratch and primitives; null: our own kernel without scratch.
struct CpuKernel {
  const OpDef* op;
  KernelChoice (*choose)(const KernelRequest&);
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);
};

// Null if the CPU has no kernel for the op.
const CpuKernel* find_cpu_kernel(const OpDef& op);

// Each family's kernels, gathered by find_cpu_kernel.
using CpuKernels = std::vector<CpuKernel>;
#define PLIMSOLL_DECLARE(NAME) CpuKernels NAME##_cpu_kernels();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// True if the op has an accumulator and the kernel adds to it instead of writing it.
template <class A>
bool accumulates(const KernelRequest& request) {
  return request.attributes->as<A>().accumulate && !request.overwrite;
}

// A tensor as rows over its last axis.
struct Rows {
  std::int64_t rows, width;

  explicit Rows(const ValueType& x) : rows(ops::rows_of(x.shape)), width(x.shape.last()) {}
};

// The choice of our own kernel, with its name in plans and machine files.
inline KernelChoice own_kernel(Bytes scratch = {}) {
  KernelChoice choice;
  choice.implementation = "plimsoll";
  choice.scratch = scratch;
  return choice;
}

}  // namespace plimsoll
