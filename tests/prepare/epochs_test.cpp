// Windows, epochs and evaluations of data small enough to count by hand.
#include "prepare/epochs.h"

#include <gtest/gtest.h>

#include "data/conversations.h"
#include "data/sample_file.h"
#include "data/token_files.h"
#include "data/token_stream.h"

namespace plimsoll {
namespace {

// 100 tokens are 99 targets: six samples of 16, and one of 3.
class Epochs : public testing::Test {
 protected:
  Epochs() {
    write_raw(folder / "x.bin", u16_bytes(counting(100)));
    stream.emplace(open_source({folder / "x.bin", "u16", 65536, {}, {}}));
    config.model.context = 16;
    config.data.order = OrderKind::sequential;
    config.train.effective_batch = 3;
  }
  // Samples of 10, 6, 5, 5 and 4 positions.
  std::unique_ptr<DataSet> stored_samples() {
    SampleFileWriter writer(folder / "chats");
    for (const std::size_t positions : {10, 6, 5, 5, 4}) {
      writer.add(std::vector<Token>(positions + 1, 7), std::vector<std::uint8_t>(positions + 1, 1));
    }
    writer.commit();
    return std::make_unique<Conversations>(open_sample_file(File::open(folder / "chats"), "chats", 100, /*verify=*/true));
  }

