#include "run/cpu_device.h"

#include "base/clock.h"
#include "base/error.h"

namespace plimsoll {

Device::BoundKernel CpuDevice::bind(const KernelRequest& request) {
  const CpuKernel* kernel = find_cpu_kernel(*request.op);
  ensure(kernel != nullptr, "device", "an op has no kernel");
  return {kernel->bind(request), kernel->choose == nullptr ? Bytes{} : kernel->choose(request).scratch};
}

TierStore& CpuDevice::store_of(std::uint8_t tier) const {
  TierStore* store = stores_[tier];
  ensure(store != nullptr, "device", "a program that copies between tiers lacks one");
  return *store;
}

std::span<std::byte> CpuDevice::memory(const Operand& operand) const {
  return {address(operand), static_cast<std::size_t>(operand.bytes.n)};
}

void CpuDevice::start(const StartCopy& copy) {
  if (copy.from.tier != 0) {
    store_of(copy.from.tier).start_read(copy.event, copy.from.offset, memory(copy.to));
  } else {
    store_of(copy.to.tier).start_write(copy.event, copy.to.offset, memory(copy.from));
  }
}

void CpuDevice::wait(const WaitCopy& copy) { store_of(copy.tier).wait(copy.event); }

void CpuDevice::stamp(std::size_t number) {
  const double now = seconds_now();
  if (number >= stamps_.size()) stamps_.resize(number + 1);
  stamps_[number] = now;
}

std::optional<TierUse> CpuDevice::use_of(std::size_t tier) const {
  const TierStore* store = stores_[tier];
  if (store == nullptr) return {};
  return TierUse{store->height(), store->written(), store->wear(), store->transfers()};
}

void CpuDevice::read(const Operand& operand, const Sink& sink) const {
  if (operand.tier != 0) return store_of(operand.tier).read(operand.offset, operand.bytes, sink);
  sink(memory(operand));
}

void CpuDevice::write(const Operand& operand, const Source& source) {
  if (operand.tier != 0) return store_of(operand.tier).write(operand.offset, operand.bytes, source);
  source(memory(operand));
}

}  // namespace plimsoll
