// The chat templates of a tokenizer, and the names of its special tokens that they are rendered with: of a Hugging Face folder,
// of a GGUF file, or of a file of one's own. chat_template.jinja beats the key chat_template of tokenizer_config.json, as in
// transformers.
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

  // "tool_use", if the conversation has tools and there is one, else "default". E-CHAT-TEMPLATE: there is no default.
  const jinja::Template& choose(bool tools) const;
};

// Nothing where the tokenizer has none. `file`, if not empty, is a template to be used in place of its own.
// E-CHAT-TEMPLATE: a template is broken. E-TOKENIZER, E-FORMAT-GGUF: a file that names it is. E-IO-MISSING: `file` is not there.
std::optional<ChatTemplates> load_chat_templates(const std::filesystem::path& tokenizer, const std::filesystem::path& file = {});

}  // namespace plimsoll
