// The machine: its file, its measurements, and the memory of a process outside its arena.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/child.h"
#include "base/memory_limit.h"
#include "device/process_memory.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "measure/calibrate.h"
#include "measure/machine_file.h"
#include "measure/measure.h"
#include "models/gpt2/gpt2.h"
#include "prepare/prepare.h"
#include "prepare/training_graph.h"
#include "session/probe.h"

namespace plimsoll {
namespace {

using nlohmann::json;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOrdinaryMemory = false;
#else
constexpr bool kOrdinaryMemory = true;
#endif

MachineRecord example() {
  MachineRecord record;
  record.machine.name = "Processor \"X\"";
  record.machine.instruction_set = "avx2, AVX2";
  record.machine.libraries = {"oneDNN 2.6.3"};
  record.machine.threads = 2;
  record.machine.tiers = {{TierKind::compute, "ram", kGiB * 8}, {TierKind::disk, "disk", kGiB * 8}};
  record.machine.links = {{0, 1, 1.5e9, 1e-4, false}};
  record.machine.links[0].alone_latency_seconds = 3e-5;
  record.machine.rates = {.flops_per_second = 4.1e11 / 3,
                          .bf16_flops_per_second = 7e11 / 3,
                          .fp16_flops_per_second = 5e11 / 3,
                          .bytes_per_second = 5e10,
                          .step_seconds = 1e-6 / 3};
  record.machine.reserve = {kMiB * 14, kKiB * 80, Bytes{3328}, kKiB * 64, kMiB};
  record.machine.hash = machine_hash(record.machine);
  record.build = "0.1.0 1234";
  record.copy_bytes_per_second = 4e10;
  record.algorithms = {{"matmul[](f32(3, 4), f32(4, 5))x1t2", "00ff"}};
  record.kernel_seconds = {{"add[](f32(3, 4), f32(3, 4))x1t2", 1e-5 / 7}};
  record.sharing = {.others = 0.3, .stolen = 0.05};
  record.repeats = 2;
  record.shared_kernels = {"add[](f32(3, 4), f32(3, 4))x1t2"};
  return record;
}

TEST(MachineFile, ReadsWhatWasWritten) {
  const ScratchFolder folder;
  const MachineRecord record = example();
  write_machine_file(folder / "deeper/machine.json", record);
  const MachineRecord read = read_machine_file(folder / "deeper/machine.json");
  EXPECT_EQ(read.machine.hash, record.machine.hash);
  EXPECT_EQ(read.machine.name, record.machine.name);
  EXPECT_EQ(read.machine.rates, record.machine.rates);
  EXPECT_EQ(read.machine.tiers.at(0).capacity, kGiB * 8);
  EXPECT_EQ(read.machine.links.at(0).latency_seconds, 1e-4);
  EXPECT_EQ(read.machine.links.at(0).alone_latency_seconds, 3e-5);
  EXPECT_EQ(read.machine.reserve.per_step, Bytes{3328});
  EXPECT_EQ(read.build, record.build);
  EXPECT_EQ(read.copy_bytes_per_second, record.copy_bytes_per_second);
  EXPECT_EQ(read.kernel_seconds, record.kernel_seconds);
  EXPECT_EQ(read.algorithms, record.algorithms);
  EXPECT_EQ(read.sharing, record.sharing);
  EXPECT_EQ(read.repeats, 2);
  EXPECT_EQ(read.shared_kernels, record.shared_kernels);
  EXPECT_TRUE(read.shared());
}

// A file of an earlier version has no shares of other processes. Impossible values are refused.
TEST(MachineFile, MayNotKnowWhatElseRan) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "machine.json";
  write_machine_file(path, example());
  json object = json::parse(read_raw(path));
  EXPECT_EQ(object.at("measured").at("shared"), true);
  for (const char* key : {"others", "stolen", "waited"}) {
    json wrong = object;
    wrong["measured"][key] = 1.5;
    write_raw(path, wrong.dump());
    EXPECT_ERROR(read_machine_file(path), "E-MACHINE-FILE", key);
  }
  object.erase("measured");
  object.erase("shared_kernels");
  write_raw(path, object.dump());
  const MachineRecord read = read_machine_file(path);
  EXPECT_FALSE(read.sharing);
  EXPECT_FALSE(read.shared());
  EXPECT_EQ(read.machine.hash, example().machine.hash);
}

TEST(Algorithms, HaveToBeThoseOfThePlan) {
  const std::map<std::string, std::string> planned{{"a", "1"}, {"b", "2"}};
  require_algorithms(planned, planned);
  require_algorithms(planned, {{"b", "2"}, {"never measured", "3"}});
  require_algorithms({}, planned);
  const std::map<std::string, std::string> other{{"a", "1"}, {"b", "3"}};
  EXPECT_ERROR(require_algorithms(planned, other), "E-PLAN-CHANGED", "algorithm 3, not 2");
}

TEST(MachineFile, HashCoversWhatPlansDependOn) {
  const Machine machine = example().machine;
  Machine other = machine;
  other.tiers[0].capacity = kGiB;
  EXPECT_EQ(machine_hash(other), machine_hash(machine));
  for (Bytes ReserveModel::*each : {&ReserveModel::per_step, &ReserveModel::per_launch}) {
    other = machine;
    other.reserve.*each += Bytes{64};
    EXPECT_NE(machine_hash(other), machine_hash(machine));
  }
  other = machine;
  for (double Roofline::*rate : {&Roofline::flops_per_second, &Roofline::bf16_flops_per_second, &Roofline::fp16_flops_per_second,
                                 &Roofline::bytes_per_second, &Roofline::step_seconds}) {
    other.rates.*rate *= 2;
    EXPECT_NE(machine_hash(other), machine_hash(machine));
    other = machine;
  }
  other.threads = 3;
  EXPECT_NE(machine_hash(other), machine_hash(machine));
  other = machine;
  other.libraries.push_back("another 1.0");
  EXPECT_NE(machine_hash(other), machine_hash(machine));
}

TEST(MachineFile, RefusesWhatIsNoMachine) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "machine.json";
  EXPECT_ERROR(read_machine_file(folder / "absent.json"), "E-MACHINE-FILE", "absent.json");
  for (const char* text : {"", "{", "[]", "null", "{\"schema\": \"plimsoll.machine/9\"}", "\xff\xfe"}) {
    write_raw(path, text);
    EXPECT_ERROR(read_machine_file(path), "E-MACHINE-FILE", "plimsoll machine");
  }
  write_machine_file(path, example());
  const json good = json::parse(read_raw(path));
  const auto tiers = [](const std::vector<const char*>& names) {
    json list = json::array();
    for (const char* name : names) list.push_back({{"name", name}, {"capacity", 1 << 30}});
    return list;
  };
  const auto link = [&](const char* from, const char* to) {
    json changed = good.at("links").at(0);
    changed["from"] = from, changed["to"] = to;
    return json::array({changed});
  };
  const std::vector<std::pair<const char*, json>> changes{{"/threads", 0},
                                                          {"/threads", 1 << 20},
                                                          {"/threads", "two"},
                                                          {"/reserve/code", -1},
                                                          {"/reserve/code", 1.5},
                                                          {"/reserve/code", std::int64_t{1} << 60},
                                                          {"/reserve/slack", nullptr},
                                                          {"/rates/flops_per_second", -1.0},
                                                          {"/rates/bf16_flops_per_second", -1.0},
                                                          {"/rates/fp16_flops_per_second", "fast"},
                                                          {"/rates/bytes_per_second", 1e300},
                                                          {"/tiers", json::array()},
                                                          {"/tiers/0/capacity", -5},
                                                          {"/tiers", tiers({"device", "disk", "host"})},
                                                          {"/tiers", tiers({"device", "host", "disk", "disk"})},
                                                          {"/links", link("ram", "host")},
                                                          {"/links", link("ram", "ram")},
                                                          {"/libraries", 3},
                                                          {"/kernels", {{"add", -1}}},
                                                          {"/kernels", {{"add", "fast"}}},
                                                          {"/algorithms", {{"matmul", 7}}},
                                                          {"/algorithms", "fast"}};
  for (const auto& [where, value] : changes) {
    SCOPED_TRACE(where);
    json bad = good;
    bad[json::json_pointer(where)] = value;
    write_raw(path, bad.dump());
    EXPECT_ERROR(read_machine_file(path), "E-MACHINE-FILE", "machine.json");
  }
  for (const auto& [key, value] : good.items()) {
    constexpr std::array<std::string_view, 8> kOptional{"hash",         "build",    "kernels", "algorithms",
                                                        "host_reserve", "measured", "seal",    "shared_kernels"};
    if (std::ranges::find(kOptional, key) != kOptional.end()) continue;  // a description has none
    SCOPED_TRACE(key);
    json bad = good;
    bad.erase(key);
    write_raw(path, bad.dump());
    EXPECT_ERROR(read_machine_file(path), "E-MACHINE-FILE", "machine.json");
  }
}

