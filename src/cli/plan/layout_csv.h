// Buffers in CSV: a header with the columns id, lower, upper and size in any order (others are ignored), lives half-open, ids any
// text. The reader trusts nothing: every fault is a data error E-LAYOUT-CSV with the line and the value. The writer gives
// id,lower,upper,size,offset in input order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

struct NamedProblem {
  std::vector<std::string> ids;  // ids of problem.buffers, unique
  Problem problem;
};

// `where` names the input in messages.
NamedProblem read_csv(std::string_view text, const std::string& where);
NamedProblem read_csv_file(const std::string& path);

std::string write_csv(const NamedProblem& named, const Solution& solution);

}  // namespace plimsoll::layout
