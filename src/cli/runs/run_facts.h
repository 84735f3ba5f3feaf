// The facts of a run as lists and filters know them: by key, as a number or a text.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "records/run_reader.h"

namespace plimsoll {

// A run in a list.
struct ListedRun {
  Run run;
  std::optional<double> learning_rate;  // the peak
  std::map<std::string, std::string> settings;
  std::string note;
};
ListedRun listed_run(const std::filesystem::path& folder);

// The keys of facts: name, state, updates, ... Settings have their own keys.
std::span<const std::string_view> run_fact_keys();
// The fact or setting as text, strings without quotes; nothing if the run lacks it.
std::optional<std::string> run_fact(const ListedRun& listed, const std::string& key);
// E-USAGE for a key that is neither a fact nor a setting; `option` is the one that names it.
void check_run_key(const std::string& key, const std::string& option);
// The number of a text; nothing for other texts.
std::optional<double> number_in(const std::string& text);

// The object of `runs ls --json`.
nlohmann::json run_json(const ListedRun& listed);

// "running", or "unreadable" for a folder whose run.json cannot be read.
std::string state_text(const Run& run);
// "1.4123", "8.12e+07", "-".
std::string loss_text(std::optional<double> loss);

inline constexpr int kUnlimitedColumns = 1 << 20;
// Rows of columns with one space between them, the first one to the left. The first column is shortened in its middle until rows
// have at most `columns` characters.
std::string table_text(std::vector<std::vector<std::string>> rows, int columns);

}  // namespace plimsoll
