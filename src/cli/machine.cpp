#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "measure/calibrate.h"
#include "measure/cuda_machine.h"
#include "measure/measure_rank_link.h"
#include "measure/measure_step.h"
#include "prepare/planning.h"
#include "prepare/requests.h"
#include "session/probe.h"

namespace plimsoll {
namespace {

// The result of a child process: the seconds of kernels, the algorithms of libraries, and the load of other processes if it
// prevented the measurement of a step.
struct Measured {
  KernelSeconds seconds;
  std::map<std::string, std::string> algorithms;
  double busy = 0;
  KernelNames shared = {};  // kernels measured only under load
};

template <class Work>
Measured measured_in_child(const Work& work) {
  const nlohmann::json numbers = nlohmann::json::parse(run_in_child([&] {
    const Measured measured = work();
    return nlohmann::json{
        {"seconds", measured.seconds}, {"algorithms", measured.algorithms}, {"busy", measured.busy}, {"shared", measured.shared}}
        .dump();
  }));
  return {numbers.at("seconds").get<KernelSeconds>(), numbers.at("algorithms").get<std::map<std::string, std::string>>(),
          numbers.at("busy").get<double>(), numbers.at("shared").get<KernelNames>()};
}

constexpr double kMostSeconds = 120;  // for all kernels of a configuration

// The number of measured kernels of a micro-batch.
struct MeasuredMicro {
  std::int64_t micro = 0;
  KernelCoverage kernels;
};

struct MeasuredConfig {
  MachineRecord record;
  std::vector<MeasuredMicro> micros;  // in the order of measurement
};

// The micro-batches that a plan may take. The present choice comes first, as time may run out before the last ones.
std::vector<std::int64_t> micros_of(const Config& config) {
  const PlanRequest request = plan_request(config);
  std::vector<std::int64_t> micros;
  for (std::int64_t micro = 1; micro <= request.effective_batch; ++micro) {
    if (request.effective_batch % micro != 0 || (request.micro_batch && *request.micro_batch != micro)) continue;
    micros.push_back(micro);
  }
  if (micros.size() < 2) return micros;
  Config in_memory = config;  // so that no disk is measured
  in_memory.memory.disk.reset();
  const nlohmann::json plan = nlohmann::json::parse(run_in_child([&] {
    return plan_with_extras(
               in_memory, planning_input(in_memory, cache_folder(), {}, {.machine = {}, .probe = probe_shape, .runs_now = false}),
               {})
        .text;
  }));
  if (plan.at("status") != "fits") return micros;
  const std::int64_t chosen = plan.at("batch").at("micro");
  std::ranges::stable_partition(micros, [&](std::int64_t micro) { return micro == chosen; });
  return micros;
}

// Keeps the measurements after each micro-batch, so that a stop loses nothing.
class ConfigMeasurement {
 public:
  // `here`: the machine without its GPU, if the GPU is measured.
  ConfigMeasurement(const Config& config, const MachineRecord& known, const MachineRecord& here)
      : config_(config),
        known_(known),
        here_(here),
        record_(known),
        gpu_(config.device == DeviceChoice::cuda),
        facts_(planned_facts(config, cache_folder())) {
    const Bytes most = gpu_ ? Bytes{known.machine.tiers.front().capacity.n / 10 * 9} - known.machine.reserve.code
                            : Bytes{available_memory().bytes.n / 2};
    memory_ = std::min(config.memory.budget.value_or(most), most);
  }

  // Measures the kernels of all plans: plans that recompute nothing, some or all nodes have the same kernels. All steps run once,
  // then once more, and the lesser time counts: other guests of the host take time in bursts of seconds.
  MeasuredConfig measure() {
    end_ = seconds_now() + kMostSeconds;
    const std::vector<std::int64_t> micros = micros_of(config_);
    for (std::size_t i = 0; i < micros.size(); ++i) measure(micros[i], static_cast<double>(micros.size() - i));
    for (const std::int64_t micro : again_) measure_again(micro);
    MeasuredConfig result{record_, {}};
    for (const std::int64_t micro : micros) {
      result.micros.push_back({micro, coverage(graph_of(micro), config_.threads, 1, record_.kernel_seconds)});
    }
    return result;
  }

 private:
  Graph graph_of(std::int64_t micro) const { return build_training_graph(config_, facts_, micro).graph; }
  double left() const { return end_ - seconds_now(); }
  MeasureLimits limits() const {
    MeasureLimits limits;
    limits.memory = memory_;
    limits.step_seconds = std::max(0.0, left()) / 2;
    limits.seconds = std::min(limits.seconds, limits.step_seconds);
    return limits;
  }

