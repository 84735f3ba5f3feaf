#include "session/probe.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "device/arena.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "formats/atomic_file.h"
#include "measure/calibrate.h"
#include "models/family.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "prepare/plan_json.h"
#include "prepare/planning.h"
#include "prepare/requests.h"
#include "prepare/training_graph.h"
#include "program/program.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// The stack pointers of the other, waiting threads: "/proc/self/task/ID/syscall" ends in stack pointer and program counter.
std::vector<std::uint64_t> stack_pointers() {
  std::vector<std::uint64_t> pointers;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream file(task.path() / "syscall");
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(word);
    if (words.size() > 2) pointers.push_back(std::strtoull(words[words.size() - 2].c_str(), nullptr, 16));
  }
  return pointers;
}

Bytes thread_stacks() {
  const std::vector<std::uint64_t> pointers = stack_pointers();
  Bytes sum;
  bool stack = false;
  std::ifstream lines("/proc/self/smaps");
  for (std::string line; std::getline(lines, line);) {
    unsigned long long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      stack =
          std::any_of(pointers.begin(), pointers.end(), [&](std::uint64_t pointer) { return begin <= pointer && pointer < end; });
    } else if (stack && line.starts_with("Rss:")) {
      sum += kKiB * std::atoll(line.c_str() + 4);
    }
  }
  return sum;
}

// Reads a byte of each page, also between the objects of the program: AddressSanitizer must not check it.
[[gnu::no_sanitize("address")]] void touch_pages(std::uint64_t begin, std::uint64_t end) {
  const volatile char* at = reinterpret_cast<const volatile char*>(static_cast<std::uintptr_t>(begin));
  for (std::uint64_t offset = 0; offset < end - begin; offset += static_cast<std::uint64_t>(kPage.n)) (void)at[offset];
}

// Maps every page of the executable, so that code of the command line counts in addition to that of the training.
void touch_executable() {
  std::error_code ignored;
  const std::string name = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    unsigned long long begin = 0, end = 0;
    if (name.empty() || !line.ends_with(name) || std::sscanf(line.c_str(), "%llx-%llx r", &begin, &end) != 2) continue;
    touch_pages(begin, end);
  }
}

Config config_of(const ProbeShape& shape, const std::filesystem::path& tokens, int threads) {
  constexpr std::int64_t kContext = 64;
  Config config;
  config = with_changes(std::move(config), Changes{{"model.layers", shape.layers},
                                                   {"model.width", shape.width},
                                                   {"model.heads", shape.width / 32},
                                                   {"model.vocab", shape.vocab}});
  config.model.context = kContext;
  config.model.config = with_positions(config.model.config, kContext);
  config.data.train = config.data.validation = tokens;
  config.data.format = "u16";
  config.train.effective_batch = 4;
  config.train.micro_batch = 2;
  config.train.accumulation = 2;
  config.train.updates = 2;
  config.train.evaluate_samples = 4;
  config.optimizer.learning_rate = 1e-4;
  config.threads = threads;
  return config;
}

void write_tokens(const std::filesystem::path& path) {
  std::string bytes(1 << 14, '\0');
  for (std::size_t i = 0; i < bytes.size(); i += 2) bytes[i] = static_cast<char>(i * 7 % 127);
  write_file_atomically(path, bytes);
}

std::string plan_in_child(const Config& config, const Machine& machine, const std::filesystem::path& folder) {
  PlanningInput input{plan_request(config), {}, {}, open_data(config, folder), {}};
  input.facts = facts_of(config, input.data, {});
  input.machine.machine = machine;
  const PlanningResult planned = plan_with_extras(config, input, {});
  return json{{"plan", planned.text}, {"record", to_json(record_of(*planned.plan))}}.dump();
}

// A machine whose reserve counts a plan's primitives: one byte for each, and nothing else.
Machine counting(Machine machine) {
  machine.reserve = {};
  machine.reserve.per_primitive = Bytes{1};
  return machine;
}

int counted_primitives(const Plan& plan) {
  const Bytes rounding = align_up(plan.arena, kPage) - plan.arena;
  return static_cast<int>((total(plan.reserve) - rounding - kReadBack).n);
}

// The steps of a run's process, in order.
ProbeResult train(const Machine& machine, const std::filesystem::path& config_file, const std::filesystem::path& folder) {
  settle_process();
  const Config config = load_config(config_file);
  json planned = json::parse(run_in_child([&] { return plan_in_child(config, machine, folder); }));
  const PlanRecord record = record_from_json(planned.at("record"));
  std::string plan_text = planned.at("plan").get<std::string>();  // a run has it as text, until it is written
  planned = {};

  touch_executable();  // now: under a MemoryLimit its pages were dropped while the child planned
  cpu::set_thread_count(machine.threads);
  const DataFiles data = open_data(config, folder);
  TrainingGraph model = build_training_graph(config, facts_of(config, data, {}), record.decisions.micro_batch);
  OpCatalogue catalogue({}, {});
  Plan plan = build_plan(model.graph, find_units(model.graph), record.decisions, plan_request(config), counting(machine),
                         catalogue, &record.offsets);
  model.graph = {};
  const Program program = lower(plan);
  verify(program, plan.graph);
  const std::size_t steps = plan.timeline.steps.size();
  plan.forget_analysis();
  write_file_atomically(folder / "plan.json", plan_text);
  std::string().swap(plan_text);
  const Arena arena(plan.arena);
  CpuDevice device(arena);
  Executor executor(plan.graph, program, device, machine.threads, plan.decisions.loss_chunks);
  const DataSources sources(config, data);
  Trainer trainer(config, model, plan, executor, sources.data());
  trainer.load(nullptr);
  for (std::int64_t i = 0; i < config.train.updates; ++i) trainer.update();
  if (data.validation) trainer.evaluate_now();
  trainer.save_checkpoint_to(folder / "checkpoint");
  trainer.save_weights_to(folder / "weights");
  trainer.hash_parameters();
  return {.outside = peak_resident() - arena.mapped(),
          .file = file_resident(),
          .stacks = thread_stacks(),
          .arena = arena.mapped(),
          .primitives = counted_primitives(plan),
          .steps = steps};
}

json to_json(const ProbeResult& result) {
  return {result.outside.n, result.file.n, result.stacks.n, result.arena.n, result.primitives, result.steps};
}

ProbeResult result_from(const json& list) {
  return {Bytes{list.at(0)}, Bytes{list.at(1)}, Bytes{list.at(2)}, Bytes{list.at(3)}, list.at(4), list.at(5)};
}

}  // namespace

ProbeResult run_probe(const Config& config, const Machine& machine, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.toml";
  write_file_atomically(file, resolved_toml(config));
  return result_from(json::parse(run_in_child([&] { return to_json(train(machine, file, folder)).dump(); })));
}

ProbeResult probe_shape(const ProbeShape& shape, const Machine& machine, const std::filesystem::path& folder) {
  const std::filesystem::path tokens = folder / "tokens.bin";
  write_tokens(tokens);
  return run_probe(config_of(shape, tokens, machine.threads), machine, folder);
}

}  // namespace plimsoll
