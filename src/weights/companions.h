// The tokenizer, chat template and generation files next to the weights of a model merged from base and adapter. An adapter is
// saved with the files of its training.
#pragma once

#include <filesystem>

#include "weights/model_source.h"

namespace plimsoll {

struct Companions {
  bool tokenizer = false;       // the adapter's, in place of the base's
  bool chat_template = false;   // the adapter's, in place of the base's
  bool other_template = false;  // the two templates differ
};

// `folder` has the files of the base. Those of the adapter replace them, as for generation with the adapter: its tokenizer as a
// whole, its chat templates as a whole, its generation_config.json.
Companions take_companions(const ModelSource& source, const std::filesystem::path& folder);

// True if the adapter has its own chat template with a text other than the base's.
bool has_other_template(const ModelSource& source);

}  // namespace plimsoll
