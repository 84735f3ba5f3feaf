// Where a program runs, as the executor sees it: kernels bound to nodes, the arena that their addresses lie in, what moves
// between tiers, and what the host writes and reads. A device takes no decision; an instruction that it is given is due.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/kernel.h"
#include "program/program.h"

namespace plimsoll {

// What was used of a tier past the first: the end of the highest byte that was written, all that were, and what all writes to a
// disk have put there.
struct TierUse {
  Bytes height, written, wear;
  std::optional<TransferEngine> transfers;  // of a disk
};

class Device {
 public:
  virtual ~Device() = default;

  // Null where the device computes nothing. `scratch` is what the kernel itself says that it needs.
  struct BoundKernel {
    std::unique_ptr<Kernel> kernel;
    Bytes scratch;
  };
  virtual BoundKernel bind(const KernelRequest& request) = 0;
  // Where kernels find an operand of tier 0.
  virtual std::byte* address(const Operand& operand) const = 0;
  // On which kernels put their work, as KernelCall::stream.
  virtual void* stream() const { return nullptr; }

  // Copies between tiers, which move beside the kernels. What ends one is thrown where it is waited for.
  virtual void start(const StartCopy& copy) = 0;
  virtual void wait(const WaitCopy& copy) = 0;

  // Whether the host itself takes part in an instruction that neither feeds nor fetches.
  virtual bool waits_on_host(const Instruction&) const { return false; }
  // Instructions in a row in which it does not: `work` does them. Those of one number are always the same.
  virtual void run(std::size_t /*segment*/, const std::function<void()>& work) { work(); }
  // Before anything that the arena holds counts: `everything` runs each segment, of whatever section, for a device that loads and
  // allocates when it meets work for the first time.
  virtual void prepare(const std::function<void()>& /*everything*/) {}

  // Around a kernel, and after a copy that it was given: throws what went wrong with it, where the device is asked to look at
  // each.
  virtual void expect(const RunKernel&) {}
  virtual void check() {}

  // Where the host writes and reads an operand of tier 0 that is fed or fetched; after feeding it kernels see it, after fetching
  // it the host sees what kernels have left.
  virtual std::byte* host(const Operand& operand) const = 0;
  virtual void fed(const std::vector<Operand>& written) = 0;
  virtual void fetch(const std::vector<Operand>& wanted) = 0;

  // The bytes of an operand of any tier, in order and in one or more parts; only between the runs of sections.
  using Sink = std::function<void(std::span<const std::byte>)>;
  using Source = std::function<void(std::span<std::byte>)>;
  virtual void read(const Operand& operand, const Sink& sink) const = 0;
  virtual void write(const Operand& operand, const Source& source) = 0;

  // Points in the work of the kernels, by number, and the seconds from one to another; what was given to the device is waited
  // for.
  virtual void stamp(std::size_t /*number*/) {}
  virtual double seconds_between(std::size_t /*from*/, std::size_t /*to*/) const { return 0; }

  // Of a GPU, what its driver counts for this process now; nothing where the process itself is what counts.
  virtual std::optional<Bytes> used() const { return {}; }
  // Of the arena, as the system counts it; and of a tier, nothing where the program keeps nothing there.
  virtual Bytes resident() const { return {}; }
  virtual std::optional<TierUse> use_of(std::size_t /*tier*/) const { return {}; }
};

}  // namespace plimsoll
