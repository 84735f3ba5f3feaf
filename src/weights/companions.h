// The files beside the weights by which a model reads, talks and ends, where an adapter is taken into its base. An adapter is
// saved with those that it was trained with.
#pragma once

#include <filesystem>

#include "weights/model_source.h"

namespace plimsoll {

struct Companions {
  bool tokenizer = false;       // of the adapter, in place of that of the base
  bool chat_template = false;   // likewise
  bool other_template = false;  // and it is another text
};

// In `folder` lie the files of the base. Those of the adapter take their place, as generation with the adapter has it: its
// tokenizer as a whole, its chat templates as a whole, its generation_config.json.
Companions take_companions(const ModelSource& source, const std::filesystem::path& folder);

// True if the adapter has a chat template of its own whose text differs from that of the base.
bool has_other_template(const ModelSource& source);

}  // namespace plimsoll
