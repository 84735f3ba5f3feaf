#include "data/conversation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "data/file_kind.h"
#include "data/json_records.h"
#include "formats/jinja/json_value.h"

namespace plimsoll {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::None;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

constexpr const char* kFormats =
    "messages, conversations (ShareGPT), instruction and output (Alpaca), prompt and completion, or text";

bool is_given(const Value* value) { return value != nullptr && !value->is_none(); }

// The known role that a misspelt one stands for; empty if the name is known, or similar to none of them.
std::string meant_role(std::string_view role, std::span<const std::string> known) {
  constexpr std::size_t kMost = 64;
  if (std::ranges::find(known, role) != known.end()) return {};
  std::string plain;
  for (const char c : role.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte) == 0) plain += static_cast<char>(std::tolower(byte));
  }
  return nearest_name(plain, known);
}

Value text_value(std::string_view text) { return Text(std::string(text), Origin::data); }

// Reads one sample. Errors name file and line.
class SampleParser {
 public:
  explicit SampleParser(ChatSample sample) : sample_(std::move(sample)) {}

  ChatSample read(std::string_view json) {
    jinja::JsonResult parsed = jinja::parse_json(json, Origin::data);
    if (!parsed.fault.empty()) throw json_error(std::move(parsed.fault));
    const Dict* dict = parsed.value.dict();
    if (dict == nullptr) refuse(fmt::format("the sample is a {}", parsed.value.type()), "an object with keys");
    read_dict(*dict);
    return std::move(sample_);
  }

 private:
  [[noreturn]] void refuse(std::string why, std::string expected) const {
    throw data_error("E-CHAT-SAMPLE", sample_.where(), std::move(why), std::move(expected));
  }
  [[noreturn]] void refuse_feature(std::string why, std::string expected) const {
    throw data_error("E-CHAT-FEATURE", sample_.where(), std::move(why), std::move(expected));
  }

  // The parser counts lines from the begin of the sample.
  Error json_error(std::string fault) const {
    std::int64_t line = sample_.line;
    if (constexpr std::string_view kLine = "line "; fault.starts_with(kLine)) {
      std::int64_t within = 1;
      const auto read = std::from_chars(fault.data() + kLine.size(), fault.data() + fault.size(), within);
      if (read.ec == std::errc() && std::string_view(read.ptr).starts_with(", ")) {
        line += within - 1;
        fault = read.ptr + 2;
      }
    }
    return data_error("E-DATA-JSON", fmt::format("{}:{}", sample_.file, line), std::move(fault),
                      "a JSON object a line, or an array of objects, in UTF-8");
  }

  const Text& text_of(const Value& value, std::string_view what) const {
    if (value.text() == nullptr) refuse(fmt::format("{} is of the type {}", what, value.type()), "text");
    return *value.text();
  }

  const List& list_of(const Value& value, std::string_view what) const {
    if (value.list() == nullptr) refuse(fmt::format("{} is of the type {}", what, value.type()), "a list");
    return *value.list();
  }

  void read_dict(const Dict& dict) {
    for (const char* key : {"chosen", "rejected"}) {
      if (is_given(dict.find(key))) {
        refuse_feature(fmt::format("it has the key {}: preference data are not trained on", key), "one answer, as messages");
      }
    }
    for (const char* key : {"images", "image", "videos", "audios"}) {
      const Value* value = dict.find(key);
      if (is_given(value) && is_true(*value))
        refuse_feature(fmt::format("it has the key {}", key), "conversations of text alone");
    }
    read_tools(dict);
    read_variables(dict);
    if (is_given(dict.find("messages"))) {
      read_conversation(*dict.find("messages"), "messages");
    } else if (is_given(dict.find("conversations"))) {
      read_conversation(*dict.find("conversations"), "conversations");
      add_system(dict);
    } else if (is_given(dict.find("prompt")) && is_given(dict.find("completion"))) {
      read_completion(*dict.find("prompt"), *dict.find("completion"));
    } else if (is_given(dict.find("instruction")) && is_given(dict.find("output"))) {
      read_alpaca(dict);
    } else if (is_given(dict.find("text"))) {
      sample_.format = SampleFormat::text;
      sample_.completion = text_of(*dict.find("text"), "text").bytes();
    } else {
      std::string names;
      for (const auto& [key, value] : dict.items()) names += (names.empty() ? "" : ", ") + key.text()->bytes();
      constexpr std::size_t kShown = 200;
      refuse(names.empty() ? "it has no keys" : fmt::format("its keys are {}", names.substr(0, kShown)), kFormats);
    }
  }

