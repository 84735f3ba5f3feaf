// The chat templates of a tokenizer and the names of the special tokens for rendering. They come from a Hugging Face folder, from
// a GGUF file, or from a separate file. chat_template.jinja takes precedence over the key chat_template of tokenizer_config.json,
// as in transformers.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/jinja/template.h"

namespace plimsoll {

struct ChatTemplates {
  std::map<std::string, jinja::Template> by_name;  // "default", "tool_use", ...; at least one
  // bos_token, eos_token and the like.
  std::vector<std::pair<std::string, std::string>> tokens;
  std::string source;  // the file, or the files

  // "tool_use" if the conversation has tools and this template exists, else "default". E-CHAT-TEMPLATE: there is no default.
  const jinja::Template& choose(bool tools) const;
};

// Absent if the tokenizer has no template. `file`: the template to use instead; empty: none.
// E-CHAT-TEMPLATE: a template is broken. E-TOKENIZER, E-FORMAT-GGUF: the file with its name is broken. E-IO-MISSING: `file` is
// missing.
std::optional<ChatTemplates> load_chat_templates(const std::filesystem::path& tokenizer, const std::filesystem::path& file = {});

}  // namespace plimsoll
