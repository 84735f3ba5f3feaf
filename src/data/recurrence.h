// Counts the validation samples whose answers stand in training samples, too. A model that has learned these answers by heart has
// a low loss on them, whatever it has understood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/source.h"
#include "formats/tokenizer/token.h"

namespace plimsoll {

// Hashes of the answers of a sample: runs of tokens that are trained on. `trained` has 1 for each token that counts.
std::vector<std::uint64_t> answers_of(std::span<const Token> tokens, std::span<const std::uint8_t> trained);

// A validation sample recurs where training samples have all of its answers.
class Recurrence {
 public:
  void add_validation(std::span<const std::uint64_t> answers);
  // Behind all of validation.
  void see_training(std::span<const std::uint64_t> answers);

  std::int64_t samples() const { return std::ssize(ends_); }
  std::int64_t recurring() const;

 private:
  std::unordered_map<std::uint64_t, bool> seen_;  // by the hash of an answer, whether a training sample has it
  std::vector<std::uint64_t> answers_;            // of one validation sample after the other
  std::vector<std::size_t> ends_;                 // of each sample
};

struct Recurring {
  std::int64_t samples = 0, recurring = 0;
};
// For sample files (sample_file.h) with rows of `row` positions: compares the first 20,000 validation samples with the first
// 200,000 training samples. The memory is 1 MiB for short answers and does not grow with the data.
Recurring recurring_answers(const TokenFile& train, const TokenFile& validation, std::int64_t row);

// "12 of 21 validation samples have answers that ..."; empty where none has.
std::string recurring_text(const Recurring& found);

}  // namespace plimsoll
