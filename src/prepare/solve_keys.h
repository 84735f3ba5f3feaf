// What `plan --solve` can look for: sizes that memory bounds, and budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/asked.h"

namespace plimsoll {

enum class SolvedBudget : std::uint8_t { none, memory, host_memory, disk };

struct SolveKey {
  std::string name;                             // "model.context"; of a budget "memory"
  SolvedBudget budget = SolvedBudget::none;     // of a budget the least is looked for, of all else the largest
  std::int64_t step = 1;                        // between values, which are multiples of it: from one step on, budgets from 0
  std::vector<std::int64_t> values = {};        // instead, in order: all that there are
  std::int64_t now = 1;                         // what the configuration says: where the search begins
  std::function<Arguments(std::int64_t)> with;  // the arguments for a value

  std::int64_t value_of(std::int64_t number) const;  // of the case with that number, from 0 on
  std::int64_t number_of(std::int64_t value) const;  // of the largest value that is no larger; 0 where all are
};

// By its name or the last part of that. E-SOLVE-KEY lists the keys where it is none of them, E-CONFIG-MISSING says what it needs:
// a folder for the disk.
SolveKey solve_key(std::string_view name, const Config& config, const PlanningInput& input);

}  // namespace plimsoll
