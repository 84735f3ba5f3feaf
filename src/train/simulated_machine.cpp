#include "train/simulated_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "device/host_store.h"
#include "train/machine_facts.h"
#include "train/measure_store.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads) {
  MachineRecord record;
  Machine& machine = record.machine;
  machine.name = "sim";
  machine.instruction_set = "none";
  machine.threads = threads;
  machine.tiers = {{"device", kGiB * 16}, {"host", kGiB * 64}, {"disk", kGiB * 1024}};
  const auto link = [&](const char* from, const char* to, double rate, double latency) {
    machine.links.push_back({from, to, rate, latency});
    machine.links.push_back({to, from, rate, latency});
  };
  link("device", "host", 5e9, 10e-6);
  link("host", "disk", 1e9, 100e-6);
  machine.flops_per_second = 50e9 * threads;
  machine.bytes_per_second = 10e9;
  machine.step_seconds = 2e-6;
  machine.reserve = {kMiB * 16, kKiB * 128, kKiB * 4, kMiB * 2 * (threads + 1), kMiB};
  machine.hash = machine_hash(machine);
  record.build = "sim";
  record.copy_bytes_per_second = 10e9;
  return record;
}

void simulate_device(Machine& machine, const std::filesystem::path& cache, const std::function<void(const std::string&)>& say) {
  constexpr Bytes kMost{96 << 20};
  const StoreOfPieces store = [](const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
    return std::make_unique<HostStore>(pieces.back().offset + pieces.back().bytes, events, pieces);
  };
  const int threads = std::min(machine.threads, usable_cores());
  const StoreRate rate = store_rate(store, kMost, threads, "memory", "copies from memory to memory",
                                    cache / fmt::format("host-{}.json", threads), say);
  const Bytes capacity = machine.tiers.front().capacity;
  machine.tiers = {{"device", capacity}, {"host", capacity}};
  const auto link = [&](const char* from, const char* to) {
    return Link{
        from, to, rate.bytes_per_second, rate.latency_seconds, true, rate.alone_bytes_per_second, rate.kernel_seconds_per_byte};
  };
  machine.links = {link("device", "host"), link("host", "device")};
  machine.host_reserve = std::exchange(machine.reserve, {});
}

void limit_links(Machine& machine, const LinkRates& rates) {
  for (Link& link : machine.links) {
    const double most = link.from == "disk" || link.to == "disk" ? rates.disk : rates.host;
    if (most <= 0) continue;
    link.alone_bytes_per_second = std::min(link.alone(), most);
    link.bytes_per_second = std::min(link.bytes_per_second, most);
  }
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
