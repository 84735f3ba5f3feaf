// The keys of `plan --solve`: sizes that memory bounds, and budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/changed_config.h"

namespace plimsoll {

enum class SolvedBudget : std::uint8_t { none, memory, host_memory, disk, ranks };

struct SolveKey {
  std::string name;                           // "model.context"; for a budget "memory"
  SolvedBudget budget = SolvedBudget::none;   // a budget is minimised, all else maximised
  std::int64_t step = 1;                      // values are multiples of it; the first value is one step, for budgets 0
  std::vector<std::int64_t> values = {};      // all values, in order; empty: multiples of step
  std::int64_t now = 1;                       // the configured value: start of the search
  std::function<Changes(std::int64_t)> with;  // the changes for a value

  std::int64_t value_of(std::int64_t number) const;  // the value of a case, counted from 0
  std::int64_t number_of(std::int64_t value) const;  // the case of the largest value up to `value`; 0 if all are larger
};

// Finds a key by its name or the last part of it. E-SOLVE-KEY lists the keys if the name is unknown; E-CONFIG-MISSING names what
// the key needs: a folder for the disk.
SolveKey solve_key(std::string_view name, const Config& config, const PlanningInput& input);

}  // namespace plimsoll
