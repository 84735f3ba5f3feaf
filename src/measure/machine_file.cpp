#include "measure/machine_file.h"

#include <fmt/core.h>
// As in config_source.cpp: some broken files end in an assertion.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "base/error.h"
#include "base/hash.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/kept_json.h"
#include "formats/toml_nesting.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.machine/1";
constexpr std::int64_t kLargestFile = 16 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr int kMostThreads = 4096;

Error file_error(const std::filesystem::path& path, const std::string& what) {
  return config_error("E-MACHINE-FILE", path.string(), what,
                      "a file that 'plimsoll machine' wrote, or one like those in machines/",
                      {Remedy::of_command("machine"), "this machine, without a file"});
}

// One place catches this error and those of nlohmann-json, where the name of the file is known.
[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

double positive(const json& object, const char* key, double most) {
  const double value = object.at(key).get<double>();
  if (!std::isfinite(value) || value < 0 || value > most) refuse(fmt::format("{} is {}, not in [0, {}]", key, value, most));
  return value;
}

Bytes bytes(const json& object, const char* key) {
  if (!object.at(key).is_number_integer()) refuse(fmt::format("{} is not a whole number of bytes", key));
  const auto value = object.at(key).get<std::int64_t>();
  if (value < 0 || value > kMostBytes) refuse(fmt::format("{} is {} bytes", key, value));
  return Bytes{value};
}

TransferEngine transfers(const json& tier) {
  const auto text = tier.value("transfers", std::string(name(TransferEngine::threads)));
  const std::optional<TransferEngine> engine = transfer_engine_named(text);
  if (!engine) refuse(fmt::format("transfers is \"{}\", not io_uring or threads", text));
  return *engine;
}

int thread_count(const json& object) {
  const auto threads = object.at("threads").get<std::int64_t>();
  if (threads < 1 || threads > kMostThreads) refuse(fmt::format("threads is {}, not in [1, {}]", threads, kMostThreads));
  return static_cast<int>(threads);
}

constexpr double kMostRate = 1e18, kMostSeconds = 1e6;

json to_json(const ReserveModel& reserve) {
  json object = {{"code", reserve.code.n},
                 {"per_primitive", reserve.per_primitive.n},
                 {"per_step", reserve.per_step.n},
                 {"threads", reserve.threads.n},
                 {"slack", reserve.slack.n}};
  if (reserve.peers.n > 0) object["peers"] = reserve.peers.n;
  if (reserve.per_launch.n > 0) object["per_launch"] = reserve.per_launch.n;
  return object;
}

ReserveModel reserve_of(const json& object) {
  return {.code = bytes(object, "code"),
          .per_primitive = bytes(object, "per_primitive"),
          .per_step = bytes(object, "per_step"),
          .threads = bytes(object, "threads"),
          .slack = bytes(object, "slack"),
          .peers = object.contains("peers") ? bytes(object, "peers") : Bytes{0},
          .per_launch = object.contains("per_launch") ? bytes(object, "per_launch") : Bytes{0}};
}

double positive_if_given(const json& object, const char* key, double most) {
  return object.contains(key) ? positive(object, key, most) : 0;
}

json to_json(const Machine& machine) {
  json tiers = json::array(), links = json::array();
  for (const Tier& tier : machine.tiers) {
    tiers.push_back({{"name", tier.name}, {"capacity", tier.capacity.n}});
    if (tier.kind == TierKind::disk) tiers.back()["transfers"] = name(tier.transfers);
  }
  for (const Link& link : machine.links) {
    links.push_back(to_json(link));
    links.back().update({{"from", machine.tiers[link.from].name}, {"to", machine.tiers[link.to].name}});
  }
  json object = {{"name", machine.name},
                 {"instruction_set", machine.instruction_set},
                 {"libraries", machine.libraries},
                 {"threads", machine.threads},
                 {"tiers", std::move(tiers)},
                 {"links", std::move(links)},
                 {"rates",
                  {{"flops_per_second", machine.rates.flops_per_second},
                   {"bf16_flops_per_second", machine.rates.bf16_flops_per_second},
                   {"fp16_flops_per_second", machine.rates.fp16_flops_per_second},
                   {"bytes_per_second", machine.rates.bytes_per_second},
                   {"step_seconds", machine.rates.step_seconds}}},
                 {"reserve", to_json(machine.reserve)},
                 {"host_reserve", to_json(machine.host_reserve)},
                 {"hash", machine.hash}};
  if (!machine.rank_link.assumed) object["rank_link"] = to_json(machine.rank_link);
  return object;
}

// Files name the types of the program: a backend by its instruction set, the kind of a tier by the tier's name.
Backend backend_named(std::string_view instruction_set) {
  constexpr std::array kGpus{Backend::cuda};
  const auto* const found = std::ranges::find(kGpus, instruction_set, [](Backend backend) { return name(backend); });
  return found == kGpus.end() ? Backend::cpu : *found;
}

TierKind kind_named(std::string_view name, bool first) {
  constexpr std::array<std::string_view, 1> kDisks{"disk"};
  if (first) return TierKind::compute;
  return std::ranges::find(kDisks, name) == kDisks.end() ? TierKind::host : TierKind::disk;
}

std::size_t tier_named(const Machine& machine, const std::string& name) {
  const auto found = std::ranges::find(machine.tiers, name, &Tier::name);
  if (found == machine.tiers.end()) refuse(fmt::format("a link ends at \"{}\", which is not one of its tiers", name));
  return static_cast<std::size_t>(found - machine.tiers.begin());
}

Machine machine_of(const json& object) {
  Machine machine;
  machine.name = object.at("name");
  machine.instruction_set = object.at("instruction_set");
  machine.backend = backend_named(machine.instruction_set);
  machine.libraries = object.at("libraries").get<std::vector<std::string>>();
  machine.threads = thread_count(object);
  for (const json& tier : object.at("tiers")) {
    const std::string name = tier.at("name");
    machine.tiers.push_back({kind_named(name, machine.tiers.empty()), name, bytes(tier, "capacity"), transfers(tier)});
  }
  constexpr std::size_t kMostTiers = 3;  // a device, the memory of its host, a disk
  if (machine.tiers.empty() || machine.tiers.size() > kMostTiers) {
    refuse(fmt::format("it has {} tiers, not 1 to {}", machine.tiers.size(), kMostTiers));
  }
  if (machine.tiers.size() == kMostTiers && (disk_of(machine) != 2 || !has_host(machine))) {
    refuse("the last of its three tiers is not a \"disk\" after a host");
  }
  for (const json& link : object.at("links")) {
    Link& added = machine.links.emplace_back(link_from(link));
    added.from = tier_named(machine, link.at("from"));
    added.to = tier_named(machine, link.at("to"));
    if (std::max(added.from, added.to) - std::min(added.from, added.to) != 1) {
      refuse(fmt::format("a link leads from \"{}\" to \"{}\", which are not neighbours", std::string(link.at("from")),
                         std::string(link.at("to"))));
    }
  }
  const json& rates = object.at("rates");
  machine.rates = {.flops_per_second = positive(rates, "flops_per_second", kMostRate),
                   .bf16_flops_per_second = positive_if_given(rates, "bf16_flops_per_second", kMostRate),
                   .fp16_flops_per_second = positive_if_given(rates, "fp16_flops_per_second", kMostRate),
                   .bytes_per_second = positive(rates, "bytes_per_second", kMostRate),
                   .step_seconds = positive(rates, "step_seconds", kMostSeconds)};
  machine.reserve = reserve_of(object.at("reserve"));
  if (object.contains("host_reserve")) machine.host_reserve = reserve_of(object.at("host_reserve"));
  if (object.contains("rank_link")) machine.rank_link = rank_link_from(object.at("rank_link"));
  machine.hash = machine_hash(machine);
  return machine;
}

MachineRecord record_from(const json& object) {
  if (object.at("schema") != kSchema) refuse(fmt::format("its schema is {}", object.at("schema").dump()));
  MachineRecord record;
  record.machine = machine_of(object);
  record.build = object.value("build", std::string("described"));
  record.copy_bytes_per_second = positive(object.at("rates"), "copy_bytes_per_second", kMostRate);
  const json kernels = object.value("kernels", json::object());
  for (const auto& [key, seconds] : kernels.items()) record.kernel_seconds[key] = positive(kernels, key.c_str(), kMostSeconds);
  record.algorithms = object.value("algorithms", record.algorithms);
  if (const json measured = object.value("measured", json()); !measured.is_null()) {
    record.sharing = Sharing{positive(measured, "others", 1), positive(measured, "stolen", 1), positive(measured, "waited", 1)};
    record.repeats = std::max(0, measured.value("repeats", 0));
  }
  record.shared_kernels = object.value("shared_kernels", record.shared_kernels);
  return record;
}

// A description written by hand is TOML, with comments on the source of its figures.
json object_of(const std::filesystem::path& path, const std::string& text) {
  if (path.extension() != ".toml") return parse_json(text, {.bytes = kLargestFile});
  if (const auto line = toml_nesting_line(text)) refuse(fmt::format("line {}: tables are nested deeper than any key", *line));
  const toml::table table = toml::parse(text);
  std::stringstream converted;
  converted << toml::json_formatter{table};
  return parse_json(converted.str(), {.bytes = 8 * kLargestFile});
}

}  // namespace

