// Compares saved files of two runs, and moves weights along a gradient. Files are read in pieces; of all tensors only gradients
// of convolutions and running statistics are held, one at a time.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll::verification {

// A name for equal parameters of all layers: "h.*.attn.c_attn" for weight and bias in all blocks.
std::string layer_group(std::string_view parameter);

// Sums over the elements of a group.
struct Sums {
  double difference = 0;  // squares of a - b
  double reference = 0;   // squares of b
  double relative() const;
};
using GroupSums = std::map<std::string, Sums>;
Sums total(const GroupSums& groups);

// Compares fp32 tensors of two files whose names end in `suffix`, by group of the name without it.
GroupSums compare_tensors(const std::filesystem::path& a, const std::filesystem::path& b, std::string_view suffix);

// The running statistics of batch normalisation in two files.
struct StatisticsDifference {
  // The largest of all layers: of the means, relative to the root mean square of the activations, and of the variances, relative
  // to themselves. 0 without statistics.
  double values = 0;
  bool same_windows = true;  // the same number of windows moved them
};
StatisticsDifference compare_statistics(const std::filesystem::path& a, const std::filesystem::path& b);

// The first computed tensor that differs in a byte or is missing in one file; "" if none.
std::string first_difference(const std::filesystem::path& a, const std::filesystem::path& b);

// Writes the weights of `from` in fp32 (whole numbers stay), with the parameters of `group` moved by `step` times their gradient
// (the tensor of their name and `suffix` in `gradients`). Returns the sum of movement x gradient.
double write_moved(const std::filesystem::path& from, const std::filesystem::path& gradients, std::string_view suffix,
                   const std::string& group, double step, const std::filesystem::path& to);

}  // namespace plimsoll::verification