  // Measures one of `many` micro-batches that share the remaining time.
  void measure(std::int64_t micro, double many) {
    const Graph graph = graph_of(micro);
    const KernelSeconds quiet = quiet_kernels();
    const KernelCoverage before = coverage(graph, config_.threads, 1, quiet);
    const int missing = before.kernels - before.known;
    if (missing == 0 || left() <= 0) return;
    say_line(fmt::format("measuring {} kernels at micro-batch {}, {} left", missing, micro, duration_text(left())));
    Measured measured = measured_in_child([&] {
      StepMeasurement step = measure_step(graph, micro, record_.machine, limits());
      KernelSeconds seconds = quiet;
      seconds.insert(step.seconds.begin(), step.seconds.end());
      MeasureLimits single = limits();
      single.seconds = std::max(0.0, left()) / many;
      KernelNames shared;
      if (!gpu_) seconds.merge(measure_kernels(graph, config_.threads, 1, seconds, single, &shared));
      return Measured{std::move(seconds), std::move(step.algorithms),
                      !gpu_ && step.fits && step.seconds.empty() && step.others < 1 ? step.others : 0, std::move(shared)};
    });
    take(std::move(measured.seconds), measured.shared);
    measured.algorithms.merge(record_.algorithms);  // new measurements replace old ones
    record_.algorithms = std::move(measured.algorithms);
    if (measured.busy > 0) {
      say_line(fmt::format("other processes took {:.0f} % of the machine: kernels are measured one by one, which is less exact",
                           100 * measured.busy));
    }
    again_.push_back(micro);
    keep();
  }

  KernelSeconds quiet_kernels() const {
    KernelSeconds quiet = record_.kernel_seconds;
    std::erase_if(quiet, [&](const auto& kernel) { return record_.shared_kernels.contains(kernel.first); });
    return quiet;
  }

  // A kernel without a measurement in a quiet moment keeps its least time.
  void take(KernelSeconds measured, const KernelNames& shared) {
    for (const auto& [key, seconds] : measured) {
      const bool before = record_.shared_kernels.contains(key), now = shared.contains(key);
      double& known = record_.kernel_seconds[key];
      known = before && now ? std::min(known, seconds) : seconds;
      if (now) {
        record_.shared_kernels.insert(key);
      } else {
        record_.shared_kernels.erase(key);
      }
    }
  }

  void measure_again(std::int64_t micro) {
    if (left() <= 0) return;
    say_line(fmt::format("measuring again at micro-batch {}", micro));
    const Measured again = measured_in_child([&] {
      return Measured{measure_step(graph_of(micro), micro, record_.machine, limits()).seconds, {}};
    });
    for (const auto& [key, seconds] : again.seconds) {
      double& least = record_.kernel_seconds[key];
      const bool shared = record_.shared_kernels.erase(key) > 0;
      if (shared || !known_.kernel_seconds.contains(key)) least = least > 0 ? std::min(least, seconds) : seconds;
    }
    keep();
  }

  void keep() {
    if (gpu_) {
      write_machine_file(cuda_machine_file(record_, here_, cache_folder()), record_);
    } else {
      record_ = keep_kernels(record_, cache_folder());
    }
  }