std::string machine_hash(const Machine& machine) {
  Hasher hasher;
  hasher.add(machine.name).add(machine.instruction_set).add(std::to_string(machine.threads));
  for (const std::string& library : machine.libraries) hasher.add(library);
  hasher.add(fmt::format("{} {} {} {} {}", machine.rates.flops_per_second, machine.rates.bf16_flops_per_second,
                         machine.rates.fp16_flops_per_second, machine.rates.bytes_per_second, machine.rates.step_seconds));
  const auto add = [&](const ReserveModel& reserve) {
    hasher.add(fmt::format("{} {} {} {} {}", reserve.code.n, reserve.per_primitive.n, reserve.per_step.n, reserve.threads.n,
                           reserve.slack.n));
    if (reserve.per_launch.n > 0) hasher.add(fmt::format("per launch {}", reserve.per_launch.n));
  };
  add(machine.reserve);
  if (has_host(machine)) add(machine.host_reserve);
  for (const Tier& tier : machine.tiers) {
    if (tier.transfers != TransferEngine::threads) hasher.add(name(tier.transfers));
  }
  for (const Link& link : machine.links) {
    hasher.add(machine.tiers[link.from].name).add(machine.tiers[link.to].name);
    hasher.add(fmt::format("{} {} {} {} {} {} {} {}", link.bytes_per_second, link.latency_seconds, link.beside_compute,
                           link.alone(), link.kernel_seconds_per_byte, link.kernel_seconds_per_piece, link.tail_seconds,
                           link.tail_seconds_per_byte));
    if (link.alone_latency() < link.latency_seconds) hasher.add(fmt::format("alone {}", link.alone_latency()));
  }
  return hasher.hex();
}

