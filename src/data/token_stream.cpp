#include "data/token_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "data/data_formats.h"
#include "data/data_kinds.h"
#include "data/order.h"
#include "data/token_place.h"
#include "data/token_source.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

constexpr auto kFormats = [] {
  std::array<std::string_view, kStreamFormats.size() + 1> all{"auto"};
  std::ranges::copy(kStreamFormats, all.begin() + 1);
  return all;
}();

SourceRequest source_request(const DataRequest& request, const DataPaths& paths) {
  const TokenRequest& tokens = request.tokens;
  SourceRequest source{paths, request.format, tokens.vocab, tokens.vocabulary, request.cache, request.elsewhere};
  if (tokens.own_tokens) source.trained = tokens.init;
  source.keeps_vocab = !tokens.init.empty();
  return source;
}

DataFiles open(const DataRequest& request) {
  TokenFile train = open_source(source_request(request, request.train));
  DataFiles files;
  if (!request.validation.empty()) {
    TokenFile validation = open_source(source_request(request, request.validation));
    require_one_kind(train, validation);
    files.validation = std::make_unique<TokenStream>(std::move(validation));
  }
  files.train = std::make_unique<TokenStream>(std::move(train));
  return files;
}

std::vector<AssumedData> assume(const DataRequest& request) {
  std::vector<AssumedData> assumed;
  for (const auto& [key, paths] : {std::pair("data.train", request.train), {"data.validation", request.validation}}) {
    const std::optional<std::filesystem::path> missing = first_missing(paths);
    if (!missing) continue;
    const AssumedSource source = assume_source(source_request(request, paths));
    const std::string as = fmt::format("a file of format \"{}\", {} byte{} a token", source.format, source.bytes_per_token,
                                       source.bytes_per_token == 1 ? "" : "s");
    assumed.push_back({key, missing->string(), source.format, RowBytes::of_stream(source.bytes_per_token), as});
  }
  return assumed;
}

RowShape assumed_shape(const DataRequest& request, const std::vector<AssumedData>& assumed) {
  RowShape shape;
  for (const AssumedData& data : assumed) shape = both(shape, {data.bytes});
  for (const auto& [key, paths] : {std::pair("data.train", request.train), {"data.validation", request.validation}}) {
    if (paths.empty() || std::ranges::find(assumed, key, &AssumedData::key) != assumed.end()) continue;
    shape = both(shape, {RowBytes::of_stream(open_source(source_request(request, paths)).bytes_per_token)});
  }
  return shape;
}

std::unique_ptr<DataSet> at(const nlohmann::json& place) {
  return std::make_unique<TokenStream>(token_file_from(place.at("tokens")));
}

std::string raw_format(std::int64_t bytes_per_token) {
  switch (bytes_per_token) {
    case 1: return "bytes";
    case 2: return "u16";
    case 4: return "u32";
  }
  throw internal_error("TokenStream", fmt::format("tokens of {} bytes", bytes_per_token));
}

}  // namespace

const DataKind kTokenStreams{.name = "tokens",
                             .formats = kFormats,
                             .words = {"sample", "token", "tok/s", "cut from one stream"},
                             .open = open,
                             .assume = assume,
                             .assumed_shape = assumed_shape,
                             .at = at};

const DataKind& TokenStream::kind() const { return kTokenStreams; }

std::int64_t TokenStream::count(const Reading& reading) const {
  return make_samples(file_.tokens, reading.row, file_.name).count();
}

std::unique_ptr<SampleSource> TokenStream::source(const Reading& reading) const {
  return std::make_unique<TokenSource>(file_, reading.row);
}

RowShape TokenStream::row_shape(bool) const { return {RowBytes::of_stream(file_.bytes_per_token)}; }

bool TokenStream::has_bare_tokens() const { return file_.format == "u16" || file_.format == "u32" || file_.format == "llmc"; }

// A bad token is found now rather than after hours of training. Training data are checked when they are read.
std::optional<Recurring> TokenStream::check_validation(const DataSet& validation, const Reading& reading,
                                                       std::int64_t samples) const {
  check_tokens(dynamic_cast<const TokenStream&>(validation).file_, reading.row, samples);
  return {};
}

nlohmann::json TokenStream::place() const { return {{"kind", kTokenStreams.name}, {"tokens", to_json(file_)}}; }

std::int64_t TokenStream::most_extracted(const Reading& reading) const { return (file_.tokens - 1) / reading.row; }

Error TokenStream::too_short(const Reading& reading) const {
  return data_error("E-DATA-SHORT", file_.name, fmt::format("it has {} tokens", file_.tokens),
                    fmt::format("two samples of {} tokens, and one token more", reading.row));
}

DataExtract TokenStream::extract(const std::filesystem::path& folder, std::int64_t samples, const Reading& reading) const {
  const Samples part{(samples - 1) * reading.row + std::max<std::int64_t>(reading.row / 2, 1) + 1, reading.row};
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.tokens * file_.bytes_per_token));
  file_.read(0, bytes);
  AtomicFile out(folder / "tokens");
  out.write(bytes);
  out.commit();
  DataExtract extract{{{"data.train", (folder / "tokens").string()}, {"data.format", raw_format(file_.bytes_per_token)}}, {}};
  for (std::int64_t i = 0; i < samples; ++i) extract.units.push_back(part.valid_units(i));
  return extract;
}

}  // namespace plimsoll