  ScratchFolder folder;
  std::optional<TokenStream> stream;
  Config config;
};

TEST_F(Epochs, WindowsOfANumberOfSamples) {
  const EpochFacts facts = epoch_facts(config, *stream);
  EXPECT_EQ(facts.samples, 7);
  EXPECT_EQ(facts.positions, 99);
  EXPECT_EQ(facts.units, 99);
  EXPECT_EQ(facts.updates, 3);
  EXPECT_EQ(facts.all_rows, 7);
  EXPECT_EQ(facts.windows, 2) << "the last one is short";
  EXPECT_EQ(facts.rows, 6);
  EXPECT_EQ(facts.most_rows, 3);
  EXPECT_EQ(ragged_windows(config, facts), std::nullopt) << "all windows have as many rows";
}

TEST_F(Epochs, TheOnlyWindowCounts) {
  config.train.effective_batch = 9;
  const EpochFacts facts = epoch_facts(config, *stream);
  EXPECT_EQ(facts.updates, 1);
  EXPECT_EQ(facts.windows, 1);
  EXPECT_EQ(facts.rows, 7);
}

// 40 tokens hold two whole samples, and the short one in addition.
TEST_F(Epochs, WindowsOfANumberOfTokens) {
  config.train.effective_tokens = 40;
  const EpochFacts facts = epoch_facts(config, *stream);
  EXPECT_EQ(facts.updates, 3);
  EXPECT_EQ(facts.windows, 2);
  EXPECT_EQ(facts.rows, 4);
  EXPECT_EQ(facts.most_rows, 40 / 3) << "if all samples were as short as the shortest";
  const RaggedWindows expected{.rows = 2, .most_rows = 40 / 3, .units = 40};
  EXPECT_EQ(ragged_windows(config, facts), expected);
}

TEST_F(Epochs, PackedSamplesShareRows) {
  const DataFiles files{stored_samples(), nullptr};
  config.train.effective_tokens = 32;
  config.batch.packing = true;
  const EpochFacts facts = epoch_facts(config, *files.train);
  EXPECT_EQ(facts.samples, 5);
  EXPECT_EQ(facts.positions, 30);
  EXPECT_EQ(facts.updates, 1);
  EXPECT_EQ(facts.all_rows, 2) << "10 + 6 and 5 + 5 + 4 of 16";
  EXPECT_EQ(facts.most_rows, 2 * 2 + 1);
  const DataFacts of_files = facts_of(config, files, ragged_windows(config, facts));
  EXPECT_TRUE(of_files.packed);
  EXPECT_EQ(of_files.row.bytes, RowBytes(8, 0)) << "a row of one-token samples has a token more for each";
  EXPECT_EQ(of_files.ragged->rows, 2);
}

TEST_F(Epochs, AWindowRuleFollowsTheConfiguration) {
  EXPECT_EQ(window_rule(config, *stream), (WindowRule{.samples = 3, .row = 16}));
  config.train.effective_tokens = 40;
  EXPECT_EQ(window_rule(config, *stream), (WindowRule{.positions = 40, .row = 16}));
  config.train.epochs = 1.5;
  EXPECT_EQ(window_rule(config, *stream).span, 11) << "a window ends with the data";
  config.batch.packing = true;
  EXPECT_FALSE(window_rule(config, *stream).packs) << "samples of a stream fill their rows";
}

TEST_F(Epochs, UpdatesOfEpochs) {
  config.train.epochs = 2;
  EXPECT_EQ(updates_of_epochs(config, *stream), 5) << "14 samples, 3 each";
  config.train.effective_tokens = 40;
  EXPECT_EQ(updates_of_epochs(config, *stream), 6) << "2, 2 and 3 samples in each epoch: the short one is a third";
}

TEST_F(Epochs, CountsOfARunGoThroughTheDataAgain) {
  config.train.updates = 5;
  const RunCounts counts = counts_of_run(config, *stream, nullptr);
  EXPECT_EQ(counts.samples, 15);
  EXPECT_EQ(counts.positions, 2 * 99 + 16);
  EXPECT_EQ(counts.units, counts.positions);
  EXPECT_DOUBLE_EQ(counts.epochs, 15.0 / 7);
  const EpochFacts facts = epoch_facts(config, *stream);
  const RunCounts with_facts = counts_of_run(config, *stream, &facts);
  EXPECT_EQ(with_facts.positions, counts.positions);
}

TEST_F(Epochs, CountsOfARunEndWithItsEpochs) {
  config.train.epochs = 1;
  config.train.updates = updates_of_epochs(config, *stream);
  EXPECT_EQ(counts_of_run(config, *stream, nullptr).samples, 7);
}

TEST_F(Epochs, EvaluationsReadTheFirstSamples) {
  EXPECT_EQ(evaluated_samples(config, 7), 7);
  EXPECT_EQ(evaluation_batches(config, *stream, 2), 4);
  config.train.evaluate_samples = 3;
  EXPECT_EQ(evaluated_samples(config, 7), 3);
  EXPECT_EQ(evaluated_samples(config, 2), 2);
  EXPECT_EQ(evaluation_batches(config, *stream, 2), 2);
}

TEST_F(Epochs, EvaluationsOfPackedSamplesCountTheirRows) {
  const std::unique_ptr<DataSet> samples = stored_samples();
  config.batch.packing = true;
  EXPECT_EQ(evaluation_batches(config, *samples, 1), 2);
  EXPECT_EQ(evaluation_batches(config, *samples, 2), 1);
  EXPECT_EQ(evaluation_rule(5, 2, 16, /*packs=*/false).samples, 2);
  EXPECT_GT(evaluation_rule(5, 2, 16, /*packs=*/true).samples, 5) << "many are packed together";
}

TEST_F(Epochs, MissingDataAreAssumedToBeWhole) {
  EXPECT_EQ(assumed_windows(config), std::nullopt);
  config.batch.packing = true;
  EXPECT_EQ(assumed_windows(config), (RaggedWindows{.rows = 3, .most_rows = 3, .units = 48}));
  config.train.effective_tokens = 48;
  EXPECT_EQ(assumed_windows(config), (RaggedWindows{.rows = 3, .most_rows = 7, .units = 48}));
}

TEST_F(Epochs, TheOrderHasTheSeedOfTheConfiguration) {
  config.seed = 9;
  config.data.order = OrderKind::shuffled;
  const SampleOrder order = sample_order(config, 7);
  EXPECT_EQ(order.kind, OrderKind::shuffled);
  EXPECT_EQ(order.seed, 9u);
  EXPECT_EQ(order.samples, 7);
}

}  // namespace
}  // namespace plimsoll
