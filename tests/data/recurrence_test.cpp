// Answers of validation samples that training samples have, too.
#include "data/recurrence.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "data/sample_file.h"
#include "formats/file.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

using Tokens = std::vector<Token>;
using Marks = std::vector<std::uint8_t>;

TEST(Recurrence, AnAnswerIsARunOfTrainedTokens) {
  EXPECT_TRUE(answers_of(Tokens{1, 2, 3}, Marks{0, 0, 0}).empty());
  EXPECT_TRUE(answers_of(Tokens{1}, Marks{1}).empty());  // no target
  const auto two = answers_of(Tokens{1, 2, 3, 4, 5, 2, 3}, Marks{0, 1, 1, 0, 0, 1, 1});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0], two[1]);
  EXPECT_EQ(answers_of(Tokens{9, 9, 2, 3}, Marks{0, 0, 1, 1}), (std::vector{two[0]}));
  EXPECT_NE(answers_of(Tokens{9, 9, 2, 3}, Marks{0, 0, 0, 1}).front(), two[0]);
}

TEST(Recurrence, ASampleRecursWithAllOfItsAnswers) {
  const ScratchFolder folder;
  const auto write = [&](const char* name, const std::vector<std::pair<Tokens, Marks>>& samples) {
    SampleFileWriter writer(folder / name);
    for (const auto& [tokens, marks] : samples) writer.add(tokens, marks);
    writer.commit();
    return open_sample_file(File::open(folder / name, "E-DATA-MISSING"), name, 100, true);
  };
  const TokenFile train = write("train", {{{1, 10, 11}, {0, 1, 1}}, {{2, 20, 3, 30}, {0, 1, 0, 1}}});
  const TokenFile validation = write("validation", {{{7, 10, 11}, {0, 1, 1}},               // another question
                                                    {{7, 20, 8, 10, 11}, {0, 1, 0, 1, 1}},  // answers of two samples
                                                    {{7, 20, 8, 40}, {0, 1, 0, 1}},         // one answer is new
                                                    {{1, 10}, {0, 1}}});                    // the begin of an answer
  const Recurring found = recurring_answers(train, validation, 8);
  EXPECT_EQ(found.samples, 4);
  EXPECT_EQ(found.recurring, 2);
  EXPECT_EQ(recurring_text(found).substr(0, 25), "2 of 4 validation samples");
  EXPECT_EQ(recurring_text({4, 0}), "");
}

}  // namespace
}  // namespace plimsoll
