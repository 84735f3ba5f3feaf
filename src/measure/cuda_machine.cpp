#include "measure/cuda_machine.h"

#include <fmt/core.h>

#include "base/child.h"
#include "base/hash.h"
#include "device/process_memory.h"
#include "run/cuda_backend.h"

namespace plimsoll {
namespace {

// Device memory of modules loaded later, after a context has run products and copies.
constexpr Bytes kLater{32 << 20};
// Host memory of kernels that the library loads for other shapes.
constexpr Bytes kHostLater{64 << 20};
// Host memory of the handles and descriptors of one library kernel, and of a graph node (2.4 KiB with an H100's driver).
constexpr Bytes kHandle{16 << 10}, kGraphNode{3 << 10};

std::filesystem::path file_of(const std::string& name, const std::vector<std::string>& libraries, const MachineRecord& here,
                              const std::filesystem::path& cache) {
  Hasher hasher;
  hasher.add(name).add(here.build).add(std::to_string(here.machine.threads)).add(here.machine.name);
  for (const std::string& library : libraries) hasher.add(library);
  return cache / fmt::format("machine-cuda-{}.json", hasher.hex().substr(0, 16));
}

Link link_of(std::size_t from, std::size_t to, const CudaRates::Way& way) {
  Link link{.from = from, .to = to};
  link.bytes_per_second = way.bytes_per_second;
  link.alone_bytes_per_second = way.alone_bytes_per_second;
  link.latency_seconds = 10e-6;
  return link;
}

// The process takes the host memory of a run without a GPU plus that of the module and its libraries.
MachineRecord measured(const CudaFacts& facts, const CudaRates& rates, const MachineRecord& here, Bytes module) {
  MachineRecord record = here;
  Machine& machine = record.machine;
  machine.name = facts.name;
  machine.backend = Backend::cuda;
  machine.instruction_set = std::string(name(machine.backend));
  machine.libraries = facts.libraries;
  machine.tiers = {{TierKind::compute, "device", facts.memory}, {TierKind::host, "host", here.machine.tiers.front().capacity}};
  machine.links = {link_of(0, 1, rates.out), link_of(1, 0, rates.in)};
  machine.rates = rates.peaks;
  machine.host_reserve = here.machine.reserve;
  machine.host_reserve.code += module + kHostLater;
  machine.host_reserve.per_primitive = kHandle;
  machine.host_reserve.per_launch = kGraphNode;
  machine.reserve = {.code = align_up(rates.outside + kLater, kMiB), .per_launch = align_up(rates.graph_node, Bytes{64})};
  record.copy_bytes_per_second = rates.copy_bytes_per_second;
  record.kernel_seconds.clear();
  record.algorithms.clear();
  record.sharing.reset();  // concerns the processors, not the GPU
  record.repeats = 0;
  record.shared_kernels.clear();
  machine.hash = machine_hash(machine);
  return record;
}

}  // namespace

MachineRecord cuda_machine(const MachineRecord& here, const std::filesystem::path& cache,
                           const std::function<void(const std::string&)>& say) {
  const std::string file = run_in_child([&] {
    const Bytes before = peak_resident();
    const CudaBackend& cuda = load_cuda();
    const CudaFacts facts = cuda.open();
    const Bytes module = peak_resident() - before;
    const std::filesystem::path path = file_of(facts.name, facts.libraries, here, cache);
    if (kept_machine(path)) return path.string();
    if (say) say(fmt::format("measuring {}, once, for {}", facts.name, path.string()));
    write_machine_file(path, measured(facts, cuda.measure(), here, module));
    return path.string();
  });
  return read_machine_file(file);
}

std::filesystem::path cuda_machine_file(const MachineRecord& record, const MachineRecord& here,
                                        const std::filesystem::path& cache) {
  return file_of(record.machine.name, record.machine.libraries, here, cache);
}

}  // namespace plimsoll
