// The executor's interface to a device: kernels bound to nodes, the arena with their operands, copies between tiers, and host
// access. A device takes no decision and carries out each instruction at once.
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

// The use of a tier past the first: the end of the highest written byte, the number of distinct written bytes, and the bytes of
// all writes to a disk.
struct TierUse {
  Bytes height, written, wear;
  std::optional<TransferEngine> transfers;  // of a disk
};

class Device {
 public:
  virtual ~Device() = default;

  // `kernel` is null on a device that computes nothing. `scratch`: the kernel's own demand.
  struct BoundKernel {
    std::unique_ptr<Kernel> kernel;
    Bytes scratch;
  };
  virtual BoundKernel bind(const KernelRequest& request) = 0;
  // The address of an operand of tier 0 for kernels.
  virtual std::byte* address(const Operand& operand) const = 0;
  // The stream of the kernels, for KernelCall::stream.
  virtual void* stream() const { return nullptr; }

  // Copies between tiers run next to the kernels. wait() throws the error of a copy.
  virtual void start(const StartCopy& copy) = 0;
  virtual void wait(const WaitCopy& copy) = 0;

  // True if an instruction other than feed and fetch needs the host.
  virtual bool waits_on_host(const Instruction&) const { return false; }
  // Runs a sequence of instructions without the host by `work`. A segment number always has the same instructions.
  virtual void run(std::size_t /*segment*/, const std::function<void()>& work) { work(); }
  // Called before the arena has valid content. `everything` runs each segment of all sections, for a device that loads and
  // allocates on first use.
  virtual void prepare(const std::function<void()>& /*everything*/) {}

  // Called before and after a kernel; check() also after a copy. check() throws the error of the instruction if the device waits
  // for each.
  virtual void expect(const RunKernel&) {}
  virtual void check() {}

  // The host's address of a fed or fetched operand of tier 0. fed() makes the host's bytes visible to kernels, fetch() those of
  // the kernels to the host.
  virtual std::byte* host(const Operand& operand) const = 0;
  virtual void fed(const std::vector<Operand>& written) = 0;
  virtual void fetch(const std::vector<Operand>& wanted) = 0;

  // The bytes of an operand of any tier, in order and in one or more parts; only between the runs of sections.
  using Sink = std::function<void(std::span<const std::byte>)>;
  using Source = std::function<void(std::span<std::byte>)>;
  virtual void read(const Operand& operand, const Sink& sink) const = 0;
  virtual void write(const Operand& operand, const Source& source) = 0;

  // Numbered points in the work of the kernels, and the seconds from one to another after all work so far.
  virtual void stamp(std::size_t /*number*/) {}
  virtual double seconds_between(std::size_t /*from*/, std::size_t /*to*/) const { return 0; }

  // The present memory of this process by the GPU's driver, in bytes; absent on other devices.
  virtual std::optional<Bytes> used() const { return {}; }
  // The arena's resident bytes by the system's count; the use of a tier, absent for a tier without data.
  virtual Bytes resident() const { return {}; }
  virtual std::optional<TierUse> use_of(std::size_t /*tier*/) const { return {}; }
};

}  // namespace plimsoll
