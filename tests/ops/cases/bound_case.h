// A case with its bound kernel and its buffers. Every buffer starts at a cache line and lies between guard bytes, which detect a
// write past an output, an input or the scratch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/kernel_catalogue.h"
#include "ops/cases/cases.h"
#include "ops/kernel.h"

namespace plimsoll::test {

class GuardedBytes {
 public:
  GuardedBytes(std::size_t size, std::byte fill);

  std::byte* data() const { return memory_.get() + kGuard; }
  std::size_t size() const { return size_; }
  std::span<std::byte> with_guards() const { return {memory_.get(), all_}; }
  std::vector<std::byte> copy() const { return {data(), data() + size_}; }
  bool intact() const;

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::byte kSentinel{0xA5};
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::size_t size_, all_;
  std::unique_ptr<std::byte, Free> memory_;
};

// A buffer of a case before the run. `filled`: it holds values that may be read. `wanted`: the run writes it.
struct CaseBuffer {
  std::span<std::byte> all, inside;  // with guards and without
  bool filled = false, wanted = false;
};

// The copies of a case's buffers in other memory, for kernels that do not reach the host's memory.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  // The address of the copy of a byte.
  virtual std::byte* address(std::byte* here) const = 0;
  virtual void* stream() const = 0;
  // Copies the buffers there, calls `work`, which puts kernels on the stream, and copies them back.
  virtual void run(const std::function<void()>& work) = 0;
};

// The kernels that run a case: those of the CPU or of a GPU.
struct Backend {
  std::string_view name;
  KernelChoice (*choose)(const KernelRequest&);
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);  // null: no kernel for the op
  bool (*takes_ranges)(const OpDef&);                     // for ops with a rule for ranges
  bool rounds_between;                                    // values between two products of 16-bit operands are rounded to 16 bits
  void (*set_emulation)(bool reversed) = nullptr;
  std::unique_ptr<Elsewhere> (*elsewhere)(std::span<const CaseBuffer>) = nullptr;  // null: kernels work on the buffers themselves
};
// kCuda is the linked one: the emulation (emulated_cuda.cpp) or the device (tests/cuda/on_device.cpp). kCudaMma is the emulation
// of a GPU whose warpgroups do not multiply together; on the device, it has no kernels.
extern const Backend kCpu, kCuda, kCudaMma;

struct RunOptions {
  const Backend* backend = &kCpu;
  int threads = 2;
  std::byte poison{0xFF};         // content of scratch and outputs before the run; 0xFF is NaN as a float
  std::optional<Alias> in_place;  // the output takes the bytes of the input
  bool in_ranges = false;         // the kernel is bound to run on ranges
  bool reversed = false;          // the emulation runs threads from the last to the first
};

class BoundCase {
 public:
  // Sets the team to `options.threads`. Overwritten inputs hold poison.
  BoundCase(const OpDef& op, const OpCase& a_case, const std::vector<Numbers>& inputs, const RunOptions& options = {});

  void run();
  // The same on consecutive ranges of n elements, for an op with a rule for ranges.
  void run_in_ranges(std::int64_t elements);
  const KernelChoice& choice() const { return choice_; }
  std::vector<Numbers> outputs() const;
  std::vector<std::vector<std::byte>> output_bytes() const;
  // The illegal writes of the run: to guards, and to inputs that the op does not declare as updated. Empty: none.
  std::string faults() const;

 private:
  void add_buffer(std::size_t bytes, std::byte fill, bool wanted);
  void place_output(std::size_t output, const RunOptions& options);
  void run_calls(const std::function<void()>& calls);
  void call(std::vector<std::byte*> inputs, std::vector<std::byte*> outputs, const NodeRange& range);

  const OpDef& op_;
  const Attributes& attributes_;
  std::vector<Alias> aliases_;
  std::vector<ValueType> input_types_, output_types_;
  std::vector<std::unique_ptr<GuardedBytes>> buffers_;  // inputs, then outputs of their own, then scratch
  std::vector<CaseBuffer> as_begun_;                    // by buffer
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<std::optional<std::vector<std::byte>>> before_;  // by input; content of the inputs that must not change
  std::byte* scratch_ = nullptr;
  const Backend& backend_;
  bool reversed_;
  std::unique_ptr<Elsewhere> elsewhere_;  // while calls run
  KernelChoice choice_;
  std::unique_ptr<Kernel> kernel_;
};

// The input values of the reference. If the case overwrites, accumulators count as zero.
std::vector<Numbers> reference_outputs(const OpCases& cases, const OpCase& a_case, std::vector<Numbers> inputs);

}  // namespace plimsoll::test
