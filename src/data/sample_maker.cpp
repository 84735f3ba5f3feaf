#include "data/sample_maker.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "data/cache_folders.h"
#include "data/chat_encoder.h"
#include "data/conversation.h"
#include "data/document_encoder.h"
#include "data/file_pieces.h"
#include "data/held_out.h"
#include "data/sample_file.h"
#include "formats/chat_template.h"
#include "formats/file.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {
namespace {

// Changes with the encoding of the same data.
constexpr std::string_view kVersion = "samples/3";

// The date for templates in training: the default of Llama's own templates.
std::tm date_of_training() {
  std::tm date{};
  date.tm_year = 2024 - 1900;
  date.tm_mon = 6;
  date.tm_mday = 26;
  date.tm_wday = 5;
  date.tm_yday = 207;
  return date;
}

// The tokens of a sample with the marks of trained ones.
struct Row {
  std::span<const Token> tokens;
  std::span<const std::uint8_t> trained;

  std::size_t size() const { return tokens.size(); }
  Row part(std::size_t begin, std::size_t count) const { return {tokens.subspan(begin, count), trained.subspan(begin, count)}; }
  bool counts() const { return tokens.size() > 1 && std::ranges::count(trained.subspan(1), std::uint8_t{1}) > 0; }
};

class Maker {
 public:
  explicit Maker(const SampleRequest& request) : request_(request), folders_{request.cache, request.elsewhere} {
    if (request.tokenizer.empty()) {
      throw config_error("E-CONFIG-VALUE", "data.vocabulary", "data.format is \"chat\" and no vocabulary is given",
                         "a folder with tokenizer.json, or a GGUF file");
    }
    tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(request.tokenizer));
    if (tokenizer_->size() > request.vocab && request.trained.empty()) {
      throw data_error("E-DATA-TOKEN", request.tokenizer.string(),
                       fmt::format("it has {} tokens and the model has {}", tokenizer_->size(), request.vocab),
                       "a model whose vocabulary is at least as large", {Change("model.vocab", tokenizer_->size())});
    }
    templates_ = load_chat_templates(request.tokenizer, request.chat_template);
    end_ = end_of_document(*tokenizer_, request.tokenizer, request.trained);
    if (end_) ends_.push_back(*end_);
    if (!templates_) return;
    const std::optional<Token> end = ChatEncoder(*tokenizer_, &*templates_, {.now = date_of_training()}).end_of_turn();
    if (end) ends_.push_back(*end);
  }

  template <class Visit>
  void for_each_sample(const Visit& visit, Hasher* read = nullptr) const {
    const ChatLoss loss = request_.turns == TrainedTurns::last ? ChatLoss::last : ChatLoss::all;
    ChatEncoder encoder(*tokenizer_, templates_ ? &*templates_ : nullptr, {loss, end_, date_of_training()});
    SampleReader reader(request_.paths, request_.most_bytes, read);
    bool any = false;
    while (std::optional<ChatSample> sample = reader.next()) {
      any = true;
      EncodedSample encoded = encoder.encode(*sample);
      if (request_.turns == TrainedTurns::all) std::ranges::fill(encoded.trained, std::uint8_t{1});
      check_rows(*sample, encoded);
      if (!visit(*sample, encoded, *tokenizer_)) return;
    }
    if (!any) throw data_error("E-DATA-EMPTY", request_.paths.text(), "it holds no sample", "JSON samples to train on");
  }

  std::optional<SampleFiles> find() {
    if (train_.empty()) find_names();
    std::optional<TokenFile> train = found(train_);
    std::optional<TokenFile> rest = request_.held_out > 0 ? found(held_out_) : std::nullopt;
    if (!train || (request_.held_out > 0 && !rest)) return {};
    return SampleFiles{*std::move(train), std::move(rest)};
  }

  SampleFiles make() {
    const std::filesystem::path folder = folders_.fill({train_, held_out_}, [&](const std::filesystem::path& to) { encode(to); });
    const auto made = [&](const std::string& name) { return open(File::open(folder / name, "E-DATA-MISSING")); };
    SampleFiles files{made(train_), {}};
    if (request_.held_out > 0) files.held_out = made(held_out_);
    return files;
  }

 private:
  TokenFile open(File file) const {
    return open_sample_file(std::move(file), request_.paths.text(), request_.vocab, /*verify=*/true, !request_.trained.empty());
  }

  // Nothing if the cache lacks the file, or the file was cut or damaged.
  std::optional<TokenFile> found(const std::string& name) const {
    std::optional<File> file = folders_.find(name);
    if (!file) return {};
    try {
      return open(*std::move(file));
    } catch (const Error& error) {
      if (error.code == "E-DATA-TOKEN") throw;
      return {};
    }
  }

  void check_rows(const ChatSample& sample, const EncodedSample& encoded) const {
    const auto large = std::ranges::find_if(encoded.tokens, [&](Token token) { return token >= request_.vocab; });
    if (large == encoded.tokens.end()) return;
    const std::string text = tokenizer_->decode(std::vector<Token>{*large}, /*skip_special=*/false);
    throw rowless_token_error(sample.where(), text, *large, request_.vocab);
  }

