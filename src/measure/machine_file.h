// The file with the measurements of a machine. One file per processor, instruction set, threads, libraries and build of Plimsoll,
// so that no plan uses figures of another combination.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "device/machine_facts.h"
#include "measure/sharing.h"
#include "plan/machine.h"

namespace plimsoll {

struct MachineRecord {
  Machine machine;
  std::string build;
  double copy_bytes_per_second = 0;               // bytes read and written
  std::map<std::string, double> kernel_seconds;   // by timing_key
  std::map<std::string, std::string> algorithms;  // choices of a GPU's library, by algorithm_key
  std::optional<Sharing> sharing = {};            // of the rates; absent: unknown
  int repeats = 0;                                // repeated measurements without a quiet moment
  std::set<std::string> shared_kernels = {};      // keys of kernel_seconds measured without a quiet moment

  bool shared() const { return sharing && sharing->shared(); }
};

// The hash of the facts that plans depend on: name, rates, reserves, threads, instruction set, libraries, links and transfer
// engines. It leaves out capacities, which are no part of a plan, and seconds of kernels, which are added over time.
std::string machine_hash(const Machine& machine);

// The machine alone as JSON, as in the file, and back: for the same program in another process.
std::string machine_text(const Machine& machine);
Machine machine_from(const std::string& text);

// A link without its ends. link_from throws nlohmann::json::exception or std::invalid_argument for another object.
nlohmann::json to_json(const Link& link);
Link link_from(const nlohmann::json& object);

// Likewise; it was measured, or described.
nlohmann::json to_json(const RankLink& link);
RankLink rank_link_from(const nlohmann::json& object);

// folder/machine-<hash of the facts>.json.
std::filesystem::path machine_file_path(const std::filesystem::path& folder, const MachineFacts& facts);

// config_error E-MACHINE-FILE for a file that is absent, malformed or holds impossible values.
MachineRecord read_machine_file(const std::filesystem::path& path);
// The same for the file of a cache: nothing if it is absent, damaged, or not this user's own.
std::optional<MachineRecord> kept_machine(const std::filesystem::path& path);
// One JSON object.
std::string machine_file_text(const MachineRecord& record);
// Creates the folder; replaces the file as a whole.
void write_machine_file(const std::filesystem::path& path, const MachineRecord& record);

// True if the record has these facts.
bool describes(const MachineRecord& record, const MachineFacts& facts);

}  // namespace plimsoll
