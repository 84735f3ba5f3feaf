// The devices whose memory is the host's: the CPU itself, over an arena and the tiers past it, and `null`, which computes and
// moves nothing.
#pragma once

#include <array>

#include "device/arena.h"
#include "device/tier_store.h"
#include "run/device.h"

namespace plimsoll {

class CpuDevice : public Device {
 public:
  // The tiers past the first, by number; null where the program keeps nothing.
  using Stores = std::array<TierStore*, kMostTiers>;
  // All outlive this.
  explicit CpuDevice(const Arena& arena, const Stores& stores = {}) : base_(arena.base()), stores_(stores) {}

  BoundKernel bind(const KernelRequest& request) override;
  std::byte* address(const Operand& operand) const override { return base_ + operand.offset.n; }
  void start(const StartCopy& copy) override;
  void wait(const WaitCopy& copy) override;
  std::byte* host(const Operand& operand) const override { return address(operand); }
  void fed(const std::vector<Operand>&) override {}
  void fetch(const std::vector<Operand>&) override {}
  void read(const Operand& operand, const Sink& sink) const override;
  void write(const Operand& operand, const Source& source) override;

 private:
  TierStore& store_of(std::uint8_t tier) const;
  std::span<std::byte> memory(const Operand& operand) const;

  std::byte* base_;
  Stores stores_;
};

class NullDevice : public Device {
 public:
  BoundKernel bind(const KernelRequest&) override { return {}; }
  std::byte* address(const Operand&) const override { return nullptr; }
  void start(const StartCopy&) override {}
  void wait(const WaitCopy&) override {}
  std::byte* host(const Operand&) const override { return nullptr; }
  void fed(const std::vector<Operand>&) override {}
  void fetch(const std::vector<Operand>&) override {}
  void read(const Operand&, const Sink&) const override {}
  void write(const Operand&, const Source&) override {}
};

}  // namespace plimsoll