  const Config& config_;
  const MachineRecord &known_, &here_;
  MachineRecord record_;
  bool gpu_;
  DataFacts facts_;
  Bytes memory_;
  double end_ = 0;
  std::vector<std::int64_t> again_;
};

// Reports other work on the machine during the measurement of rates and kernels.
std::string sharing_line(const MachineRecord& record) {
  const char* again = "; the same command measures again once nothing else runs";
  std::string text;
  if (record.sharing) {
    text = record.shared() ? fmt::format("{} while the rates were measured{}\n", sharing_text(*record.sharing), again)
                           : "the rates were measured while the machine was idle\n";
  }
  if (const std::size_t kernels = record.shared_kernels.size(); kernels > 0) {
    text += fmt::format("{} kernels were measured while other programs ran{}\n", kernels, again);
  }
  return text;
}

// One line per micro-batch, and advice if kernels are missing.
std::string kept_text(const std::vector<MeasuredMicro>& micros) {
  std::string text;
  bool all = true;
  for (const auto& [micro, kernels] : micros) {
    text += fmt::format("micro-batch {}: {} of {} kernels measured, {:.0f} % of a step's work\n", micro, kernels.known,
                        kernels.kernels, 100 * kernels.share);
    all = all && kernels.known == kernels.kernels;
  }
  if (!all) text += "other kernels are planned by their bounds, which are optimistic; the same command continues measuring\n";
  return text;
}

// The object of the machine file with further keys. `plan --machine` accepts both.
nlohmann::json machine_json(const MachineRecord& record, const std::vector<MeasuredMicro>& micros, Bytes memory, Bytes available,
                            const std::filesystem::path& file) {
  nlohmann::json object = nlohmann::json::parse(machine_file_text(record));
  const Machine& machine = record.machine;
  object.update({{"machine_hash", machine.hash},
                 {"gemm_fp32_flops_per_second", machine.rates.flops_per_second},
                 {"copy_bytes_per_second", record.copy_bytes_per_second},
                 {"update_bytes_per_second", machine.rates.bytes_per_second},
                 {"call_seconds", machine.rates.step_seconds},
                 {"memory_bytes", memory.n},
                 {"available_bytes", available.n},
                 {"kernels_measured", record.kernel_seconds.size()},
                 {"file", file.string()}});
  if (machine.rates.bf16_flops_per_second > 0) object["gemm_bf16_flops_per_second"] = machine.rates.bf16_flops_per_second;
  object["reserve"].update({{"code_bytes", machine.reserve.code.n},
                            {"per_primitive_bytes", machine.reserve.per_primitive.n},
                            {"per_step_bytes", machine.reserve.per_step.n},
                            {"threads_bytes", machine.reserve.threads.n},
                            {"slack_bytes", machine.reserve.slack.n}});
  if (machine.reserve.per_launch.n > 0) object["reserve"]["per_launch_bytes"] = machine.reserve.per_launch.n;
  for (const auto& [micro, kernels] : micros) {
    object["configuration"].push_back(
        {{"micro_batch", micro}, {"kernels", kernels.kernels}, {"measured", kernels.known}, {"work_share", kernels.share}});
  }
  return object;
}

}  // namespace

namespace {

std::string rank_link_line(const RankLink& link) {
  return fmt::format("between ranks {:.2f} GB/s in each direction, {:.0f} us\n", link.bytes_per_second / 1e9,
                     1e6 * link.latency_seconds);
}

// `link`: between the ranks that run this command; none for one process.
int measure(const MachineArguments& arguments, const std::optional<RankLink>& link) {
  const auto say = [](const std::string& line) { say_line(line); };
  std::optional<Config> config;
  if (!arguments.config.file.empty()) {
    RunSettings settings = read_settings_of(arguments.config);
    config = read_settings_only(settings);
    demand_verified(*config);
  }
  const bool gpu = config ? config->device == DeviceChoice::cuda : wants_gpu(arguments.config);
  const int threads = config ? config->threads : usable_cores();
  const MachineFacts facts = machine_facts(threads);
  const MachineRecord here = calibrated_machine(threads, cache_folder(), probe_shape, say, Repeat::asked);
  MachineRecord record = gpu ? cuda_machine(here, cache_folder(), say) : here;
  std::vector<MeasuredMicro> micros;
  if (config) {
    MeasuredConfig measured = ConfigMeasurement(*config, record, here).measure();
    record = std::move(measured.record);
    micros = std::move(measured.micros);
  }
  if (link) record.machine.rank_link = *link;
  const Machine& machine = record.machine;
  const MemoryFact available =
      gpu ? MemoryFact{machine.tiers.front().capacity, "the memory of " + machine.name} : available_memory();
  const Bytes memory = gpu ? available.bytes : facts.memory;
  const std::filesystem::path file =
      gpu ? cuda_machine_file(record, here, cache_folder()) : machine_file_path(cache_folder(), facts);
  if (arguments.json) {
    print_json(machine_json(record, micros, memory, available.bytes, file));
    return 0;
  }
  print_text(fmt::format("{}, {} threads, {}\n", machine.name, machine.threads, machine.instruction_set));
  for (const std::string& library : machine.libraries) print_text(fmt::format("  {}\n", library));
  const std::string narrow =
      machine.rates.bf16_flops_per_second > 0 ? fmt::format(", {:.0f} of bf16", machine.rates.bf16_flops_per_second / 1e9) : "";
  print_text(fmt::format("matrix products {:.0f} GFLOP/s{}, update pass {:.1f} GB/s, copy {:.1f} GB/s\n",
                         machine.rates.flops_per_second / 1e9, narrow, machine.rates.bytes_per_second / 1e9,
                         record.copy_bytes_per_second / 1e9));
  if (link) print_text(rank_link_line(*link));
  print_text(sharing_line(record));
  print_text(fmt::format("memory {}, available {} ({})\n", to_text(memory), to_text(available.bytes), available.source));
  print_text(fmt::format("outside the arena: code {}, {} per generated kernel, {} per instruction, threads {}\n",
                         to_text(machine.reserve.code), to_text(machine.reserve.per_primitive), to_text(machine.reserve.per_step),
                         to_text(machine.reserve.threads)));
  print_text(fmt::format("{}{} kernels of all configurations measured; file {}\n", kept_text(micros),
                         record.kernel_seconds.size(), file.string()));
  return 0;
}

}  // namespace

int run_machine(const MachineArguments& arguments) {
  const Ranks ranks = Ranks::join();
  return as_rank(ranks, [&] {
    const std::optional<RankLink> link = ranks.measure_link();
    if (!ranks.first_of_host()) return 0;
    if (link) keep_rank_link(cache_folder(), *link);
    return measure(arguments, link);
  });
}

std::string version_text() {
  const MachineFacts facts = machine_facts(usable_cores());
  std::string libraries;
  for (const std::string& library : facts.libraries) libraries += (libraries.empty() ? "" : ", ") + library;
  return fmt::format("plimsoll {}\n{}\n{}\n{} threads", PLIMSOLL_VERSION, facts.instruction_set, libraries, facts.threads);
}

}  // namespace plimsoll
