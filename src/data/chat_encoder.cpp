#include "data/chat_encoder.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "data/document_encoder.h"

namespace plimsoll {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

// The value with its texts marked as the template's own.
Value trusted(const Value& value) {
  if (const Text* text = value.text()) return Text(text->bytes(), Origin::of_template);
  if (const List* list = value.list()) {
    std::vector<Value> items;
    for (const Value& item : list->items) items.push_back(trusted(item));
    return jinja::make_list(std::move(items), list->kind);
  }
  const Dict* dict = value.dict();
  if (dict == nullptr) return value;
  Dict out;
  for (const auto& [key, each] : dict->items()) out.set(trusted(key), trusted(each));
  return out;
}

const std::string& role_of(const Value& message) { return message.dict()->find("role")->text()->bytes(); }
bool is_assistant(const Value& message) { return role_of(message) == "assistant"; }

// A message in the form that transformers gives to a template: the reasoning stands under all of its names. The role, from which
// templates build their own tokens, and the assistant's texts count as the template's.
Value seen(const Value& message) {
  const Value* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr) reasoning = message.dict()->find(name);
  }
  Dict out;
  if (reasoning != nullptr) out.set(Text("thinking"), *reasoning);
  for (const auto& [key, value] : message.dict()->items()) {
    out.set(key, key.text()->bytes() == "role" ? trusted(value) : value);
  }
  if (reasoning != nullptr) out.set(Text("reasoning_content"), *reasoning);
  Value whole = std::move(out);
  return is_assistant(message) ? trusted(whole) : whole;
}

Value seen_messages(const ChatSample& sample) {
  std::vector<Value> messages;
  for (const Value& message : sample.messages.list()->items) messages.push_back(seen(message));
  return jinja::make_list(std::move(messages));
}

Value first_of(const Value& messages, std::size_t count) {
  const std::vector<Value>& items = messages.list()->items;
  if (count == items.size()) return messages;
  return jinja::make_list(std::vector<Value>(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count)));
}

Error mask_error(const ChatSample& sample, std::string why) {
  return data_error("E-CHAT-MASK", sample.where(), std::move(why),
                    "a template that renders a turn independently of later messages, or has {% generation %} marks",
                    {Remedy(Change("data.template", "FILE"), "with a template for training"), Change("data.loss", "last")});
}

}  // namespace

// A trained part of a text, in bytes.
struct ChatEncoder::Span {
  std::size_t begin = 0, end = 0;
  std::optional<std::size_t> message;
};

std::size_t EncodedSample::trained_tokens() const {
  return static_cast<std::size_t>(std::ranges::count(trained, std::uint8_t{1}));
}

ChatEncoder::ChatEncoder(Tokenizer& tokenizer, const ChatTemplates* templates, ChatOptions options)
    : tokenizer_(tokenizer), templates_(templates), options_(options) {}

jinja::Rendering ChatEncoder::render(const ChatSample& sample, const Value& messages, std::size_t count, bool prompt) const {
  if (templates_ == nullptr) {
    throw data_error("E-CHAT-TEMPLATE", sample.where(), "the sample is a conversation, and the model has no chat template",
                     "chat_template.jinja, or the key chat_template of tokenizer_config.json", {Change("data.template", "FILE")});
  }
  jinja::RenderInput input;
  input.now = options_.now;
  input.variables = {{"messages", first_of(messages, count)},
                     {"tools", sample.tools},
                     {"documents", jinja::None{}},
                     {"add_generation_prompt", prompt}};
  for (const auto& [name, text] : templates_->tokens) input.variables.emplace_back(name, Text(text));
  // Variables of the sample replace tokens of the same name.
  for (const auto& variable : sample.variables) input.variables.push_back(variable);
  const jinja::Template& chosen = templates_->choose(!sample.tools.is_none());
  try {
    return chosen.render(input);
  } catch (Error& error) {
    if (error.code != "E-CHAT-TEMPLATE") throw;
    throw data_error(error.code, fmt::format("{}, for {}", error.where, sample.where()), error.message, error.expected,
                     error.remedies);
  }
}

std::string ChatEncoder::render(const ChatSample& sample) const {
  return render(sample, seen_messages(sample), sample.messages.list()->items.size(), false).text.bytes();
}

EncodedPrompt ChatEncoder::encode_prompt(const ChatSample& sample) {
  const jinja::Rendering whole = render(sample, seen_messages(sample), sample.messages.list()->items.size(), true);
  return {whole.text.bytes(), tokenizer_.encode_traced(whole.text.bytes(), whole.text.data()).tokens};
}

