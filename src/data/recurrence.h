// Counts the validation samples whose answers occur in training samples. A model that has memorised these answers has a low loss
// on them without generalising.
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

// Hashes of the answers of a sample. An answer is a run of trained tokens; `trained` has 1 for each.
std::vector<std::uint64_t> answers_of(std::span<const Token> tokens, std::span<const std::uint8_t> trained);

// A validation sample recurs if training samples have all of its answers.
class Recurrence {
 public:
  void add_validation(std::span<const std::uint64_t> answers);
  // Called after all of validation.
  void see_training(std::span<const std::uint64_t> answers);

  std::int64_t samples() const { return std::ssize(ends_); }
  std::int64_t recurring() const;

 private:
  std::unordered_map<std::uint64_t, bool> seen_;  // by the hash of an answer: true if a training sample has it
  std::vector<std::uint64_t> answers_;            // hashes, by validation sample
  std::vector<std::size_t> ends_;                 // ends of the samples in answers_
};

struct Recurring {
  std::int64_t samples = 0, recurring = 0;
};
// Compares the first 20,000 validation samples with the first 200,000 training samples of sample files (sample_file.h) with rows
// of `row` positions. The memory is 1 MiB for short answers and does not grow with the data.
Recurring recurring_answers(const TokenFile& train, const TokenFile& validation, std::int64_t row);

// "12 of 21 validation samples have answers that ..."; empty if none has.
std::string recurring_text(const Recurring& found);

}  // namespace plimsoll
