#include "infer/vocabulary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/child.h"
#include "base/error.h"
#include "data/document_encoder.h"
#include "data/source.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBytes = 256;

// A vocabulary may have tokens without a row in the model; a prompt may not.
template <class TextOf>
void check_rows(const std::vector<Token>& prompt, std::int64_t rows, const std::string& where, const TextOf& text_of) {
  const auto large = std::ranges::find_if(prompt, [&](Token token) { return token >= rows; });
  if (large != prompt.end()) throw rowless_token_error(where, text_of(*large), *large, rows);
}

std::vector<Token> encoded(Tokenizer& tokenizer, const std::string& prompt, const PromptTexts& of) {
  std::vector<Token> tokens;
  if (tokenizer.takes_any_bytes()) {
    refuse_unread(prompt, tokenizer.unread(), of.where);
    tokenizer.encode_bytes(prompt, /*last=*/true, tokens);
    return tokens;
  }
  const TextEdges edges(tokenizer, {});
  if (edges.begins(prompt)) {
    if (of.say) of.say(fmt::format("note: the prompt begins with {} itself: none is put before it", edges.begin_text()));
  } else {
    edges.put_before(tokens);
  }
  try {
    tokenizer.encode_part(prompt, {}, tokens);
  } catch (const Error& error) {
    throw data_error(error.code, of.where, error.message, error.expected);
  }
  return tokens;
}

void put(std::string& to, std::uint32_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

// Layout: two counts; the length and the tokens of each prompt; the end of each token's bytes; the bytes.
std::string packed(const Tokenizer& tokenizer, const std::vector<std::vector<Token>>& prompts) {
  std::string out, text;
  put(out, static_cast<std::uint32_t>(prompts.size()));
  put(out, static_cast<std::uint32_t>(tokenizer.size()));
  for (const std::vector<Token>& prompt : prompts) {
    put(out, static_cast<std::uint32_t>(prompt.size()));
    for (const Token token : prompt) put(out, token);
  }
  for (std::int64_t i = 0; i < tokenizer.size(); ++i) {
    text += tokenizer.inside(static_cast<Token>(i));
    put(out, static_cast<std::uint32_t>(text.size()));
  }
  return out + text;
}

std::string packed_of(const std::filesystem::path& folder, const ModelFacts& model, const PromptTexts& prompts) {
  std::vector<std::vector<Token>> tokens;
  Tokenizer tokenizer = Tokenizer::of_vocabulary(folder);
  tokenizer.unread();
  for (const std::string& prompt : prompts.texts) {
    tokens.push_back(encoded(tokenizer, prompt, prompts));
    check_rows(tokens.back(), model.vocab, prompts.where, [&](Token token) { return tokenizer.text_of(token); });
  }
  return packed(tokenizer, tokens);
}

}  // namespace

Vocabulary::Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const PromptTexts& prompts) {
  if (!model.bytes) {
    unpack(run_in_child([&] { return packed_of(folder, model, prompts); }));
    return;
  }
  for (const std::string& prompt : prompts.texts) {
    std::vector<Token> tokens;
    for (const char letter : prompt) tokens.push_back(static_cast<unsigned char>(letter));
    check_rows(tokens, model.vocab, prompts.where, [](Token token) { return std::string(1, static_cast<char>(token)); });
    prompts_.emplace_back(tokens.begin(), tokens.end());
  }
}

std::int64_t Vocabulary::size() const { return ends_.empty() ? kBytes : std::ssize(ends_); }

Bytes Vocabulary::heap() const {
  std::int64_t tokens = 0;
  for (const auto& prompt : prompts_) tokens += std::ssize(prompt);
  return Bytes{std::ssize(text_) + 4 * std::ssize(ends_) + 4 * tokens};
}

std::string Vocabulary::decode(std::int32_t token) const {
  if (ends_.empty()) return std::string(1, static_cast<char>(token));
  const auto index = static_cast<std::size_t>(token);
  const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
  return text_.substr(begin, ends_[index] - begin);
}

void Vocabulary::unpack(const std::string& answer) {
  const char* at = answer.data();
  const auto take = [&](void* to, std::size_t bytes) { std::memcpy(to, at, bytes), at += bytes; };
  std::uint32_t counts[2], length;
  take(counts, sizeof counts);
  for (std::uint32_t i = 0; i < counts[0]; ++i) {
    take(&length, sizeof length);
    take(prompts_.emplace_back(length).data(), std::size_t{4} * length);
  }
  ends_.resize(counts[1]);
  take(ends_.data(), 4 * ends_.size());
  text_.assign(at, answer.data() + answer.size());
}

}  // namespace plimsoll