std::optional<Token> ChatEncoder::end_of_turn() {
  constexpr std::string_view kAnswer = "plimsoll";
  ChatSample sample = parse_sample(
      fmt::format(R"({{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": "{}"}}]}})", kAnswer),
      {});
  std::string whole;
  try {
    whole = render(sample);
  } catch (const Error& error) {
    if (error.code != "E-CHAT-TEMPLATE") throw;
    return {};  // encoding a conversation reports the fault
  }
  const std::size_t at = whole.rfind(kAnswer);
  if (at == std::string::npos) return {};
  const std::size_t behind = whole.find_first_not_of(" \n", at + kAnswer.size());
  if (behind == std::string::npos) return {};
  const std::vector<Token> tokens = tokenizer_.encode(whole.substr(behind), SpecialTokens::leave_out);
  if (tokens.empty() || tokenizer_.added_text(tokens.front()).empty()) return {};
  return tokens.front();
}

EncodedSample ChatEncoder::encode(const ChatSample& sample) {
  if (sample.is_chat()) return encode_chat(sample);
  return sample.format == SampleFormat::text ? encode_text(sample) : encode_completion(sample);
}

EncodedSample ChatEncoder::encode_chat(const ChatSample& sample) {
  const Value messages = seen_messages(sample);
  const std::vector<Value>& items = messages.list()->items;
  std::size_t count = items.size();
  std::vector<std::size_t> turns;  // of the assistant
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (is_assistant(items[i])) turns.push_back(i);
  }
  if (options_.loss == ChatLoss::last && !turns.empty()) count = turns.back() + 1;
  std::vector<bool> wanted(items.size());  // true for each trained message
  for (const std::size_t turn : turns) {
    const bool counts = options_.loss == ChatLoss::all || turn == turns.back();
    wanted[turn] = counts && turn >= sample.first_trained && sample.trained[turn];
  }
  const jinja::Rendering whole = render(sample, messages, count, false);
  const std::vector<Span> spans = templates_->choose(!sample.tools.is_none()).has_marks()
                                      ? marked_spans(sample, whole.text, turns, wanted)
                                      : rendered_spans(sample, messages, count, whole.text.bytes(), wanted);
  EncodedSample result;
  result.read_clock = whole.read_clock;
  add_tokens(whole.text, spans, result);
  return result;
}

// A token is trained if it reaches into a span. Tokens and spans come in the order of the text. The ranges of tokens are not
// kept.
void ChatEncoder::add_tokens(const Text& text, const std::vector<Span>& spans, EncodedSample& result) {
  std::vector<EncodedTurn> turns;
  for (const Span& span : spans) turns.push_back({span.message, 0, 0});
  std::size_t next = 0;  // the first span into which a later token may reach
  tokenizer_.encode_traced(text.bytes(), text.data(), [&](std::span<const Token> tokens, std::span<const ByteRange> ranges) {
    if (result.tokens.empty() && !ranges.empty() && ranges.back().end < text.size()) {
      // Reserves room by estimate, so that the tokens of a long text move once.
      const double share = static_cast<double>(ranges.back().end) / static_cast<double>(text.size());
      const auto all = static_cast<std::size_t>(1.05 * static_cast<double>(tokens.size()) / std::max(share, 1e-6));
      result.tokens.reserve(std::min(all, text.size()));
      result.trained.reserve(std::min(all, text.size()));
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t at = result.tokens.size();
      result.tokens.push_back(tokens[i]);
      result.trained.push_back(0);
      while (next < spans.size() && spans[next].end <= ranges[i].begin) ++next;
      for (std::size_t each = next; each < spans.size() && spans[each].begin < ranges[i].end; ++each) {
        if (ranges[i].begin >= spans[each].end) continue;
        result.trained.back() = 1;
        EncodedTurn& turn = turns[each];
        if (turn.begin == turn.end) turn.begin = at;
        turn.end = at + 1;
      }
    }
  });
  for (const EncodedTurn& turn : turns) {
    if (turn.begin < turn.end) result.turns.push_back(turn);
  }
}

