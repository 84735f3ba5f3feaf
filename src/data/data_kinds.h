// The list of all kinds of data, by the values of data.format. A new kind is a DataSet in a file of its own, its name here and in
// data_kinds.cpp.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_set.h"

namespace plimsoll {

// Words about the samples of a kind.
struct DataWords {
  std::string_view sample;    // "sample"
  std::string_view position;  // "token": the unit of lengths and speeds
  std::string_view rate;      // "tok/s"
  std::string_view are;       // "cut from one stream": the samples of a format
};

struct DataKind {
  std::string_view name;                      // "tokens"
  std::span<const std::string_view> formats;  // values of data.format
  DataWords words;
  bool own_lengths = false;  // samples differ in length, and rows may hold several
  bool holds_out = false;    // a share of the training data can be validation
  bool renders = false;      // samples are rendered by a template
  bool pixels = false;       // samples are images with labels

  // The training data and, if the request names some, the validation data. Errors are those of the kind's readers.
  DataFiles (*open)(const DataRequest&) = nullptr;
  // Assumptions about data that are missing; empty if all files are there. A file that cannot be opened is not listed.
  std::vector<AssumedData> (*assume)(const DataRequest&) = nullptr;
  // The shape of a row with these assumptions; data that are there are opened if it depends on them.
  RowShape (*assumed_shape)(const DataRequest&, const std::vector<AssumedData>&) = nullptr;
  // An assumption about data that are there, if planning alone must not prepare them because that takes long; else null.
  std::vector<AssumedData> (*unprepared)(const DataRequest&) = nullptr;
  std::unique_ptr<DataSet> (*at)(const nlohmann::json& place) = nullptr;
  // The first samples of the training data as objects of numbers, for people. Null: there is nothing to show, or `renders`.
  std::vector<nlohmann::json> (*show)(const DataRequest&, std::int64_t samples) = nullptr;
};

extern const DataKind kTokenStreams, kConversations, kImages;

std::span<const DataKind* const> data_kinds();
// The kind of a value of data.format. An unknown one is a token stream, whose reader refuses it by name.
const DataKind& data_kind(std::string_view format);
// The set of DataSet::place() of another process. data_error E-DATA-CHANGED if a file is not the same as there.
std::unique_ptr<DataSet> data_set_at(const nlohmann::json& place);

// "12 samples of 64 tokens", "12 images".
std::string samples_text(const DataKind& kind, std::int64_t samples, std::int64_t row);

}  // namespace plimsoll
