// A kernel bound to the types of one node, and the table that says for each op how the CPU runs it. Binding may create library
// handles; running allocates nothing, reads its inputs, writes its outputs and uses exactly the scratch that was planned.
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

// Addresses in the order of the node's inputs and outputs. An input that the node does not read (an accumulator that is about to
// be written) is given all the same.
struct KernelCall {
  std::span<std::byte*const> inputs, outputs;
  std::byte* scratch = nullptr;
  NodeRange range = {};    // of an op on ranges: the operands that are ranges begin with it
  void* stream = nullptr;  // of a GPU, on which the kernel puts its work

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
  // The library's algorithm, if the library chose it while binding and planning asks none; else empty.
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

// How the CPU runs an op. `choose` fills implementation, scratch and primitives; null: our own kernel without scratch.
struct CpuKernel {
  const OpDef* op;
  KernelChoice (*choose)(const KernelRequest&);
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);
};

// Null where the CPU has no kernel for the op.
const CpuKernel* find_cpu_kernel(const OpDef& op);

// Each family's kernels, gathered by find_cpu_kernel.
using CpuKernels = std::vector<CpuKernel>;
#define PLIMSOLL_DECLARE(NAME) CpuKernels NAME##_cpu_kernels();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// True: the kernel adds to its accumulator. The op has one, and this is not the call that writes it.
template <class A>
bool accumulates(const KernelRequest& request) {
  return request.attributes->as<A>().accumulate && !request.overwrite;
}

// A tensor as rows over its last axis.
struct Rows {
  std::int64_t rows, width;

  explicit Rows(const ValueType& x) : rows(ops::rows_of(x.shape)), width(x.shape.last()) {}
};

// Our own kernels go by this name in plans and machine files.
inline KernelChoice own_kernel(Bytes scratch = {}) {
  KernelChoice choice;
  choice.implementation = "plimsoll";
  choice.scratch = scratch;
  return choice;
}

}  // namespace plimsoll
