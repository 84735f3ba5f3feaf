#include "data/recurrence.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/hash.h"
#include "data/sample_file.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostValidation = 20'000, kMostTraining = 200'000;

template <class Visit>
void for_each_stored(const TokenFile& file, std::int64_t row, std::int64_t most, const Visit& visit) {
  const StoredSamples source(file, row, /*packs=*/false);
  std::vector<std::byte> staging(static_cast<std::size_t>(source.staging_bytes(1)));
  std::vector<Token> tokens;
  std::vector<std::uint8_t> trained;
  for (std::int64_t i = 0; i < std::min(most, source.count()); ++i) {
    const PlacedSample sample{{0, static_cast<std::uint32_t>(i)}};
    source.read({&sample, 1}, staging);
    const auto count = static_cast<std::size_t>(source.size(i).positions) + 1;
    tokens.resize(count);
    trained.resize(count);
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t stored = stored_token(staging.data() + sizeof(std::uint32_t) * at, sizeof(std::uint32_t));
      tokens[at] = static_cast<Token>(stored & ~kTrainedToken);
      trained[at] = (stored & kTrainedToken) != 0 ? 1 : 0;
    }
    visit(answers_of(tokens, trained));
  }
  source.drop({});
}

}  // namespace

std::vector<std::uint64_t> answers_of(std::span<const Token> tokens, std::span<const std::uint8_t> trained) {
  std::vector<std::uint64_t> answers;
  for (std::size_t i = 1; i < tokens.size();) {
    std::size_t end = i;
    while (end < tokens.size() && trained[end] != 0) ++end;
    if (end > i) answers.push_back(Hasher().add(std::as_bytes(tokens.subspan(i, end - i))).low64());
    i = std::max(end, i + 1);
  }
  return answers;
}

void Recurrence::add_validation(std::span<const std::uint64_t> answers) {
  for (const std::uint64_t answer : answers) seen_.try_emplace(answer, false);
  answers_.insert(answers_.end(), answers.begin(), answers.end());
  ends_.push_back(answers_.size());
}

void Recurrence::see_training(std::span<const std::uint64_t> answers) {
  for (const std::uint64_t answer : answers) {
    if (const auto found = seen_.find(answer); found != seen_.end()) found->second = true;
  }
}

std::int64_t Recurrence::recurring() const {
  std::int64_t count = 0;
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    const std::span answers(answers_.data() + begin, end - begin);
    count += !answers.empty() && std::ranges::all_of(answers, [&](std::uint64_t answer) { return seen_.at(answer); }) ? 1 : 0;
    begin = end;
  }
  return count;
}

Recurring recurring_answers(const TokenFile& train, const TokenFile& validation, std::int64_t row) {
  Recurrence recurrence;
  for_each_stored(validation, row, kMostValidation,
                  [&](const std::vector<std::uint64_t>& answers) { recurrence.add_validation(answers); });
  for_each_stored(train, row, kMostTraining,
                  [&](const std::vector<std::uint64_t>& answers) { recurrence.see_training(answers); });
  return {recurrence.samples(), recurrence.recurring()};
}

std::string recurring_text(const Recurring& found) {
  if (found.recurring == 0) return "";
  return fmt::format("{} of {} validation samples have answers that training samples have, too: the loss on them measures memory",
                     found.recurring, found.samples);
}

}  // namespace plimsoll
