#include "data/conversations.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "data/data_kinds.h"
#include "data/sample_file.h"
#include "data/token_place.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 1> kFormats{"chat"};
constexpr std::int64_t kTokenBytes = 4;

RowBytes rows_of(bool packs) {
  // A row of several samples has one token more for each of them: twice its positions at most.
  return packs ? RowBytes(2 * kTokenBytes, 0) : RowBytes::of_stream(kTokenBytes);
}

DataFiles open(const DataRequest& request) {
  SampleFiles samples = open_samples(sample_request(request, request.train, request.held_out));
  DataFiles files{std::make_unique<Conversations>(std::move(samples.train)), {}};
  if (samples.held_out) files.validation = std::make_unique<Conversations>(*std::move(samples.held_out));
  if (request.held_out > 0 || request.validation.empty()) return files;
  files.validation = std::make_unique<Conversations>(open_samples(sample_request(request, request.validation, 0)).train);
  return files;
}

AssumedData assumed(std::string key, std::string path, bool there) {
  return {std::move(key), std::move(path), "chat", rows_of(false), "a file of format \"chat\", 4 bytes a token", there};
}

std::vector<AssumedData> assume(const DataRequest& request) {
  std::vector<AssumedData> list;
  for (const auto& [key, paths] : {std::pair("data.train", request.train), {"data.validation", request.validation}}) {
    if (const std::optional<std::filesystem::path> missing = first_missing(paths))
      list.push_back(assumed(key, missing->string(), /*there=*/false));
  }
  return list;
}

RowShape assumed_shape(const DataRequest& request, const std::vector<AssumedData>&) { return {rows_of(request.packs)}; }

// Rendering and tokenising take minutes; training does it once.
std::vector<AssumedData> unprepared(const DataRequest& request) {
  const auto made = [&](const DataPaths& paths, double held_out) {
    return paths.empty() || find_samples(sample_request(request, paths, held_out)).has_value();
  };
  if (made(request.train, request.held_out) && made(request.validation, 0)) return {};
  return {assumed("data.train", request.train.text(), /*there=*/true)};
}

std::unique_ptr<DataSet> at(const nlohmann::json& place) {
  return std::make_unique<Conversations>(token_file_from(place.at("tokens")));
}

}  // namespace

const DataKind kConversations{.name = "conversations",
                              .formats = kFormats,
                              .words = {"sample", "token", "tok/s", "conversations"},
                              .own_lengths = true,
                              .holds_out = true,
                              .renders = true,
                              .open = open,
                              .assume = assume,
                              .assumed_shape = assumed_shape,
                              .unprepared = unprepared,
                              .at = at};

const DataKind& Conversations::kind() const { return kConversations; }

std::unique_ptr<SampleSource> Conversations::source(const Reading& reading) const {
  return std::make_unique<StoredSamples>(file_, reading.row, reading.packs);
}

RowShape Conversations::row_shape(bool packs) const { return {rows_of(packs)}; }

std::optional<Recurring> Conversations::check_validation(const DataSet& validation, const Reading& reading, std::int64_t) const {
  return recurring_answers(file_, dynamic_cast<const Conversations&>(validation).file_, reading.row);
}

nlohmann::json Conversations::place() const { return {{"kind", kConversations.name}, {"tokens", to_json(file_)}}; }

SampleRequest sample_request(const DataRequest& request, const DataPaths& paths, double held_out) {
  return {.paths = paths,
          .tokenizer = request.tokens.vocabulary,
          .trained = request.tokens.init,
          .chat_template = request.tokens.chat_template,
          .turns = request.tokens.turns,
          .too_long = request.tokens.too_long,
          .row = request.row,
          .vocab = request.tokens.vocab,
          .held_out = held_out,
          .most_bytes = request.tokens.most_sample_bytes,
          .cache = request.cache,
          .elsewhere = request.elsewhere};
}

}  // namespace plimsoll