json to_json(const Link& link) {
  return {{"bytes_per_second", link.bytes_per_second},
          {"latency_seconds", link.latency_seconds},
          {"beside_compute", link.beside_compute},
          {"alone_bytes_per_second", link.alone()},
          {"alone_latency_seconds", link.alone_latency()},
          {"kernel_seconds_per_byte", link.kernel_seconds_per_byte},
          {"kernel_seconds_per_piece", link.kernel_seconds_per_piece},
          {"tail_seconds", link.tail_seconds},
          {"tail_seconds_per_byte", link.tail_seconds_per_byte}};
}

Link link_from(const json& object) {
  return {.bytes_per_second = positive(object, "bytes_per_second", kMostRate),
          .latency_seconds = positive(object, "latency_seconds", kMostSeconds),
          .beside_compute = object.at("beside_compute"),
          .alone_bytes_per_second = positive_if_given(object, "alone_bytes_per_second", kMostRate),
          .alone_latency_seconds = object.contains("alone_latency_seconds")
                                       ? std::optional(positive(object, "alone_latency_seconds", kMostSeconds))
                                       : std::nullopt,
          .kernel_seconds_per_byte = positive_if_given(object, "kernel_seconds_per_byte", kMostSeconds),
          .kernel_seconds_per_piece = positive_if_given(object, "kernel_seconds_per_piece", kMostSeconds),
          .tail_seconds = positive_if_given(object, "tail_seconds", kMostSeconds),
          .tail_seconds_per_byte = positive_if_given(object, "tail_seconds_per_byte", kMostSeconds)};
}

