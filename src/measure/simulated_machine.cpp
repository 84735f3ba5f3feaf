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
  machine.tiers = {{"device", kGiB * 16}, {"host", kGiB * 64}, {"disk", kGiB * 1024}};
  const auto link = [&](const char* from, const char* to, double rate, double latency) {
    machine.links.push_back({from, to, rate, latency});
    machine.links.push_back({to, from, rate, latency});
  };
  link("device", "host", 5e9, 10e-6);
  link("host", "disk", 1e9, 100e-6);
  machine.rates = {.flops_per_second = 50e9 * threads, .bytes_per_second = 10e9, .step_seconds = 2e-6};
  machine.reserve = {kMiB * 16, kKiB * 128, kKiB * 4, kMiB * 2 * (threads + 1), kMiB};
  machine.hash = machine_hash(machine);
  record.build = "sim";
  record.copy_bytes_per_second = 10e9;
  return record;
}

void simulate_device(Machine& machine, const std::filesystem::path& cache, const std::function<void(const std::string&)>& say) {
  const Bytes capacity = machine.tiers.front().capacity;
  // The pages of this store lie in memory as well.
  const std::optional<Bytes> room = MemoryLimit::room();
  const Bytes of_store = room ? std::min(capacity, Bytes{room->n / 5}) : capacity;
  const MeasuredStore store{"copies from memory to memory", "host", of_store,
                            [](Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
                              return std::make_unique<HostStore>(size, events, pieces);
                            }};
  const Link measured = store_link(store, machine.threads, cache, say);
  machine.tiers = {{"device", capacity}, {"host", capacity}};
  machine.links = {between("device", "host", measured), between("host", "device", measured)};
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