TEST(MachineFacts, OneFileForEachSetOfFacts) {
  const MachineFacts facts = machine_facts(2);
  EXPECT_FALSE(facts.processor.empty());
  EXPECT_GT(facts.memory, kMiB);
  MachineFacts other = facts;
  other.threads = 3;
  EXPECT_NE(machine_file_path("cache", facts), machine_file_path("cache", other));
  other = facts;
  other.build += "0";
  EXPECT_NE(machine_file_path("cache", facts), machine_file_path("cache", other));
  other = facts;
  other.memory = kMiB;
  EXPECT_EQ(machine_file_path("cache", facts), machine_file_path("cache", other));
}

// A tree of the kernel's files.
class MemoryTree {
 public:
  MemoryTree() { add("proc/meminfo", "MemTotal:  4194304 kB\nMemFree: 1 kB\nMemAvailable:  3145728 kB\n"); }
  void add(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    write_raw(folder_ / path, text);
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

TEST(AvailableMemory, WithoutContainer) {
  const MemoryTree tree;
  EXPECT_EQ(total_memory(tree.root()).bytes, kGiB * 4);
  EXPECT_EQ(available_memory(tree.root()).bytes, kGiB * 3);
  EXPECT_EQ(available_memory(tree.root()).source, "the memory that the kernel reports as available");
}

TEST(AvailableMemory, LimitOfAnOuterGroup) {
  MemoryTree tree;
  tree.add("proc/self/cgroup", "0::/outer/inner\n");
  tree.add("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  tree.add("sys/fs/cgroup/outer/memory.max", "2147483648\n");
  tree.add("sys/fs/cgroup/outer/memory.current", "1610612736\n");
  tree.add("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 268435456\nslab_reclaimable 0\n");
  EXPECT_EQ(total_memory(tree.root()).bytes, kGiB * 2);
  const MemoryFact available = available_memory(tree.root());
  EXPECT_EQ(available.bytes, kMiB * 1280);
  EXPECT_NE(available.source.find("2.00 GiB"), std::string::npos) << available.source;
}

TEST(AvailableMemory, FirstVersionSeenFromInside) {
  MemoryTree tree;
  tree.add("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/0123\n");
  tree.add("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  tree.add("sys/fs/cgroup/memory/memory.usage_in_bytes", "805306368\n");
  tree.add("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\ntotal_active_file 0\n");
  EXPECT_EQ(total_memory(tree.root()).bytes, kGiB);
  EXPECT_EQ(available_memory(tree.root()).bytes, kMiB * 512);
}

TEST(AvailableMemory, NoLimitAndNonsense) {
  MemoryTree tree;
  tree.add("proc/self/cgroup", "4:memory:/\n0::/\nnonsense\n");
  tree.add("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.add("sys/fs/cgroup/memory.max", "a lot\n");
  EXPECT_EQ(available_memory(tree.root()).bytes, kGiB * 3);
}

TEST(Child, AnswersAndErrorsComeBack) {
  EXPECT_EQ(run_in_child([] { return std::string(1 << 20, 'x'); }), std::string(1 << 20, 'x'));
  EXPECT_EQ(run_in_child([] { return std::string(); }), "");
  static const Remedies kRemedies{"one", Remedy(Change("seed", 2), "two"),
                                  Remedy::of_command("train CONFIG", {{"command.run", "DIR"}, {"command.resume"}})};
  try {
    run_in_child([]() -> std::string { throw data_error("E-DATA-SHORT", "file", "what", "expected", kRemedies); });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-DATA-SHORT");
    EXPECT_EQ(error.exit, ExitCode::data);
    EXPECT_EQ(error.remedies, kRemedies);
  }
  EXPECT_ERROR(run_in_child([]() -> std::string { throw std::runtime_error("odd"); }), "E-INTERNAL", "odd");
  EXPECT_ERROR(run_in_child([]() -> std::string { throw data_error("E-DATA-MISSING", "caf\xe9.txt", "what"); }), "E-DATA-MISSING",
               "caf");
  EXPECT_ERROR(run_in_child([]() -> std::string { throw std::runtime_error("\xff"); }), "E-INTERNAL", "child process");
  EXPECT_ERROR(run_in_child([]() -> std::string { throw 7; }), "E-CHILD", "status 1");
  EXPECT_ERROR(run_in_child([]() -> std::string { return std::raise(SIGKILL), ""; }), "E-CHILD", "memory ran out");
  EXPECT_ERROR(run_in_child([]() -> std::string { _exit(7); }), "E-CHILD", "status 7");
}

// Takes memory until there is none, and then reads what a library would read.
std::string read_past_the_limit() {
  volatile char* last = nullptr;
  do {
    last = static_cast<char*>(std::malloc(1 << 20));
    if (last != nullptr) *last = 1;
  } while (last != nullptr);
  return std::string(1, *last);
}

TEST(Child, ACrashIsNoLackOfMemory) {
  if (!kOrdinaryMemory) GTEST_SKIP() << "sanitizers handle signals and memory themselves";
  const auto crash = [](int signal) { return run_in_child([signal] { return std::raise(signal), std::string(); }); };
  for (const bool limited : {false, true}) {
    SCOPED_TRACE(limited);
    const MemoryLimit limit(limited ? std::optional(kMiB * 256) : std::nullopt);
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) {
      EXPECT_ERROR(crash(signal), "E-INTERNAL", fmt::format("crashed: signal {}", signal));
    }
    EXPECT_ERROR(crash(SIGTERM), "E-CHILD", "signal 15");
  }
  const MemoryLimit limit(kMiB * 256);
  EXPECT_ERROR(run_in_child(read_past_the_limit), "E-MEM-PLAN", "planning needs more than 256");
  const auto thrown = [] {
    const std::unique_ptr<char[]> large(new char[std::size_t{1} << 40]);
    return std::string(1, large[0]);
  };
  EXPECT_ERROR(run_in_child(thrown), "E-MEM-PLAN", "planning needs more than 256");
  const auto in_a_destructor = [&]() noexcept { return thrown(); };
  EXPECT_ERROR(run_in_child(in_a_destructor), "E-MEM-PLAN", "planning needs more than 256");
  const auto nested = [&] { return run_in_child([&] { return crash(SIGSEGV); }); };
  EXPECT_ERROR(run_in_child(nested), "E-INTERNAL", "crashed: signal 11");
}

Config tiny() {
  Config config;
  config.model.config = ModelConfig(kGpt2, Gpt2Config{.layers = 2, .width = 64, .heads = 2, .context = 32, .vocab = 256});
  config.model.context = 32;
  config.train.effective_batch = 4;
  config.threads = 2;
  return config;
}

TEST(Measure, EveryKernelOfATrainingStep) {
  const json seconds = json::parse(run_in_child([] {
    const Graph graph = build_training_graph(tiny(), {.validation = true}, 2).graph;
    const MeasureLimits limits{.seconds_per_kernel = 0.003, .seconds = 300, .memory = kMiB * 64};
    const KernelSeconds measured = measure_kernels(graph, 2, 1, {}, limits);
    const KernelCoverage own = coverage(graph, 2, 1, measured);
    EXPECT_EQ(own.known, own.kernels);
    // Another seed: other noise, the same kernels.
    Config other = tiny();
    other.seed = 7;
    const Graph same = build_training_graph(other, {.validation = true}, 2).graph;
    const KernelCoverage noisy = coverage(same, 2, 1, measured);
    return json{{"measured", measured}, {"noisy", noisy.kernels - noisy.known}}.dump();
  }));
  const auto measured = seconds.at("measured").get<std::map<std::string, double>>();
  EXPECT_GT(measured.size(), 50u);
  for (const auto& [key, time] : measured) {
    EXPECT_TRUE(std::isfinite(time) && time >= 0 && time < 1) << key << " " << time;
  }
  EXPECT_EQ(seconds.at("noisy"), 0);
}

TEST(Measure, KernelsPastTheLimitOfMemoryStayUnmeasured) {
  const std::string count = run_in_child([] {
    const Graph graph = build_training_graph(tiny(), {.validation = true}, 2).graph;
    return std::to_string(measure_kernels(graph, 2, 1, {}, {.seconds_per_kernel = 0.001, .memory = Bytes{0}}).size());
  });
  EXPECT_EQ(count, "0");
}

// If time runs out, the missing kernels are a small share of a step. The share counts all layers together.
TEST(Measure, TheLargestShareOfAStepComesFirst) {
  const double share = std::stod(run_in_child([] {
    Config config = tiny();
    config.model.config = with_vocabulary(config.model.config, 600, false);
    const Graph graph = build_training_graph(config, {.validation = true}, 2).graph;
    const KernelSeconds one = measure_kernels(graph, 2, 1, {}, {.seconds_per_kernel = 0, .seconds = 1e-6, .memory = kGiB});
    const KernelCoverage kept = coverage(graph, 2, 1, one);
    EXPECT_EQ(coverage(graph, 2, 1, {}).known, 0);
    // Each other kernel has a smaller share.
    double most = 0;
    const KernelSeconds all = measure_kernels(graph, 2, 1, {}, {.seconds_per_kernel = 0, .seconds = 300, .memory = kGiB});
    for (const auto& [key, seconds] : all) most = std::max(most, coverage(graph, 2, 1, {{key, seconds}}).share);
    return std::to_string(kept.known == 1 ? kept.share / most : 0);
  }));
  EXPECT_DOUBLE_EQ(share, 1);
}

// One machine file for both: measuring takes seconds.
TEST(Calibration, IsReadBackAndBoundsWhatRunsNeed) {
  settle_process();
  const ScratchFolder folder;
  // Measuring is done in children. Pages of code are no part of it: they grow with the program.
  const auto memory = [] { return peak_resident() - file_resident(); };
  const Bytes before = memory();
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  const MachineRecord measured = calibrated_machine(2, folder.path(), probe_shape, say);
  EXPECT_FALSE(said.empty());
  if (kOrdinaryMemory) {
    EXPECT_LT(memory() - before, kMiB * 2);
  }
  const std::filesystem::path file = machine_file_path(folder.path(), machine_facts(2));
  EXPECT_EQ(read_machine_file(file).machine.hash, measured.machine.hash);

  said.clear();
  const MachineRecord read = calibrated_machine(2, folder.path(), probe_shape, say);
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(read.machine.hash, measured.machine.hash);
  EXPECT_GT(read.machine.rates.flops_per_second, 1e8);
  EXPECT_GT(read.machine.rates.bytes_per_second, 1e8);
  EXPECT_EQ(read.machine.rates.bf16_flops_per_second > 0, multiplies_bf16());
  if (!kOrdinaryMemory) GTEST_SKIP() << "sanitizers keep memory of their own";

  write_raw(folder / "tokens.bin", std::string(1 << 14, '\0'));
  Config config = tiny();
  config.model.config = ModelConfig(kGpt2, Gpt2Config{.layers = 6, .width = 384, .heads = 6, .context = 128, .vocab = 5000});
  config.model.context = 128;
  config.data.train = config.data.validation = folder / "tokens.bin";
  config.data.format = "u16";
  config.train.micro_batch = 2;
  config.train.accumulation = 2;
  config.train.updates = 2;
  config.train.evaluate_samples = 4;
  config.optimizer.learning_rate = 1e-4;
  const ProbeResult probe = run_probe(config, read.machine, folder.path());
  const ReserveCounts counts{probe.primitives, static_cast<std::int64_t>(probe.steps)};
  const Bytes predicted = total(reserve_items(read.machine.reserve, counts, probe.arena));
  RecordProperty("outside", std::to_string(probe.outside.n));
  RecordProperty("predicted", std::to_string(predicted.n));
  EXPECT_GE(predicted, probe.outside);
  EXPECT_LE(predicted.n, probe.outside.n + kMiB.n * 16 + (probe.outside + probe.arena).n / 50);
}

TEST(Calibration, DamagedCacheIsMeasuredAgain) {
  const ScratchFolder folder;
  const std::filesystem::path file = machine_file_path(folder.path(), machine_facts(1));
  write_raw(file, "{\"schema\": 1}");
  int lines = 0;
  const MachineRecord record = calibrated_machine(1, folder.path(), probe_shape, [&](const std::string&) { ++lines; });
  EXPECT_GT(lines, 0);
  EXPECT_EQ(record.machine.threads, 1);
  EXPECT_EQ(read_machine_file(file).machine.hash, record.machine.hash);
}

}  // namespace
}  // namespace plimsoll
