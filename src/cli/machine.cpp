#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "train/calibrate.h"
#include "train/child.h"
#include "train/cuda_machine.h"
#include "train/measure_step.h"
#include "train/planning.h"
#include "train/requests.h"

namespace plimsoll {
namespace {

// From a child process: the seconds of kernels, what libraries chose for them, and the share of others where that kept a step
// from being measured.
struct Measured {
  KernelSeconds seconds;
  std::map<std::string, std::string> algorithms;
  double busy = 0;
};

template <class Work>
Measured measured_in_child(const Work& work) {
  const nlohmann::json numbers = nlohmann::json::parse(run_in_child([&] {
    const Measured measured = work();
    return nlohmann::json{{"seconds", measured.seconds}, {"algorithms", measured.algorithms}, {"busy", measured.busy}}.dump();
  }));
  return {numbers.at("seconds").get<KernelSeconds>(), numbers.at("algorithms").get<std::map<std::string, std::string>>(),
          numbers.at("busy").get<double>()};
}

// `here`: the machine without its GPU, where that is what is measured.
// Kernels of the plans that a budget may lead to: nothing, something and everything recomputed come to the same kernels. Steps
// run twice, all of them and then again, and the lesser time counts: what guests of the same host take comes in bursts of
// seconds.
MachineRecord measure_config(const Config& config, const MachineRecord& known, const MachineRecord& here) {
  const bool gpu = config.device == DeviceChoice::cuda;
  const DataFiles data = open_data(config, cache_folder());
  const PlanRequest request = plan_request(config);
  MachineRecord record = known;
  MeasureLimits limits;
  std::vector<std::int64_t> micros;
  const Bytes most = gpu ? Bytes{known.machine.tiers.front().capacity.n / 10 * 9} - known.machine.reserve.code
                         : Bytes{available_memory().bytes.n / 2};
  limits.memory = std::min(config.memory.budget.value_or(most), most);
  for (std::int64_t micro = 1; micro <= request.effective_batch; ++micro) {
    if (request.effective_batch % micro != 0 || (request.micro_batch && *request.micro_batch != micro)) continue;
    const Graph graph = build_training_graph(config, data.facts(), micro).graph;
    const int missing = count_unmeasured(graph, config.threads, 1, record.kernel_seconds);
    if (missing == 0) continue;
    say_line(fmt::format("measuring {} kernels at micro-batch {}", missing, micro));
    Measured measured = measured_in_child([&] {
      StepMeasurement step = measure_step(graph, micro, record.machine, limits);
      KernelSeconds seconds = record.kernel_seconds;
      seconds.insert(step.seconds.begin(), step.seconds.end());
      if (!gpu) seconds.merge(measure_kernels(graph, config.threads, 1, seconds, limits));
      return Measured{std::move(seconds), std::move(step.algorithms),
                      !gpu && step.fits && step.seconds.empty() ? step.others : 0};
    });
    record.kernel_seconds = std::move(measured.seconds);
    record.algorithms.merge(measured.algorithms);
    if (measured.busy > 0) {
      say_line(fmt::format("other processes took {:.0f} % of the machine: kernels are measured one by one, which is less exact",
                           100 * measured.busy));
    }
    micros.push_back(micro);
  }
  for (const std::int64_t micro : micros) {
    say_line(fmt::format("measuring again at micro-batch {}", micro));
    const Measured again = measured_in_child([&] {
      const Graph graph = build_training_graph(config, data.facts(), micro).graph;
      return Measured{measure_step(graph, micro, record.machine, limits).seconds, {}};
    });
    for (const auto& [key, seconds] : again.seconds) {
      double& least = record.kernel_seconds[key];
      if (!known.kernel_seconds.contains(key)) least = least > 0 ? std::min(least, seconds) : seconds;
    }
  }
  if (!gpu) return keep_kernels(record, cache_folder());
  write_machine_file(cuda_machine_file(record, here, cache_folder()), record);
  return record;
}

// The object of the machine file with keys on top: `plan --machine` takes either.
nlohmann::json machine_json(const MachineRecord& record, Bytes memory, Bytes available, const std::filesystem::path& file) {
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
  return object;
}

}  // namespace

int run_machine(const MachineArguments& arguments) {
  const auto say = [](const std::string& line) { say_line(line); };
  std::optional<Config> config;
  if (!arguments.config.file.empty()) {
    config = read_settings_only(arguments.config);
    demand_verified(*config);
  }
  const int threads = config ? config->threads : usable_cores();
  const MachineFacts facts = machine_facts(threads);
  const MachineRecord here = calibrated_machine(threads, cache_folder(), say);
  const bool gpu = config ? config->device == DeviceChoice::cuda : wants_gpu(arguments.config);
  MachineRecord record = gpu ? cuda_machine(here, cache_folder(), say) : here;
  if (config) record = measure_config(*config, record, here);
  const Machine& machine = record.machine;
  const MemoryFact available =
      gpu ? MemoryFact{machine.tiers.front().capacity, "the memory of " + machine.name} : available_memory();
  const Bytes memory = gpu ? available.bytes : facts.memory;
  const std::filesystem::path file =
      gpu ? cuda_machine_file(record, here, cache_folder()) : machine_file_path(cache_folder(), facts);
  if (arguments.json) {
    const std::string text =
        machine_json(record, memory, available.bytes, file).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    fmt::print("{}\n", text);
    return 0;
  }
  fmt::print("{}, {} threads, {}\n", machine.name, machine.threads, machine.instruction_set);
  for (const std::string& library : machine.libraries) fmt::print("  {}\n", library);
  const std::string narrow =
      machine.rates.bf16_flops_per_second > 0 ? fmt::format(", {:.0f} of bf16", machine.rates.bf16_flops_per_second / 1e9) : "";
  fmt::print("matrix products {:.0f} GFLOP/s{}, update pass {:.1f} GB/s, copy {:.1f} GB/s\n",
             machine.rates.flops_per_second / 1e9, narrow, machine.rates.bytes_per_second / 1e9,
             record.copy_bytes_per_second / 1e9);
  fmt::print("memory {}, available {} ({})\n", to_text(memory), to_text(available.bytes), available.source);
  fmt::print("outside the arena: code {}, {} per generated kernel, {} per instruction, threads {}\n",
             to_text(machine.reserve.code), to_text(machine.reserve.per_primitive), to_text(machine.reserve.per_step),
             to_text(machine.reserve.threads));
  fmt::print("{} kernels measured; file {}\n", record.kernel_seconds.size(), file.string());
  return 0;
}

std::string version_text() {
  const MachineFacts facts = machine_facts(usable_cores());
  std::string libraries;
  for (const std::string& library : facts.libraries) libraries += (libraries.empty() ? "" : ", ") + library;
  return fmt::format("plimsoll {}\n{}\n{}\n{} threads", PLIMSOLL_VERSION, facts.instruction_set, libraries, facts.threads);
}

}  // namespace plimsoll
