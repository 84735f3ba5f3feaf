// Optimizer state that a checkpoint holds in another precision than the training: fp32, bf16, or 8 bits with scales. Numbers are
// rounded to the nearest; ties of 8 bits go away from zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "graph/graph.h"
#include "run/executor.h"

namespace plimsoll {

// One state of a parameter in a file. Codes of 8 bits have a scale for each block of kCodedBlock numbers.
class StoredState {
 public:
  // The state of the value, or the one whose scales the value is, if the file holds it in another precision than the graph.
  static std::optional<StoredState> in_other_precision(const Graph& graph, ValueId value, const SafetensorsFile& file);

  // The tensors that load() reads.
  std::vector<const StoredTensor*> tensors() const;
  // Converts to the type of the value. E-FORMAT-NAN: numbers that are not finite have no code of 8 bits.
  void load(ValueId id, const Value& value, Executor& executor) const;

 private:
  StoredState(const SafetensorsFile& file, const StoredTensor& numbers, const StoredTensor* scales, bool for_scales,
              bool is_signed)
      : file_(&file), numbers_(&numbers), scales_(scales), for_scales_(for_scales), signed_(is_signed) {}

  void read(std::int64_t begin, std::span<float> numbers) const;
  float encode(std::int64_t begin, std::span<std::uint8_t> codes) const;

  const SafetensorsFile* file_;
  const StoredTensor *numbers_, *scales_;  // scales_: null unless numbers are codes
  bool for_scales_;                        // the value is the scales
  bool signed_;                            // of 8 bits
};

}  // namespace plimsoll
