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

  // `kernel` is null on a device that computes nothing. `scratch` is the bytes that the kernel itself demands.
  struct BoundKernel {
    std::unique_ptr<Kernel> kernel;
    Bytes scratch;
  };
  virtual BoundKernel bind(const KernelRequest& request) = 0;
  // The address of an operand of tier 0 for kernels.
  virtual std::byte* address(const Operand& operand) const = 0;
  // True if kernels run on the host, so that host() has an address for every operand of tier 0.
  virtual bool on_host() const { return false; }
  // The stream of the kernels, for KernelCall::stream.
  virtual void* stream() const { return nullptr; }

  // Copies between tiers run next to the kernels. wait() throws the error of a copy.
  virtual void start(const StartCopy& copy) = 0;
  virtual void wait(const WaitCopy& copy) = 0;

  // True if an instruction other than feed and fetch needs the host.
  virtual bool waits_on_host(const Instruction&) const { return false; }
  // Runs `work`, a sequence of instructions that need no host. A segment number stands for the same instructions in each call.
  virtual void run(std::size_t /*segment*/, const std::function<void()>& work) { work(); }
  // Called before the arena has valid content. `everything` runs each segment of all sections, for a device that loads and
  // allocates on first use.
  virtual void prepare(const std::function<void()>& /*everything*/) {}

  // expect() is called before each kernel, check() after each kernel and each start of a copy. A device that waits for each
  // instruction throws the instruction's error from check().
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

  // Marks a numbered point in the work of the kernels. seconds_between() may wait for that work.
  virtual void stamp(std::size_t /*number*/) {}
  virtual double seconds_between(std::size_t /*from*/, std::size_t /*to*/) const { return 0; }

  // Bytes that this process holds of the GPU's memory now, as the driver counts them; absent on other devices.
  virtual std::optional<Bytes> used() const { return {}; }
  // The arena's resident bytes, as the system counts them.
  virtual Bytes resident() const { return {}; }
  // The use of a tier; absent for a tier without data.
  virtual std::optional<TierUse> use_of(std::size_t /*tier*/) const { return {}; }
};

}  // namespace plimsoll
