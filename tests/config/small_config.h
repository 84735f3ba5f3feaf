// Configurations of a small GPT-2, from a file and typed settings.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/config_keys.h"
#include "formats/scratch_folder.h"

namespace plimsoll {

inline constexpr const char* kSmall = R"(seed = 7
[model]
kind = "gpt2"
layers = 2
width = 64
heads = 4
context = 32
vocab = 256
[data]
train = "text.txt"
[train]
effective_batch = 100
)";

class ConfigTest : public testing::Test {
 protected:
  // `sets`: "key=value".
  Config load(const std::string& text, const std::vector<std::string>& sets = {}, const Bf16Speed& bf16 = bf16_speed_here()) {
    write_raw(folder_ / "run.toml", text);
    std::vector<Change> changes;
    for (const std::string& set : sets) changes.push_back(read_change(set));
    return load_config(folder_ / "run.toml", typed_settings(changes), bf16);
  }
  Config small(const std::vector<std::string>& sets = {}, const Bf16Speed& bf16 = bf16_speed_here()) {
    return load(kSmall, sets, bf16);
  }

  ScratchFolder folder_;
};

inline bool has_note(const Config& config, std::string_view fragment) {
  for (const std::string& note : config.notes) {
    if (note.find(fragment) != std::string::npos) return true;
  }
  return false;
}

}  // namespace plimsoll
