// The devices in host memory: the CPU itself, over an arena and the tiers past it, and `null`, which computes and moves nothing.
#pragma once

#include <algorithm>

#include "device/arena.h"
#include "device/tier_store.h"
#include "run/device.h"

namespace plimsoll {

class CpuDevice : public Device {
 public:
  // The tiers past the first, by number; null for a tier without data.
  using Stores = PerTier<TierStore*>;
  // All arguments outlive this.
  explicit CpuDevice(const Arena& arena, const Stores& stores = {}) : arena_(arena), stores_(stores) {}

  BoundKernel bind(const KernelRequest& request) override;
  std::byte* address(const Operand& operand) const override { return arena_.base() + operand.offset.n; }
  bool on_host() const override { return true; }
  void start(const StartCopy& copy) override;
  void wait(const WaitCopy& copy) override;
  std::byte* host(const Operand& operand) const override { return address(operand); }
  void fed(const std::vector<Operand>&) override {}
  void fetch(const std::vector<Operand>&) override {}
  void read(const Operand& operand, const Sink& sink) const override;
  void write(const Operand& operand, const Source& source) override;
  void stamp(std::size_t number) override;
  double seconds_between(std::size_t from, std::size_t to) const override { return stamps_.at(to) - stamps_.at(from); }
  Bytes resident() const override { return std::min(arena_.resident(), align_up(arena_.size(), kPage)); }
  std::optional<TierUse> use_of(std::size_t tier) const override;

 private:
  TierStore& store_of(std::uint8_t tier) const;
  std::span<std::byte> memory(const Operand& operand) const;

  const Arena& arena_;
  Stores stores_;
  std::vector<double> stamps_;
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
