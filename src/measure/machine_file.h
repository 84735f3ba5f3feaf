// The file that keeps what was measured of a machine. One file per processor, instruction set, threads, libraries and build of
// Plimsoll, so that none of them is planned for with figures of another.
#pragma once

#include <filesystem>
#include <map>
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
  double copy_bytes_per_second = 0;
  std::map<std::string, double> kernel_seconds;   // by timing_key
  std::map<std::string, std::string> algorithms;  // that a GPU's library chose, likewise
  std::optional<Sharing> sharing = {};            // of the rates; absent: nobody knows
  int repeats = 0;                                // measurements again that found no quiet moment either
  std::set<std::string> shared_kernels = {};      // of kernel_seconds, those that found none

  bool shared() const { return sharing && sharing->shared(); }
};

// The name, the rates, the reserve, the threads, the instruction set and the libraries. Not the capacities, which are no part of
// a plan, nor the seconds of kernels, which are added to as configurations come by.
std::string machine_hash(const Machine& machine);

// The machine alone as JSON, as it stands in the file, and back: for the same program, in another process.
std::string machine_text(const Machine& machine);
Machine machine_from(const std::string& text);

// The same of a link. link_from throws what no file of ours gives reason to.
std::string link_text(const Link& link);
Link link_from(const std::string& text);

// folder/machine-<hash of the facts>.json.
std::filesystem::path machine_file_path(const std::filesystem::path& folder, const MachineFacts& facts);

// config_error E-MACHINE-FILE for a file that is absent, malformed or holds impossible values.
MachineRecord read_machine_file(const std::filesystem::path& path);
// One JSON object.
std::string machine_file_text(const MachineRecord& record);
// Creates the folder; replaces the file as a whole.
void write_machine_file(const std::filesystem::path& path, const MachineRecord& record);

// Whether the record is of these facts.
bool describes(const MachineRecord& record, const MachineFacts& facts);

}  // namespace plimsoll