json to_json(const RankLink& link) {
  return {{"bytes_per_second", link.bytes_per_second}, {"latency_seconds", link.latency_seconds}};
}

RankLink rank_link_from(const json& object) {
  const RankLink link{positive(object, "bytes_per_second", kMostRate), positive(object, "latency_seconds", kMostSeconds),
                      /*assumed=*/false};
  if (link.bytes_per_second < 1) refuse("bytes_per_second of rank_link is less than 1");
  return link;
}

std::string machine_text(const Machine& machine) { return to_json(machine).dump(); }

Machine machine_from(const std::string& text) {
  try {
    return machine_of(json::parse(text));
  } catch (const std::exception& error) {
    throw internal_error("machine", error.what());
  }
}

std::filesystem::path machine_file_path(const std::filesystem::path& folder, const MachineFacts& facts) {
  Hasher hasher;
  hasher.add(facts.processor).add(facts.instruction_set).add(facts.build).add(std::to_string(facts.threads));
  for (const std::string& library : facts.libraries) hasher.add(library);
  return folder / fmt::format("machine-{}.json", hasher.hex().substr(0, 16));
}

MachineRecord read_machine_file(const std::filesystem::path& path) {
  try {
    return record_from(object_of(path, read_text(path, kLargestFile, "E-MACHINE-FILE")));
  } catch (const Error& error) {
    throw file_error(path, error.message);
  } catch (const std::exception& error) {
    throw file_error(path, error.what());
  }
}

std::string machine_file_text(const MachineRecord& record) {
  json object = to_json(record.machine);
  object["rates"]["copy_bytes_per_second"] = record.copy_bytes_per_second;
  object["schema"] = kSchema;
  object["build"] = record.build;
  object["kernels"] = json::object();
  for (const auto& [key, seconds] : record.kernel_seconds) object["kernels"][key] = seconds;
  if (!record.algorithms.empty()) object["algorithms"] = record.algorithms;
  if (const std::optional<Sharing>& sharing = record.sharing) {
    object["measured"] = {{"others", sharing->others},
                          {"stolen", sharing->stolen},
                          {"waited", sharing->waited},
                          {"shared", sharing->shared()},
                          {"repeats", record.repeats}};
  }
  if (!record.shared_kernels.empty()) object["shared_kernels"] = record.shared_kernels;
  return object.dump(1) + "\n";
}

void write_machine_file(const std::filesystem::path& path, const MachineRecord& record) {
  keep_json(path, json::parse(machine_file_text(record)));
}

std::optional<MachineRecord> kept_machine(const std::filesystem::path& path) {
  const std::optional<json> object = kept_json(path, kLargestFile);
  if (!object) return {};
  try {
    return record_from(*object);
  } catch (const std::exception&) {
    return {};
  }
}

bool describes(const MachineRecord& record, const MachineFacts& facts) {
  const Machine& machine = record.machine;
  return record.build == facts.build && machine.name == facts.processor && machine.instruction_set == facts.instruction_set &&
         machine.libraries == facts.libraries && machine.threads == facts.threads;
}

}  // namespace plimsoll