  // A list, or a text with its JSON.
  void read_tools(const Dict& dict) {
    sample_.tools = None{};
    const Value* value = dict.find("tools");
    if (!is_given(value)) return;
    sample_.tools = *value;
    if (const Text* text = value->text()) {
      if (text->bytes().find_first_not_of(" \t\r\n") == std::string::npos) {
        sample_.tools = None{};
        return;
      }
      jinja::JsonResult parsed = jinja::parse_json(text->bytes(), Origin::data);
      if (!parsed.fault.empty()) refuse(fmt::format("tools is text that is no JSON: {}", parsed.fault), "a list of objects");
      sample_.tools = std::move(parsed.value);
    }
    for (const Value& tool : list_of(sample_.tools, "tools").items) {
      if (tool.dict() == nullptr) refuse(fmt::format("a tool is of the type {}", tool.type()), "an object");
    }
  }

  void read_variables(const Dict& dict) {
    const Value* value = dict.find("chat_template_kwargs");
    if (!is_given(value)) return;
    if (value->dict() == nullptr) refuse("chat_template_kwargs is no object", "an object");
    for (const auto& [key, each] : value->dict()->items()) {
      for (const char* taken : {"messages", "tools", "documents", "add_generation_prompt"}) {
        if (key.text()->bytes() == taken) refuse(fmt::format("chat_template_kwargs sets {}", taken), "other names");
      }
      sample_.variables.emplace_back(key.text()->bytes(), each);
    }
  }

  // Messages with `role` and `content`, or ShareGPT's with `from` and `value`.
  void read_conversation(const Value& value, std::string_view key) {
    const List& list = list_of(value, key);
    const Dict* first = list.items.empty() ? nullptr : list.items.front().dict();
    const bool sharegpt = first != nullptr && first->find("role") == nullptr && first->find("from") != nullptr;
    sample_.format = sharegpt ? SampleFormat::sharegpt : SampleFormat::messages;
    std::vector<Value> messages;
    add_messages(list, sharegpt, key, messages);
    if (messages.empty()) refuse(fmt::format("{} is empty", key), "one message or more");
    sample_.messages = jinja::make_list(std::move(messages));
  }

  void add_messages(const List& list, bool sharegpt, std::string_view key, std::vector<Value>& messages) {
    for (const Value& each : list.items) {
      const std::string what = fmt::format("message {} of {}", messages.size() + 1, key);
      if (each.dict() == nullptr) refuse(fmt::format("{} is of the type {}", what, each.type()), "an object");
      sample_.trained.push_back(weight_of(*each.dict(), what));
      messages.push_back(sharegpt ? sharegpt_message(*each.dict(), what) : message(*each.dict(), what));
    }
  }

  bool weight_of(const Dict& message, const std::string& what) const {
    const Value* weight = message.find("weight");
    if (!is_given(weight)) return true;
    for (const int known : {0, 1}) {
      if (equal(*weight, Value(known))) return known == 1;
    }
    refuse(fmt::format("the weight of {} is {}", what, repr_of(*weight).bytes().substr(0, 40)), "0 or 1");
  }

