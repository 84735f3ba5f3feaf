// Conversations of random tokens, and small models for them.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "data/conversations.h"
#include "data/sample_file.h"
#include "models/all.h"
#include "prepare/epochs.h"
#include "run/session.h"

namespace plimsoll {

inline constexpr std::int64_t kChatContext = 24, kChatVocab = 101;

// Conversations as training sees them: runs of tokens that count and of others.
struct ChatData {
  ScratchFolder folder;
  DataFiles files;

  explicit ChatData(int samples = 61, std::int64_t longest = kChatContext) {
    files.train = std::make_unique<Conversations>(write("train", samples, longest, 1));
    files.validation = std::make_unique<Conversations>(write("validation", 17, longest, 2));
  }
  const TokenFile& train() const { return dynamic_cast<const Conversations&>(*files.train).file(); }
  TokenFile write(const char* name, int samples, std::int64_t longest, unsigned seed) {
    std::mt19937 random(seed);
    SampleFileWriter writer(folder / name);
    for (int i = 0; i < samples; ++i) {
      const auto length = 2 + random() % static_cast<unsigned>(longest);
      std::vector<Token> tokens;
      std::vector<std::uint8_t> trained;
      for (unsigned t = 0; t < length; ++t) {
        tokens.push_back(random() % static_cast<unsigned>(kChatVocab));
        trained.push_back(t + 1 == length || random() % 3 != 0 ? 1 : 0);
      }
      writer.add(tokens, trained);
    }
    writer.commit();
    return open_sample_file(File::open(folder / name), name, kChatVocab, true);
  }
};

inline Config gpt2_config() { return config_for({2, 32, 4, kChatContext, kChatVocab}, 6, 0.1); }

// A decoder with half as many heads of keys as of queries.
inline Config decoder_config(const Family& family, std::int64_t width, std::int64_t heads) {
  Config config = gpt2_config();
  config.model.config = family.defaults();
  const std::vector<Change> shape{{"model.layers", 2},           {"model.width", width},  {"model.heads", heads},
                                  {"model.kv_heads", heads / 2}, {"model.mlp_width", 48}, {"model.vocab", kChatVocab}};
  config = with_changes(std::move(config), shape);
  config.model.config = with_positions(config.model.config, kChatContext);
  config.model.context = kChatContext;
  return config;
}

inline DataFacts facts_with_windows(const Config& config, const DataFiles& files) {
  return facts_of(config, files, ragged_windows(config, epoch_facts(config, *files.train)));
}

}  // namespace plimsoll
