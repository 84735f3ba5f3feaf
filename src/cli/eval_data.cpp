#include "cli/eval_data.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/child.h"
#include "base/error.h"
#include "cli/say.h"
#include "formats/chat_template.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer_folder.h"
#include "models/family.h"
#include "prepare/data_files.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// The folder or file with the vocabulary of the weights. An adapter carries the vocabulary of its training. Empty if there is
// none.
std::filesystem::path vocabulary_of(const ModelSource& model) {
  for (const std::filesystem::path& folder : {model.adapter.init, model.folder}) {
    if (!folder.empty() && has_vocabulary(folder)) return folder;
  }
  return {};
}

std::string templates_hash(const std::filesystem::path& tokenizer, const std::filesystem::path& file) {
  const std::optional<ChatTemplates> templates = load_chat_templates(tokenizer, file);
  std::string hashes;
  if (templates) {
    for (const auto& [name, one] : templates->by_name) hashes += name + " " + one.hash() + "\n";
  }
  return hashes;
}

struct Difference {
  bool vocabulary = false, chat_template = false;
};

// Compared in a child process, since vocabularies take memory.
Difference difference(const Config& config, const std::filesystem::path& own) {
  const json found = json::parse(run_in_child([&] {
    const bool templates = data_kind(config).renders && !config.data.chat_template.empty();
    const std::string trained = templates ? templates_hash(own, {}) : std::string();
    return json{config.data.vocabulary.empty() || vocabulary_hash(config.data.vocabulary) != vocabulary_hash(own),
                !trained.empty() && templates_hash(own, config.data.chat_template) != trained}
        .dump();
  }));
  return {found.at(0), found.at(1)};
}

bool through_vocabulary(std::string_view format) { return format == "bpe" || format == "chat"; }

void read_as_bytes(Config& config, const ModelSource& model) {
  if (through_vocabulary(config.data.format)) {
    throw config_error("E-CONFIG-CONFLICT", "data.format",
                       fmt::format("it is \"{}\", and {} was trained on bytes", config.data.format, model.folder.string()),
                       "data that are read as bytes, or weights with a vocabulary", {"--set data.format=bytes"});
  }
  config.data.vocabulary.clear();
}

}  // namespace

void read_as_trained(Config& config, const ModelSource& model) {
  const ModelFacts facts = facts_of(model.model);
  config.model.config = model.model;
  if (facts.vocab == 0) {
    config.model.init = model.folder;  // the normalisation of pixels
    config.model.open_classes = false;
    return;
  }
  if (facts.bytes) return read_as_bytes(config, model);
  const std::filesystem::path own = vocabulary_of(model), given = config.data.vocabulary;
  if (own.empty()) {
    if (given.empty()) {
      config.model.init = model.folder;  // text is refused, as its tokens are unknown
    } else if (through_vocabulary(config.data.format) || config.data.format == "auto") {
      say_line(
          fmt::format("note: {} carries no vocabulary: the vocabulary of {} is used", model.folder.string(), given.string()));
    }
    return;
  }
  if (config.data.format == "bytes") {
    say_line(
        fmt::format("note: the data are read as bytes, as data.format says, and {} has a vocabulary: the loss treats "
                    "byte values as its tokens",
                    own.string()));
    return;
  }
  const Difference other = difference(config, own);
  if (other.vocabulary) {
    if (!given.empty()) {
      say_line(fmt::format("note: data.vocabulary ({}) differs from the vocabulary of the weights: the one of {} is used",
                           given.string(), own.string()));
    }
    config.data.vocabulary = own;
    config.model.init = model.folder;
  }
  if (other.chat_template) {
    say_line(fmt::format("note: data.template ({}) differs from the template of the weights, {}",
                         config.data.chat_template.string(), own.string()));
  }
}

void tell_data(const DataSet& data, const ModelSource& model) {
  for (const std::string& note : data.notes()) say_line("note: " + note);
  const std::filesystem::path own = vocabulary_of(model);
  if (data.has_bare_tokens() && (facts_of(model.model).bytes || !own.empty())) {
    say_line(fmt::format("note: {} holds token ids: they count as {}; the file does not name their vocabulary", data.name(),
                         own.empty() ? "bytes" : "tokens of " + own.string()));
  }
}

}  // namespace plimsoll
