// What two runs saved, compared; and weights moved along a gradient. Files are read in pieces: no tensor is ever held.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll::verification {

// Parameters that do the same in each layer: "h.*.attn.c_attn" for its weight and bias in all blocks.
std::string layer_group(std::string_view parameter);

// Sums over the elements of a group.
struct Sums {
  double difference = 0;  // squares of a - b
  double reference = 0;   // squares of b
  double relative() const;
};
using GroupSums = std::map<std::string, Sums>;
Sums total(const GroupSums& groups);

// The tensors of two files whose names end in `suffix`, less that suffix, by group. Both are fp32.
GroupSums compare_tensors(const std::filesystem::path& a, const std::filesystem::path& b, std::string_view suffix);

// The name of the first tensor, of those that a run computes, that differs in a byte or is in one file alone; "" if none.
std::string first_difference(const std::filesystem::path& a, const std::filesystem::path& b);

// Writes a folder of weights: those of `from`, where parameters of `group` have moved by `step` times their gradient, which is
// the tensor of that name and `suffix` in `gradients`. Returns the sum of (what they moved by) x gradient.
double write_moved(const std::filesystem::path& from, const std::filesystem::path& gradients, std::string_view suffix,
                   const std::string& group, double step, const std::filesystem::path& to);

}  // namespace plimsoll::verification
