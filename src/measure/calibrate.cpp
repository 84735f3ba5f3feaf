#include "measure/calibrate.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "formats/atomic_file.h"
#include "formats/temporary_folder.h"
#include "measure/measure.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Margins on the measured values. Code: a fault also maps cached pages around the faulting one, and a cache filled by reading the
// whole library has large pieces, which took 5 MiB more than ordinary loading. Primitives and steps: shapes differ.
constexpr Bytes kCodeMargin{6 << 20};
constexpr double kPrimitiveMargin = 1.25, kStepMargin = 1.15;

// The lock during measurements. Two processes at once would disturb each other, and the plans of the first would use rates
// that the second replaces. An unwritable folder needs no lock, because it gets no file.
class MeasuringLock {
 public:
  explicit MeasuringLock(const std::filesystem::path& machine_file) {
    std::error_code ignored;
    std::filesystem::create_directories(machine_file.parent_path(), ignored);
    fd_ = ::open((machine_file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~MeasuringLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  MeasuringLock(const MeasuringLock&) = delete;
  MeasuringLock& operator=(const MeasuringLock&) = delete;

 private:
  int fd_ = -1;
};

std::optional<MachineRecord> known_machine(const std::filesystem::path& path, const MachineFacts& facts) {
  std::optional<MachineRecord> known = kept_machine(path);
  if (!known) return {};
  known->machine.tiers = {{TierKind::compute, "ram", facts.memory}};
  return describes(*known, facts) ? std::move(known) : std::nullopt;
}

bool writable(const std::filesystem::path& folder) { return ::access(folder.c_str(), W_OK | X_OK) == 0; }

// Linux adds up per-processor counters of resident pages late: up to `batch` pages each of anonymous memory and of files.
Bytes counter_slack() {
  const std::int64_t processors = std::max<std::int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
  const std::int64_t batch = std::max<std::int64_t>(32, 2 * processors);
  return std::clamp(kPage * (2 * batch * processors), kMiB, kMiB * 16);
}

Bytes scaled(Bytes bytes, double factor) { return Bytes{static_cast<std::int64_t>(static_cast<double>(bytes.n) * factor)}; }

// The memory of a distinct piece of generated code: the average over products of typical shapes, measured in a child process.
Bytes measure_primitive(int threads) {
  // Widths of GPT-2s, whole tiles and ragged ones; forward, gradients of inputs and of weights.
  const auto shapes = [](std::int64_t rows) {
    std::vector<GemmShape> all;
    for (const std::int64_t width : {192, 384, 768, 1600}) {
      const std::int64_t wide = 3 * width;
      all.push_back({.m = rows, .n = wide, .k = width, .bias = true});
      all.push_back({.m = rows, .n = width, .k = wide, .transpose_b = true});
      all.push_back({.m = width, .n = wide, .k = rows, .transpose_a = true});
      all.push_back({.m = width, .n = wide, .k = rows, .transpose_a = true, .accumulate = true});
    }
    return all;
  };
  const std::string answer = run_in_child([&] {
    settle_process();
    MemoryLimit::release();
    cpu::set_thread_count(threads);
    std::vector<cpu::Gemm> bound;
    const auto bind = [&](std::int64_t rows) {
      int primitives = 0;
      for (const GemmShape& shape : shapes(rows)) {
        bound.emplace_back(shape, threads);
        primitives += bound.back().plan().primitives;
      }
      return primitives;
    };
    bind(128);  // loads library code that all primitives share
    const Bytes before = anonymous_resident();
    const int primitives = bind(100) + bind(1024);
    return std::to_string((anonymous_resident() - before).n / std::max(1, primitives));
  });
  return Bytes{std::stoll(answer)};
}

Machine machine_of(const MachineFacts& facts, const Rates& rates) {
  Machine machine;
  machine.name = facts.processor;
  machine.instruction_set = facts.instruction_set;
  machine.libraries = facts.libraries;
  machine.threads = facts.threads;
  machine.tiers = {{TierKind::compute, "ram", facts.memory}};
  machine.rates = rates.roofline;
  return machine;
}

// The rates of the quietest of a few attempts.
Rates measure_rates_in_child(int threads) {
  constexpr int kAttempts = 3;
  Rates best;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const json numbers = json::parse(run_in_child([&] {
      const Rates rates = measure_rates(threads);
      const Roofline& peaks = rates.roofline;
      return json{peaks.flops_per_second,      peaks.bf16_flops_per_second, peaks.bytes_per_second, peaks.step_seconds,
                  rates.copy_bytes_per_second, rates.sharing.others,        rates.sharing.stolen,   rates.sharing.waited}
          .dump();
    }));
    const auto keep_larger = [](double& most, const json& number) { most = std::max(most, number.get<double>()); };
    const auto keep_smaller = [&](double& least, const json& number) {
      least = attempt == 0 ? number.get<double>() : std::min(least, number.get<double>());
    };
    keep_larger(best.roofline.flops_per_second, numbers.at(0));
    keep_larger(best.roofline.bf16_flops_per_second, numbers.at(1));
    keep_larger(best.roofline.bytes_per_second, numbers.at(2));
    keep_smaller(best.roofline.step_seconds, numbers.at(3));
    keep_larger(best.copy_bytes_per_second, numbers.at(4));
    const Sharing sharing{numbers.at(5), numbers.at(6), numbers.at(7)};
    if (attempt == 0 || sharing.most() < best.sharing.most()) best.sharing = sharing;
    if (!sharing.shared()) break;
  }
  return best;
}

void write(const std::filesystem::path& path, const MachineRecord& record, const std::function<void(const std::string&)>& say) {
  try {
    write_machine_file(path, record);
  } catch (const Error& error) {
    if (say) say(fmt::format("the measurements are not kept: {}", error.what()));
  }
}

bool may_repeat(const MachineRecord& known, Repeat repeat) {
  constexpr int kMostRepeats = 3;
  return known.shared() && (repeat == Repeat::asked || (repeat == Repeat::when_idle && known.repeats < kMostRepeats));
}

// Measures the rates again. The previous ones stay unless the machine is quieter now.
MachineRecord measured_again(MachineRecord record, const std::filesystem::path& path,
                             const std::function<void(const std::string&)>& say) {
  if (say) {
    say(fmt::format("{} while this machine was measured; it is idle now: measuring its rates again, up to 6 s, for {}",
                    sharing_text(*record.sharing), path.string()));
  }
  const Rates rates = measure_rates_in_child(record.machine.threads);
  if (rates.sharing.shared()) {
    ++record.repeats;
    if (say) say(fmt::format("{} this time, too: the earlier rates stay", sharing_text(rates.sharing)));
  } else {
    record.machine.rates = rates.roofline;
    record.machine.hash = machine_hash(record.machine);
    record.copy_bytes_per_second = rates.copy_bytes_per_second;
    record.sharing = rates.sharing;
    record.repeats = 0;
  }
  write(path, record, say);
  return record;
}

}  // namespace

void settle_process() {
  constexpr int kMapAbove = 128 << 10, kGiveBackAbove = 128 << 10, kTakeMore = 64 << 10;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, kMapAbove);
  ::mallopt(M_TRIM_THRESHOLD, kGiveBackAbove);
  ::mallopt(M_TOP_PAD, kTakeMore);
  ::malloc_trim(0);
}

