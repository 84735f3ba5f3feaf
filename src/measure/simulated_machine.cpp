#include "measure/simulated_machine.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory_limit.h"
#include "device/host_store.h"
#include "measure/measure_store.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads) {
  MachineRecord record;
  Machine& machine = record.machine;
  machine.name = "sim";
  machine.instruction_set = "none";
  machine.threads = threads;
  machine.tiers = {
      {TierKind::compute, "device", kGiB * 16}, {TierKind::host, "host", kGiB * 64}, {TierKind::disk, "disk", kGiB * 1024}};
  const auto link = [&](std::size_t from, std::size_t to, double rate, double latency) {
    machine.links.push_back({from, to, rate, latency});
    machine.links.push_back({to, from, rate, latency});
  };
  link(0, 1, 5e9, 10e-6);
  link(1, 2, 1e9, 100e-6);
  machine.rates = {.flops_per_second = 50e9 * threads, .bytes_per_second = 10e9, .step_seconds = 2e-6};
  machine.reserve = {kMiB * 16, kKiB * 128, kKiB * 4, kMiB * 2 * (threads + 1), kMiB};
  machine.hash = machine_hash(machine);
  record.build = "sim";
  record.copy_bytes_per_second = 10e9;
  return record;
}

void simulate_device(Machine& machine, const std::filesystem::path& cache, const std::function<void(const std::string&)>& say) {
  const Bytes capacity = machine.tiers.front().capacity;
  // The pages of this store take memory, too.
  const std::optional<Bytes> room = MemoryLimit::room();
  const Bytes of_store = room ? std::min(capacity, Bytes{room->n / 5}) : capacity;
  const MeasuredStore store{"copies from memory to memory", "host", of_store,
                            [](Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
                              return std::make_unique<HostStore>(size, events, pieces);
                            }};
  const Link measured = store_link(store, machine.threads, cache, say);
  machine.tiers = {{TierKind::compute, "device", capacity}, {TierKind::host, "host", capacity}};
  machine.links = {between(0, 1, measured), between(1, 0, measured)};
  machine.host_reserve = std::exchange(machine.reserve, {});
}

void limit_links(Machine& machine, const LinkRates& rates) {
  for (Link& link : machine.links) {
    const double most = machine.tiers[std::max(link.from, link.to)].kind == TierKind::disk ? rates.disk : rates.host;
    if (most <= 0) continue;
    link.alone_bytes_per_second = std::min(link.alone(), most);
    link.bytes_per_second = std::min(link.bytes_per_second, most);
  }
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
