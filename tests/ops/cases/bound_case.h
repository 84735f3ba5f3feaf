// A case with its kernel bound and buffers of its own: every buffer starts at a cache line and lies between guard bytes, so that
// a write past an output, an input or the scratch is seen.
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

// A buffer of a case as it begins: `filled` with values that may be read, and whether values are expected in it afterwards.
struct CaseBuffer {
  std::span<std::byte> all, inside;  // with guards and without
  bool filled = false, wanted = false;
};

// Where the buffers of a case lie while kernels run that do not reach the host's memory.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  // Of a byte of a buffer.
  virtual std::byte* address(std::byte* here) const = 0;
  virtual void* stream() const = 0;
  // Brings the buffers there, does `work`, which puts kernels on the stream, and brings them back.
  virtual void run(const std::function<void()>& work) = 0;
};

// What runs a case: the CPU's kernels, or a GPU's.
struct Backend {
  std::string_view name;
  KernelChoice (*choose)(const KernelRequest&);
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);  // null where it has no kernel for the op
  bool (*takes_ranges)(const OpDef&);                     // where the op has a rule for them
  bool rounds_between;                                    // what lies between two products of 16-bit operands is rounded to them
  void (*reverse_turns)(bool reversed) = nullptr;
  std::unique_ptr<Elsewhere> (*elsewhere)(std::span<const CaseBuffer>) = nullptr;  // null: kernels work where buffers are
};
// kCuda: whichever is linked, over the emulation (emulated_cuda.cpp) or on the device (tests/cuda/on_device.cpp).
extern const Backend kCpu, kCuda;

struct RunOptions {
  const Backend* backend = &kCpu;
  int threads = 2;
  std::byte poison{0xFF};         // of scratch and of outputs before the run; 0xFF is NaN as a float
  std::optional<Alias> in_place;  // this output takes the bytes of this input
  bool in_ranges = false;         // bound to run on ranges
  bool reversed = false;          // the emulation's threads take turns from the last to the first
};

class BoundCase {
 public:
  // Sets the team to `options.threads`. Inputs that the case overwrites hold poison.
  BoundCase(const OpDef& op, const OpCase& a_case, const std::vector<Numbers>& inputs, const RunOptions& options = {});

  void run();
  // The same on ranges of so many elements, one after the other, for an op that has a rule for them.
  void run_in_ranges(std::int64_t elements);
  const KernelChoice& choice() const { return choice_; }
  std::vector<Numbers> outputs() const;
  std::vector<std::vector<std::byte>> output_bytes() const;
  // What the run touched and should not have: guards, and inputs that the op does not declare as updated. Empty: nothing.
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
  std::vector<CaseBuffer> as_begun_;                    // of each
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<std::optional<std::vector<std::byte>>> before_;  // of each input that has to stay as it is
  std::byte* scratch_ = nullptr;
  const Backend& backend_;
  bool reversed_;
  std::unique_ptr<Elsewhere> elsewhere_;  // while calls run
  KernelChoice choice_;
  std::unique_ptr<Kernel> kernel_;
};

// The values that a reference sees: where the case overwrites, accumulators count as zero.
std::vector<Numbers> reference_outputs(const OpCases& cases, const OpCase& a_case, std::vector<Numbers> inputs);

}  // namespace plimsoll::test