// outside = code + primitives * per_primitive + steps * per_step + threads. The first two probes differ in their steps alone; the
// third one tests the model with wider layers and a larger vocabulary.
ReserveModel calibrate_reserve(const Machine& machine, const std::filesystem::path& parent, const Probe& probe) {
  const TemporaryFolder folder(parent);
  const auto probed = [&](const ProbeShape& shape) { return probe(shape, machine, folder.path()); };
  const ProbeResult shallow = probed({2, 64, 256}), deep = probed({14, 64, 256}), wide = probed({2, 192, 2500});

  ReserveModel model;
  const Bytes primitive = measure_primitive(machine.threads);
  const auto more_steps = static_cast<std::int64_t>(deep.steps - shallow.steps);
  const Bytes step{std::max<std::int64_t>(0, (deep.outside - shallow.outside).n) / std::max<std::int64_t>(1, more_steps)};
  const auto rest = [&](const ProbeResult& result) {
    return result.outside - primitive * result.primitives - step * static_cast<std::int64_t>(result.steps) - result.stacks;
  };
  model.per_primitive = align_up(scaled(primitive, kPrimitiveMargin), kKiB);
  model.per_step = align_up(scaled(step, kStepMargin), Bytes{64});
  model.threads = align_up(std::max({shallow.stacks, deep.stacks, wide.stacks}), kKiB * 64);
  model.slack = counter_slack();
  model.code = align_up(std::max({rest(shallow), rest(deep), rest(wide)}) + kCodeMargin, kMiB);
  return model;
}

MachineRecord calibrated_machine(int threads, const std::filesystem::path& cache_folder, const Probe& probe,
                                 const std::function<void(const std::string&)>& say, Repeat repeat) {
  const MachineFacts facts = machine_facts(threads);
  const std::filesystem::path path = machine_file_path(cache_folder, facts);
  remove_abandoned_partials(cache_folder);
  remove_abandoned_folders(cache_folder);
  if (auto known = known_machine(path, facts)) {
    if (!may_repeat(*known, repeat) || !machine_is_idle()) return *known;
  }
  const MeasuringLock lock(path);
  if (auto known = known_machine(path, facts)) {  // another process may have measured in the meantime
    return may_repeat(*known, repeat) ? measured_again(*std::move(known), path, say) : *known;
  }
  if (say) say(fmt::format("measuring this machine with {} threads, once, for {}", threads, path.string()));
  const Rates rates = measure_rates_in_child(threads);
  MachineRecord record{machine_of(facts, rates), facts.build, rates.copy_bytes_per_second, {}};
  record.machine.reserve = calibrate_reserve(record.machine, writable(cache_folder) ? cache_folder : "/tmp", probe);
  record.machine.hash = machine_hash(record.machine);
  record.sharing = rates.sharing;
  if (say && record.shared()) {
    say(fmt::format(
        "{} during the measurement: predicted times may be too long; `plimsoll train` measures again when nothing else runs",
        sharing_text(rates.sharing)));
  }
  write(path, record, say);
  return record;
}

MachineRecord keep_kernels(const MachineRecord& measured, const std::filesystem::path& cache_folder) {
  const MachineFacts facts = machine_facts(measured.machine.threads);
  const std::filesystem::path path = machine_file_path(cache_folder, facts);
  const MeasuringLock lock(path);
  MachineRecord record = known_machine(path, facts).value_or(measured);
  if (record.machine.hash == measured.machine.hash) {
    for (const auto& [key, seconds] : measured.kernel_seconds) {
      record.kernel_seconds.insert_or_assign(key, seconds);
      if (!measured.shared_kernels.contains(key)) record.shared_kernels.erase(key);
    }
    record.shared_kernels.insert(measured.shared_kernels.begin(), measured.shared_kernels.end());
  }
  write_machine_file(path, record);
  return record;
}

}  // namespace plimsoll