  // The message without null keys and without `weight`, which no template knows.
  Value message(const Dict& from, const std::string& what) const {
    constexpr std::size_t kMostRole = 64;
    const Value* role = from.find("role");
    if (!is_given(role)) refuse(fmt::format("{} has no role", what), "role and content");
    const std::string& name = text_of(*role, "the role of " + what).bytes();
    const bool plain = std::ranges::all_of(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.'; });
    static const std::vector<std::string> kKnown{"assistant", "user",  "system",   "tool",
                                                 "developer", "tools", "function", "functions"};
    if (const std::string known = meant_role(name, kKnown); !known.empty()) {
      refuse(fmt::format("the role of {} is {}", what, repr_of(*role).bytes().substr(0, 80)), fmt::format("'{}'", known));
    }
    if (name.empty() || name.size() > kMostRole || !plain) {
      refuse(fmt::format("the role of {} is {}", what, repr_of(*role).bytes().substr(0, 80)), "letters, digits, _, - and .");
    }
    Dict out;
    for (const auto& [key, value] : from.items()) {
      if (value.is_none() || key.text()->bytes() == "weight") continue;
      out.set(key, value);
    }
    if (const Value* content = out.find("content")) {
      check_content(*content, what);
    } else if (name != "assistant") {
      refuse(fmt::format("{} has no content", what), "text, or a list of parts");
    }
    if (const Value* calls = out.find("tool_calls")) {
      for (const Value& call : list_of(*calls, "tool_calls of " + what).items) {
        if (call.dict() == nullptr) refuse(fmt::format("a tool call of {} is of the type {}", what, call.type()), "an object");
      }
    }
    return out;
  }

  void check_content(const Value& content, const std::string& what) const {
    if (content.text() != nullptr) return;
    for (const Value& part : list_of(content, "the content of " + what).items) {
      const Value* type = part.dict() != nullptr ? part.dict()->find("type") : nullptr;
      if (type == nullptr || type->text() == nullptr) {
        refuse(fmt::format("a part of the content of {} has no type", what), "{\"type\": \"text\", \"text\": \"...\"}");
      }
      if (type->text()->bytes() != "text") {
        refuse_feature(fmt::format("a part of the content of {} is of the type {}", what, type->text()->bytes().substr(0, 40)),
                       "text alone");
      }
      const Value* text = part.dict()->find("text");
      if (text == nullptr || text->text() == nullptr) refuse(fmt::format("a part of {} has no text", what), "text");
    }
  }

  Value sharegpt_message(const Dict& from, const std::string& what) const {
    constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
        {"human", "user"},        {"user", "user"},       {"gpt", "assistant"},   {"assistant", "assistant"},
        {"chatgpt", "assistant"}, {"model", "assistant"}, {"bing", "assistant"},  {"bard", "assistant"},
        {"system", "system"},     {"tool", "tool"},       {"observation", "tool"}};
    const Value* speaker = from.find("from");
    const Value* value = from.find("value");
    if (!is_given(speaker) || !is_given(value)) refuse(fmt::format("{} lacks from or value", what), "both");
    const std::string& name = text_of(*speaker, "from of " + what).bytes();
    if (name == "function_call") {
      refuse_feature(fmt::format("{} is from function_call", what), "messages with tool_calls for calls of tools");
    }
    const auto* role = std::ranges::find(kRoles, name, [](const auto& each) { return each.first; });
    if (role == std::end(kRoles)) {
      std::vector<std::string> names;
      for (const auto& each : kRoles) names.emplace_back(each.first);
      const std::string known = meant_role(name, names);
      refuse(fmt::format("{} is from '{}'", what, name.substr(0, 40)),
             known.empty() ? "human, gpt, system or tool" : fmt::format("'{}'", known));
    }
    Dict out;
    out.set(Text("role"), text_value(role->second));
    out.set(Text("content"), text_of(*value, "the value of " + what));
    return out;
  }

  // The key `system` of a sample becomes its first message.
  void add_system(const Dict& dict) {
    const Value* system = dict.find("system");
    if (!is_given(system) || text_of(*system, "system").empty()) return;
    std::vector<Value> messages = sample_.messages.list()->items;
    messages.insert(messages.begin(), spoken("system", *system->text()));
    sample_.trained.insert(sample_.trained.begin(), true);
    sample_.messages = jinja::make_list(std::move(messages));
  }