std::vector<ChatEncoder::Span> ChatEncoder::marked_spans(const ChatSample& sample, const Text& text,
                                                         const std::vector<std::size_t>& turns,
                                                         const std::vector<bool>& wanted) const {
  std::vector<Span> spans;
  for (const jinja::Mark& mark : text.marks()) {
    spans.push_back({mark.begin, mark.end, mark.turn < 0 ? std::nullopt : std::optional<std::size_t>(mark.turn)});
  }
  std::ranges::stable_sort(spans, {}, &Span::begin);
  if (spans.size() == turns.size() && std::ranges::any_of(spans, [](const Span& span) { return !span.message; })) {
    for (std::size_t i = 0; i < spans.size(); ++i) spans[i].message = turns[i];
  }
  const bool all = std::ranges::all_of(turns, [&](std::size_t turn) { return wanted[turn]; });
  if (all) return spans;
  if (std::ranges::any_of(spans, [](const Span& span) { return !span.message; })) {
    throw mask_error(sample, fmt::format("{} turns have {} marks of the template, so that single turns cannot be left out",
                                         turns.size(), spans.size()));
  }
  std::erase_if(spans, [&](const Span& span) { return !wanted[*span.message]; });
  return spans;
}

// Each trained turn costs a rendering of all messages before it.
void ChatEncoder::check_renderings(const ChatSample& sample, std::size_t count, const std::vector<bool>& wanted) {
  constexpr std::size_t kMost = 1'000'000;  // messages
  std::size_t turns = 0, messages = 0;
  for (std::size_t turn = 0; turn < count; ++turn) {
    if (!wanted[turn]) continue;
    ++turns;
    messages += 2 * turn + 1;
  }
  if (messages <= kMost) return;
  throw mask_error(sample,
                   fmt::format("to find its {} trained turns among {} messages takes the rendering of {} messages, and {} "
                               "are the most",
                               turns, count, messages, kMost));
}

std::vector<ChatEncoder::Span> ChatEncoder::rendered_spans(const ChatSample& sample, const Value& messages, std::size_t count,
                                                           const std::string& whole, const std::vector<bool>& wanted) const {
  check_renderings(sample, count, wanted);
  std::vector<Span> spans;
  for (std::size_t turn = 0; turn < count; ++turn) {
    if (!wanted[turn]) continue;
    const auto rendered = [&](std::size_t first, bool prompt) {
      try {
        return render(sample, messages, first, prompt).text;
      } catch (const Error& error) {
        if (error.code != "E-CHAT-TEMPLATE") throw;
        throw mask_error(sample, fmt::format("the template does not render the {} message(s) {} turn {}: {}", first,
                                             prompt ? "before" : "up to", turn + 1, error.message));
      }
    };
    const Text before = rendered(turn, true), shorter = turn + 1 == count ? Text() : rendered(turn + 1, false);
    const std::string& upto = turn + 1 == count ? whole : shorter.bytes();
    if (!whole.starts_with(upto)) {
      throw mask_error(sample,
                       fmt::format("the template renders turn {} or an earlier one differently when {} more message(s) follow",
                                   turn + 1, count - turn - 1));
    }
    if (!upto.starts_with(before.bytes())) {
      throw mask_error(
          sample,
          fmt::format("turn {} does not begin with the template's generation prompt, or changes the text before it", turn + 1));
    }
    spans.push_back({before.size(), upto.size(), turn});
  }
  return spans;
}

EncodedSample ChatEncoder::encode_text(const ChatSample& sample) {
  EncodedSample result;
  DocumentEncoder encoder(tokenizer_, options_.end, sample.where(), Documents::one);
  encoder.encode_piece(sample.completion, true, result.tokens);
  result.trained.assign(result.tokens.size(), 1);
  result.own_begin = encoder.began_itself();
  result.own_end = encoder.ended_itself();
  return result;
}

EncodedSample ChatEncoder::encode_completion(const ChatSample& sample) {
  const std::string whole = sample.prompt + sample.completion;
  const TextEdges edges(tokenizer_, options_.end);
  EncodedSample result;
  result.own_begin = edges.begins(whole);
  result.own_end = edges.ends(sample.completion);
  const auto tokens_of_text = [&](const std::string& text) {
    std::vector<Token> tokens;
    if (!result.own_begin) edges.put_before(tokens);
    tokenizer_.encode_part(text, {}, tokens);
    return tokens;
  };
  const std::vector<Token> prompt = tokens_of_text(sample.prompt);
  result.tokens = tokens_of_text(whole);
  const auto common = std::ranges::mismatch(prompt, result.tokens).in1 - prompt.begin();
  if (!result.own_end) edges.put_behind(result.tokens);
  result.trained.assign(result.tokens.size(), 1);
  std::fill(result.trained.begin(), result.trained.begin() + common, std::uint8_t{0});
  return result;
}

}  // namespace plimsoll
