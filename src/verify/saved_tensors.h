// Compares the tensors of two checkpoints, which any number of ranks has written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll::verification {

struct Difference {
  double worst = 0;    // of a tensor: norm of a - b, relative to that of b, at least a thousandth of that of all tensors
  std::string tensor;  // with that difference
  double total = 0;    // of all tensors
};
// Compares the fp32 tensors of checkpoint `a` with those of `b`, which one process has written. `suffix`: of their names; empty:
// the parameters. Files are read in pieces.
Difference difference(const std::filesystem::path& a, const std::filesystem::path& b, std::string_view suffix);

// The first file of two checkpoints of as many ranks that differs in a computed tensor, with the tensor; "" if none.
std::string differing_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace plimsoll::verification