  static Value spoken(std::string_view role, Text content) {
    Dict out;
    out.set(Text("role"), text_value(role));
    out.set(Text("content"), std::move(content));
    return out;
  }

  void read_completion(const Value& prompt, const Value& completion) {
    sample_.format = SampleFormat::prompt_completion;
    if (prompt.text() != nullptr && completion.text() != nullptr) {
      sample_.prompt = prompt.text()->bytes();
      sample_.completion = completion.text()->bytes();
      return;
    }
    if (prompt.list() == nullptr || completion.list() == nullptr) {
      refuse(fmt::format("prompt is of the type {} and completion of the type {}", prompt.type(), completion.type()),
             "two texts, or two lists of messages");
    }
    std::vector<Value> messages;
    add_messages(*prompt.list(), false, "prompt", messages);
    sample_.first_trained = messages.size();
    add_messages(*completion.list(), false, "prompt and completion", messages);
    if (messages.size() == sample_.first_trained) refuse("completion is empty", "one message or more");
    sample_.messages = jinja::make_list(std::move(messages));
  }

  void read_alpaca(const Dict& dict) {
    sample_.format = SampleFormat::alpaca;
    if (const Value* history = dict.find("history"); is_given(history) && is_true(*history)) {
      refuse_feature("it has the key history", "messages, for samples of several turns");
    }
    Text question = text_of(*dict.find("instruction"), "instruction");
    if (const Value* input = dict.find("input"); is_given(input) && !text_of(*input, "input").empty()) {
      question.append("\n", Origin::data);
      question.append(*input->text());
    }
    std::vector<Value> messages;
    if (const Value* system = dict.find("system"); is_given(system) && !text_of(*system, "system").empty()) {
      messages.push_back(spoken("system", *system->text()));
    }
    messages.push_back(spoken("user", std::move(question)));
    messages.push_back(spoken("assistant", text_of(*dict.find("output"), "output")));
    sample_.trained.assign(messages.size(), true);
    sample_.messages = jinja::make_list(std::move(messages));
  }

  ChatSample sample_;
};

void refuse_other_kinds(const File& file) {
  const std::optional<ForeignKind> kind = foreign_kind(file, false, 0);
  if (!kind || kind->json) return;
  throw data_error("E-DATA-FORMAT", fmt::format("{}:1", file.path()), fmt::format("it is {}", kind->what),
                   "samples as JSON, one a line or in an array", {kind->samples.empty() ? kind->remedy : kind->samples});
}

}  // namespace

std::string_view name_of(SampleFormat format) {
  constexpr std::array<std::string_view, kSampleFormats> kNames{"messages", "sharegpt", "alpaca", "prompt and completion",
                                                                "text"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string ChatSample::where() const { return fmt::format("{}:{}", file, line); }

ChatSample parse_sample(std::string_view json, ChatSample sample) { return SampleParser(std::move(sample)).read(json); }

SampleReader::SampleReader(const DataPaths& paths, std::int64_t most, Hasher* read)
    : files_(data_files(paths)), most_(most), read_(read) {}

std::optional<ChatSample> SampleReader::next() {
  for (;;) {
    if (!records_) {
      if (next_file_ == files_.size()) return {};
      const std::filesystem::path& path = files_[next_file_++];
      refuse_other_kinds(File::open(path, "E-DATA-MISSING"));
      records_.emplace(path, most_, read_);
    }
    const std::optional<JsonRecord> record = records_->next();
    if (!record) {
      if (read_ != nullptr) read_->add(fmt::format("{}", records_->file().size()));
      records_.reset();
      continue;
    }
    ChatSample sample;
    sample.file = records_->file().path();
    sample.line = record->line;
    sample.index = samples_++;
    sample = parse_sample(record->text, std::move(sample));
    ++counts_[static_cast<std::size_t>(sample.format)];
    return sample;
  }
}

}  // namespace plimsoll