  // Names the files by a hash of all inputs, for which the data are read.
  void find_names() {
    Hasher hasher;
    hasher.add(kVersion).add(tokenizer_->hash()).add(end_ ? fmt::format("{}", *end_) : "");
    hasher.add(fmt::format("{} {} {} {:.17g}", static_cast<int>(request_.turns), static_cast<int>(request_.too_long),
                           request_.row, request_.held_out));
    if (templates_) {
      for (const auto& [name, one] : templates_->by_name) hasher.add(name).add(one.hash());
      for (const auto& [name, token] : templates_->tokens) hasher.add(name).add(token);
    }
    Hasher data;
    for (const std::filesystem::path& path : data_files(request_.paths)) {
      const File file = File::open(path, "E-DATA-MISSING");
      for_each_piece(file, 0, file.size(), [&](std::span<const std::byte> piece) { data.add(piece); });
      data.add(fmt::format("{}", file.size()));
    }
    data_ = data.hex();
    hasher.add(data_);
    train_ = fmt::format("samples-{}.bin", hasher.hex());
    held_out_ = fmt::format("samples-{}-held-out.bin", hasher.hex());
  }

  void encode(const std::filesystem::path& folder) {
    SampleFileWriter train(folder / train_);
    std::optional<SampleFileWriter> rest;
    if (request_.held_out > 0) rest.emplace(folder / held_out_);
    SampleCounts counts, rest_counts;
    Hasher read;
    const auto take = [&](const ChatSample& sample, const EncodedSample& encoded, const Tokenizer&) {
      const bool out = is_held_out(encoded.tokens, request_.held_out);
      SampleCounts& own = out ? rest_counts : counts;
      own.own_begins += encoded.own_begin ? 1 : 0;
      own.own_ends += encoded.own_end ? 1 : 0;
      own.doubled += doubles(encoded.tokens) ? 1 : 0;
      add({encoded.tokens, encoded.trained}, sample, out ? *rest : train, own);
      return true;
    };
    for_each_sample(take, &read);
    // The samples would get the name of the previous content.
    if (read.hex() != data_) throw changed_data(request_.paths.text());
    if (train.samples() == 0 && (!rest || rest->samples() == 0)) throw untrained(counts, rest_counts);
    if (rest) require_both_sides(request_.paths, "samples", train.samples(), rest->samples(), "with separate samples");
    train.commit(counts);
    if (rest) rest->commit(rest_counts);
  }

  void add(Row sample, const ChatSample& from, SampleFileWriter& to, SampleCounts& counts) const {
    ++counts.read;
    const auto most = static_cast<std::size_t>(request_.row) + 1;
    LongSamples rule = request_.too_long;
    if (rule == LongSamples::automatic) rule = from.is_chat() ? LongSamples::cut_end : LongSamples::split;
    if (sample.size() > most) {
      switch (rule) {
        case LongSamples::drop: ++counts.dropped; return;
        case LongSamples::split: ++counts.split; return split(sample, to, counts);
        case LongSamples::cut_begin: sample = sample.part(sample.size() - most, most); break;
        default: sample = sample.part(0, most); break;
      }
      ++counts.cut;
    }
    if (!sample.counts()) {
      ++counts.untrained;
      return;
    }
    if (from.format != SampleFormat::text && !ends(sample)) ++counts.unended;
    to.add(sample.tokens, sample.trained);
  }

  // True if the sample trains a token that ends an answer. Without one a model never stops.
  bool ends(const Row& sample) const {
    for (std::size_t i = 1; i < sample.size(); ++i) {
      if (sample.trained[i] != 0 && std::ranges::find(ends_, sample.tokens[i]) != ends_.end()) return true;
    }
    return false;
  }

  // The same end token twice in a row, or two begin tokens at the front.
  bool doubles(std::span<const Token> tokens) const {
    const std::vector<Token>& before = tokenizer_->before();
    if (tokens.size() > 1 && !before.empty() && tokens[0] == before.back() && tokens[1] == tokens[0]) return true;
    return std::ranges::adjacent_find(
               tokens, [&](Token a, Token b) { return a == b && std::ranges::find(ends_, a) != ends_.end(); }) != tokens.end();
  }

  // Each piece begins with the last token of the previous one, like the samples of a stream.
  void split(const Row& sample, SampleFileWriter& to, SampleCounts& counts) const {
    const auto row = static_cast<std::size_t>(request_.row);
    for (std::size_t begin = 0; begin + 1 < sample.size(); begin += row) {
      const Row piece = sample.part(begin, std::min(row + 1, sample.size() - begin));
      if (piece.counts()) {
        to.add(piece.tokens, piece.trained);
      } else {
        ++counts.untrained;
      }
    }
  }

  Error untrained(const SampleCounts& a, const SampleCounts& b) const {
    return data_error(
        "E-CHAT-UNTRAINED", request_.paths.text(),
        fmt::format("none of its {} samples has a token that is trained on ({} of them are longer than the context)",
                    a.read + b.read, a.dropped + a.cut + b.dropped + b.cut),
        "samples with turns of the assistant that fit model.context",
        {Change("data.loss", "all"), Change("data.too_long", "cut_begin")});
  }

  const SampleRequest& request_;
  CacheFolders folders_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ChatTemplates> templates_;
  std::optional<Token> end_;
  std::vector<Token> ends_;       // of answers
  std::string train_, held_out_;  // names of the files
  std::string data_;              // hash of the data
};

}  // namespace

bool is_held_out(std::span<const Token> tokens, double share) { return is_held_out(std::as_bytes(tokens), share); }

SampleFiles open_samples(const SampleRequest& request) {
  Maker maker(request);
  std::optional<SampleFiles> found = maker.find();
  return found ? *std::move(found) : maker.make();
}

void show_samples(const SampleRequest& request,
                  const std::function<bool(const ChatSample&, const EncodedSample&, const Tokenizer&)>& visit) {
  Maker(request).for_each_sample(visit);
}

std::optional<SampleFiles> find_samples(const SampleRequest& request) { return Maker(request).find(); }

}  // namespace plimsoll
