// Where a program runs, as the executor sees it: kernels bound to nodes, the arena that their addresses lie in, what moves
// between tiers, and what the host writes and reads. A device takes no decision; an instruction that it is given is due.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ops/kernel.h"
#include "program/program.h"

namespace plimsoll {

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
};

}  // namespace plimsoll
